"""``labctl runs``: columns, filters, and JSON as its schema says."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from labctl.cli.rig.runs import COLUMNS
from labctl.record.journal import holding
from tests.forked_labctl import labctl
from tests.unit.cli.terminal.test_run_names import NAMES, runs

__all__ = ["runs"]  # a fixture

SCHEMA = json.loads((files("labctl.cli") / "schemas" / "runs.v1.json").read_text("utf-8"))


def listed(*words: str) -> list[dict[str, Any]]:
    done = labctl("runs", "--runs", "runs", "--json", *words)
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    jsonschema.validate(rows, SCHEMA, jsonschema.Draft202012Validator)
    return rows


def test_the_rows_are_what_the_schema_says_and_no_more(runs: Path) -> None:
    (runs / "20270101T000000Z_broken").mkdir()
    (runs / "20270101T000000Z_broken" / "run.json").write_text("{")
    rows = listed()
    assert [row["run"] for row in rows] == [*sorted(NAMES), "20270101T000000Z_broken"]
    assert rows[-1]["outcome"].startswith("unreadable") and rows[-1]["rig"] is None
    described = SCHEMA["items"]["properties"]
    assert set(described) == set(COLUMNS) == set(SCHEMA["items"]["required"])
    assert all(set(row) == set(described) for row in rows)
    assert all(item["description"] for item in described.values())


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (("--rig", "alpha"), 2),
        (("--rig", "nobody"), 0),
        (("--last", "1"), 1),
        (("--rig", "alpha", "--last", "1"), 1),
        (("--outcome", "failed"), 0),
    ],
)
def test_filters(runs: Path, words: tuple[str, ...], count: int) -> None:
    assert len(listed(*words)) == count


def test_a_run_that_is_on_is_not_called_interrupted(runs: Path) -> None:
    name = min(NAMES)
    journal = runs / name / "journal.jsonl"
    lines = [line for line in journal.read_text().splitlines() if "run_ended" not in line]
    journal.write_text("\n".join(lines) + "\n")
    assert listed("--outcome", "interrupted")[0]["run"] == name
    with holding(runs / name):
        assert [row["run"] for row in listed("--outcome", "running")] == [name]


def test_columns_are_chosen_and_fit_80(runs: Path) -> None:
    done = labctl("runs", "--runs", "runs", "--columns", "run,rig,begin,outcome")
    assert done.stdout.split()[:4] == ["run", "rig", "begin", "outcome"]
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    assert labctl("runs", "--runs", "runs", "--columns", "all").returncode == 0
    wrong = labctl("runs", "--runs", "runs", "--columns", "run,rigs")
    assert wrong.returncode == 2 and "is 'rig' meant?" in wrong.stderr


def test_an_empty_place_says_how_a_run_is_made(tmp_path: Path) -> None:
    place = str(tmp_path)
    assert "labctl demo" in labctl("runs", "--runs", place).stdout
    assert "labctl demo" not in labctl("runs", "--runs", place, "--rig", "nobody").stdout
