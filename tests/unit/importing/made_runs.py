"""Runs of the simulated rig, written as other programs write them, and made runs of again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labctl.analysis.run.summary import summarise
from labctl.analysis.run_summary import RunSummary
from labctl.errors import ConfigurationError
from labctl.importing.clock import ClockRules
from labctl.importing.guess import guess
from labctl.importing.make_run import Imported, Labels, import_run
from labctl.importing.meter_channels import MeterFile
from labctl.importing.rails import Given
from labctl.importing.workload import read_workload
from labctl.record.phase import Pattern
from labctl.record.reader import RunRecord
from tests.forked_labctl import labctl
from tests.unit.importing.exported import (
    Bench,
)
from tests.unit.virtual_bench import Work

SWEEP = tuple(Work(Pattern.RANDREAD, 3.0, 4096, depth) for depth in (1, 4, 16))
LABELS = Labels("bench", "sweep")
ACCURACY = Given(accuracy_pct=0.5)
HEADING = "12V voltage (V),12V current (A),3V3 voltage (V),3V3 current (A)"

PLAN = """\
name = "my-sweep"
[[sweeps]]
name = "small reads"
pattern = "randread"
queue_depth = [1, 4, 16]
duration_s = 3
"""

PLAN = """\
name = "my-sweep"
[[sweeps]]
name = "small reads"
pattern = "randread"
queue_depth = [1, 4, 16]
duration_s = 3
"""


def imported(
    files: Path | list[Path],
    fio: Path,
    root: Path,
    rules: ClockRules | None = None,
    given: Given = ACCURACY,
) -> tuple[Imported, RunSummary]:
    """A run of these files, its columns guessed, and its summary."""
    each = [files] if isinstance(files, Path) else files
    sources = [MeterFile(file, guess(file, given).meter) for file in each]
    found = import_run(read_workload([fio]), sources, root, LABELS, rules or ClockRules())
    return found, summarise(RunRecord(found.path))


def inside(made: Bench, summary: RunSummary) -> list[bool]:
    """Of each phase, whether the truth is inside the U."""
    found = []
    for index, result in enumerate(summary.phases):
        assert result.watts is not None, result.notes
        found.append(abs(result.watts.value - made.true_watts(index)) <= result.watts.u)
    return found


def mistake(call: Callable[[], Any]) -> str:
    with pytest.raises(ConfigurationError) as raised:
        call()
    return str(raised.value)


def said(folder: Path, *words: str, code: int = 0) -> str:
    environment = {**os.environ, "LABCTL_RUNS": str(folder / "runs")}
    done = labctl(*words, cwd=folder, env=environment)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr
