"""What a run says, for people and programs: a table, files, charts and a page."""

from labctl.report.pages.report_files import write_report
from labctl.report.text.table import run_table, table_text

__all__ = ["run_table", "table_text", "write_report"]
