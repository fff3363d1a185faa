"""What a run and ``labctl report`` print of their results, and when."""

from __future__ import annotations

from pathlib import Path

import pytest

from labctl.cli.results.report import make_report
from labctl.errors import JournalError
from labctl.record.reader import RunRecord
from labctl.report.pages.report_files import PAGE_FILE
from tests.unit.synthetic_run import WORK, Bench, build


def test_the_table_does_not_wait_for_the_pages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a run the terminal was blank for as long as they took; here they cannot be written."""
    run = build(tmp_path, Bench(WORK)).path
    (run / PAGE_FILE).mkdir()
    with pytest.raises(JournalError, match="cannot write the report"):
        make_report(RunRecord(run))
    assert "total W" in capsys.readouterr().out
