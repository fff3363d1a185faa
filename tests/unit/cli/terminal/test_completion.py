"""What the shell offers after a word of labctl."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from labctl.cli.terminal.completion import SHELLS
from labctl.config.find_rig import EXAMPLES
from labctl.service.data_dir import Home
from labctl.service.queue.store import Queue
from tests.forked_labctl import labctl
from tests.unit.cli.terminal.test_run_names import NAMES, runs

__all__ = ["runs"]  # a fixture


def offered(line: str, home: Path) -> list[str]:
    words = line.split(" ")
    environment = {
        **os.environ,
        "_LABCTL_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "LABCTL_RIGS": str(EXAMPLES),
        "LABCTL_HOME": str(home),
    }
    done = labctl(env=environment)
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout.split()


def test_commands_rigs_plans_runs_and_jobs_are_completed(runs: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert "doctor" in offered("labctl do", home)
    assert offered("labctl run nv", home) == ["nvme-adapter"]
    assert offered("labctl run nvme-adapter snia-i", home) == ["snia-iops"]
    assert offered("labctl doctor sata", home) == ["sata-12v-5v"]
    assert offered("labctl report lat", home) == ["latest"]
    assert offered("labctl report 20261120", home) == [min(NAMES)]
    assert offered("labctl queue cancel ", home) == []
    added = labctl(
        "queue", "add", EXAMPLES / "nvme-adapter", "demo",
        env={**os.environ, "LABCTL_HOME": str(home)},
    )  # fmt: skip
    assert added.returncode == 0, added.stderr
    (job,) = Queue(Home(home)).jobs()
    assert offered("labctl queue cancel ", home) == [str(job.id)]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shells_part_is_printed_and_is_a_script(shell: str) -> None:
    done = labctl("completion", shell)
    assert done.returncode == 0 and "_LABCTL_COMPLETE" in done.stdout
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=done.stdout, text=True, check=True)


def test_a_shell_that_is_not_known_is_refused() -> None:
    assert labctl("completion", "tcsh").returncode == 2


@pytest.mark.parametrize("words", [(), ("measure",), ("rigs",), ("servers",), ("doctor",)])
def test_a_section_of_the_help_is_a_screen(words: tuple[str, ...]) -> None:
    done = labctl("help", *words)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert all(len(line) <= 80 for line in lines) and (len(lines) <= 24 or not words)


def test_a_section_that_is_none_leads_to_one() -> None:
    done = labctl("help", "meter")
    assert done.returncode == 2 and "is 'meters' meant?" in done.stderr
