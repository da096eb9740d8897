"""Plan, or difference of plans -> one self-contained HTML page."""

from planner.report.difference import diff_html
from planner.report.page import Beside, report_html

__all__ = ["Beside", "diff_html", "report_html"]
