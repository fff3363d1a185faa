"""The columns of the tables that are asked: documented, and of the type that their name says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from labctl.report.data.query import query
from labctl.report.data.query_tables import TABLES, sql_type, tables_of
from labctl.report.data.result_files import phase_rows
from tests.unit.report_sample import plan, qd_sweep, summary_of, throttled
from tests.unit.several_drives import several
from tests.unit.synthetic_run import WORK, Bench, build

pytest.importorskip("duckdb", reason="DuckDB is not installed")

DOCS = Path(__file__).parents[4] / "docs"
PYTHON_TYPES = {"VARCHAR": (str,), "BIGINT": (int,), "DOUBLE": (float, int)}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    build(root, Bench(loads=WORK[:3], celsius=lambda t: 40 + t / 10))
    several(root)
    return root


def documented(page: str, heading: str) -> set[str]:
    """The names in the first column of the table below a heading."""
    text = (DOCS / page).read_text()
    lines = text[text.index(heading) :].partition("\n#")[0].splitlines()
    return {name for line in lines if line.startswith("| `") for name in names_in(line)}


def names_in(line: str) -> list[str]:
    return re.findall(r"`([^`]+)`", line.split("|")[1])


def test_every_column_is_documented(runs: Path) -> None:
    of_phases = documented("report.md", "## The columns of phases.csv")
    of_runs = documented("analyses.md", "| column of `runs`")
    of_runs -= {"runs"}
    found = {table: {row[0] for row in query(f"DESCRIBE {table}", [runs]).rows} for table in TABLES}
    assert found["runs"] == of_runs | {"folder"}
    of_drives = of_phases | {"drive", "drive_model", "drive_serial"}
    for table, known in (("phases", of_phases), ("drives", of_drives)):
        patterns = [re.sub(r"<\w+>", "[^ ]+", name) for name in known]
        assert {
            name
            for name in found[table] - {"folder"}
            if not any(re.fullmatch(pattern, name) for pattern in patterns)
        } == set()


def test_a_column_has_the_type_that_its_name_says(runs: Path) -> None:
    for table in TABLES:
        for name, kind, *_ in query(f"DESCRIBE {table}", [runs]).rows:
            assert kind == ("VARCHAR" if name == "folder" else sql_type(name)), name


def test_every_value_fits_the_type_of_its_column(runs: Path) -> None:
    sample = throttled(summary_of(plan(qd_sweep())), 1)
    rows = [
        *phase_rows(sample),
        *(row for run in runs.iterdir() for table in tables_of(run).values() for row in table),
    ]
    wrong = {
        (name, value)
        for row in rows
        for name, value in row.items()
        if value is not None and not isinstance(value, PYTHON_TYPES[sql_type(name)])
    }
    assert not wrong
