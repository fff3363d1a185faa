"""A class of scenes, carried out, recorded, summarised and scored."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from labctl.analysis.run.summary import summarise
from labctl.record.reader import RunRecord
from tests.judge_throttling.drives import live
from tests.judge_throttling.recording import write
from tests.judge_throttling.scenes import draw
from tests.judge_throttling.scoring import Score

KNEE = ("straight ramp", "many small steps")
"""Classes in which a drive holds itself back by degrees, and shows when it begins to."""


def judge(kind: str, seeds: range) -> Score:
    """The score of a class."""
    score = Score()
    for seed in seeds:
        scene = draw(kind, seed)
        rng = np.random.default_rng(seed)
        course = live(scene.drive, rng)
        with tempfile.TemporaryDirectory(prefix="labctl-judge-") as folder:
            path = write(Path(folder), scene.drive, course, scene.sees, rng)
            summary = summarise(RunRecord(path))
        verdicts = {
            result.phase.index: result.throttling
            for result in summary.phases
            if result.throttling is not None
        }
        knee = kind in KNEE
        gradual = knee or kind == "smooth ramp"
        score.add(f"{kind} {seed}", course, summary.throttling, verdicts, gradual, knee)
    return score
