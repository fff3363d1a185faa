"""How a run ended, as the daemon reads it from its process."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import cast

import pytest

from labctl.errors import INTERRUPTED, NOT_NOW
from labctl.service.daemon.run_process import RunProcess
from labctl.service.queue.job import AttemptOutcome


class Ended:
    """A process that has ended."""

    def __init__(self, code: int) -> None:
        self.pid = os.getpid()
        self.returncode = code


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (0, AttemptOutcome.COMPLETED),
        (1, AttemptOutcome.FAILED),
        (2, AttemptOutcome.REFUSED),
        (3, AttemptOutcome.ABORTED),
        (NOT_NOW, AttemptOutcome.FAILED),
        (INTERRUPTED, AttemptOutcome.INTERRUPTED),
        (-9, AttemptOutcome.INTERRUPTED),
    ],
)
def test_the_exit_code_says_how_it_ended(
    tmp_path: Path, code: int, outcome: AttemptOutcome
) -> None:
    """A run that is not possible now is a failed attempt, which is tried again ``retries`` times;
    not an interruption, which would be tried again without end."""
    (tmp_path / "7.log").write_text("labctl: host box: it does not answer\n")
    process = RunProcess(cast(asyncio.subprocess.Process, Ended(code)), tmp_path, "7", -1)
    result = process.result()
    assert result.outcome is outcome
    assert bool(result.reason) == bool(code)
