"""The text of ``labctl analyse``: whole, narrow, and the same as its JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from labctl.analysis.methods.method_results import methods_of
from labctl.analysis.run.summary import summarise
from labctl.cli.results.analyse import analyse
from labctl.report.text.methods import methods_text
from tests.unit.report_sample import plan, qd_sweep, record_of, summary_of
from tests.unit.synthetic_run import IDLE, WORK, Bench, Load, build


def test_a_run_from_disk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = build(tmp_path, Bench(loads=(IDLE, *WORK[1:-1], WORK[-1])))
    analyse(run.path, 400.0, 10.0, 150_000.0, 99.9, 500.0)
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert "Consistency" not in text, "its phases are too short to tell"
    for heading in ("Efficiency knee", "Power model", "Most IOPS", "Idle"):
        assert heading in text
    assert "energy per byte cannot be told from read" in text
    assert "wake-up spikes are not measurable" in text
    analyse(run.path, 400.0, 10.0, 150_000.0, 99.9, 500.0, json_output=True)
    data = json.loads(capsys.readouterr().out)
    assert data["models"][0]["inseparable"] == {"byte": ["read"]}
    assert data["steady"] == []
    assert len(data["knees"]) == 1


def test_consistency_of_a_recorded_phase_sees_its_dips(tmp_path: Path) -> None:
    def dips(t: np.ndarray) -> np.ndarray:
        return np.where(t % 30 < 5, 0.4, 1.0)

    run = build(
        tmp_path,
        Bench(loads=(IDLE, Load(0.6, 0.65, 120.0, 50_000, shape=dips), WORK[-1])),
    )
    found = methods_of(run.record, summarise(run.record))
    one = found.consistencies[0].consistency
    assert one.dips is not None
    assert one.dips.period_s == pytest.approx(30.0)
    assert one.dips.duration_s == pytest.approx(5.0)
    assert one.dips.depth == pytest.approx(0.6, abs=0.02)
    text = " ".join(methods_text(found).split())
    assert re.search(
        r"4 dips of 5(\.0*)? s, (59|60|61)% deep, periodic, every 30(\.0*)? s", text
    ), text


def test_a_run_in_which_nothing_was_measured_has_an_empty_text(tmp_path: Path) -> None:
    summary = summary_of(plan(qd_sweep()), rails=())
    found = methods_of(record_of(tmp_path, summary), summary)
    assert found.knees == found.models == found.frontiers == ()
    assert "Power model" not in methods_text(found)
