"""Plan -> one self-contained HTML page."""

from planner.report.page import report_html

__all__ = ["report_html"]
