"""What a run says, for people and programs: a table, files, charts and a page."""

from labctl.report.table import run_table, table_text
from labctl.report.write import write_report

__all__ = ["run_table", "table_text", "write_report"]
