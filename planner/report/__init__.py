"""Plan, or difference of plans -> one self-contained HTML page."""

from planner.report.difference import diff_html
from planner.report.page import report_html

__all__ = ["diff_html", "report_html"]
