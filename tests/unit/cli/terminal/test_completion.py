"""What the shell offers after a word of labctl."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from labctl.cli.main import COMMANDS, app
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


KINDS = {
    "RIG": ("sata", "sata-12v-5v"),
    "PLAN": ("snia-i", "snia-iops"),
    "RUN": ("20261120", min(NAMES)),
    "SHELL": ("fi", "fish"),
    "SECTION": ("over", "overnight"),
    "EXAMPLE": ("sata", "sata-12v-5v"),
}
"""By what a command takes: the begin of a word, and the word."""


def places() -> Iterator[tuple[str, str]]:
    """Each place of a command line that takes one of these, and which."""
    group: Any = typer.main.get_command(app)
    for name in COMMANDS:
        command = group.get_command(None, name)
        for below, one in getattr(command, "commands", {"": command}).items():
            line = " ".join(filter(None, ("labctl", name, below)))
            before = ""
            for param in one.params:
                is_option = param.param_type_name == "option"
                if param.metavar in KINDS:
                    yield f"{line} {param.opts[0] + ' ' if is_option else before}", param.metavar
                before += "" if is_option else "x "


def test_whatever_takes_a_rig_a_plan_or_a_run_completes_it(runs: Path, tmp_path: Path) -> None:
    """``labctl report`` and ``run`` did, ``compare``, ``ship``, ``daemon`` and ``doctor RIG PLAN``
    did not. What a store, a broker or a database has is not asked for."""
    found = list(places())
    assert len(found) > 40
    elsewhere = ("labctl mqtt forget ", "labctl influxdb forget ")
    missing = [
        line
        for line, kind in found
        if line not in elsewhere and KINDS[kind][1] not in offered(line + KINDS[kind][0], tmp_path)
    ]
    assert missing == []


def test_every_option_of_a_rig_or_a_plan_says_so() -> None:
    shown = {line.rpartition(" --")[2].strip() for line, _ in places()}
    assert {"rig", "plan", "run", "resume", "copy"} <= shown


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


def test_zsh_finds_its_completion_by_the_first_line() -> None:
    """``compinit`` reads no other line of a file (zshcompsys(1))."""
    assert labctl("completion", "zsh").stdout.splitlines()[0] == "#compdef labctl"
