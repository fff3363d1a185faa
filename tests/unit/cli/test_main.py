"""The table of commands: each is where it says, and its help is the command's own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer

from labctl.cli.commands import COMMANDS, RENAMED
from labctl.cli.main import app
from labctl.config.find_rig import EXAMPLES
from tests.forked_labctl import labctl


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_the_table_is_that_of_the_command(name: str) -> None:
    group = typer.main.get_command(app)
    command = group.get_command(None, name)  # type: ignore[attr-defined]
    assert command.help.splitlines()[0] == COMMANDS[name].help


def test_the_help_of_every_command_is_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    group: Any = typer.main.get_command(app)
    for name in COMMANDS:
        command = group.get_command(None, name)
        for word, one in [("", command), *getattr(command, "commands", {}).items()]:
            context = typer.Context(one, info_name=f"labctl {name} {word}", terminal_width=80)
            lines = one.get_help(context).splitlines()
            assert len(lines) <= 50 and all(len(line) <= 80 for line in lines), (name, word)


def test_a_usage_line_names_each_word_once_in_capitals() -> None:
    """``[[RUN]...]...``, ``{text}...`` and ``RIG`` beside each other looked accidental."""
    group: Any = typer.main.get_command(app)
    for name in COMMANDS:
        command = group.get_command(None, name)
        for one in (command, *getattr(command, "commands", {}).values()):
            context = typer.Context(one, info_name=f"labctl {name}")
            words = one.collect_usage_pieces(context)
            for word in set(words) - {"[OPTIONS]", "COMMAND [ARGS]..."}:
                form = r"[\[{]?(-- )?[A-Z][A-Z|]*[\]}]?(\.\.\.)?"
                assert re.fullmatch(form, word), (name, words)


def test_no_path_or_command_of_a_help_is_broken_at_a_hyphen() -> None:
    """A person copies it: ``~/labctl-`` and ``runs`` on the next line is another directory."""
    group: Any = typer.main.get_command(app)
    for name in COMMANDS:
        command = group.get_command(None, name)
        for one in (command, *getattr(command, "commands", {}).values()):
            context = typer.Context(one, info_name=f"labctl {name}", terminal_width=80)
            for line in one.get_help(context).splitlines():
                assert not line.rstrip().endswith("-"), (name, line)


def test_no_word_of_a_list_is_broken_at_the_edge(tmp_path: Path) -> None:
    shown = labctl("rigs", cwd=tmp_path, env={**os.environ, "HOME": str(tmp_path)})
    assert all(len(line) <= 80 for line in shown.stdout.splitlines()), shown.stdout
    assert "nvme-adapter" in shown.stdout
    assert "scale, drive, begin" in " ".join(labctl("runs", "--help").stdout.split())


def test_whoever_reads_the_output_may_stop_reading() -> None:
    line = f"set -o pipefail; '{sys.executable}' -m labctl.cli.main help | true"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1) and done.stderr == ""  # 1: the library saw it first


def test_an_error_is_told_and_its_exit_code_kept_where_nobody_reads_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # what is printed waits for the end
    rig = tmp_path / "broken.toml"
    rig.write_text('name = "broken"\nnonsense = 1\n')
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as output:
        done = subprocess.run(
            [sys.executable, "-m", "labctl.cli.main", "check", rig, "--json"],
            stdout=output, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == labctl("check", rig).stderr and "nonsense" in done.stderr


def test_help_imports_no_command() -> None:
    code = (
        "import sys\n"
        "from labctl.cli.main import main\n"
        "sys.argv = ['labctl', '--help']\n"
        "try:\n    main()\n"
        "except SystemExit:\n    pass\n"
        "print([name for name in sys.modules if name.startswith(('labctl.cli.run', 'numpy'))])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert set(COMMANDS) <= set(done.stdout.split())
    assert len(done.stdout.splitlines()) <= 25 and "labctl help SECTION" in done.stdout


@pytest.mark.parametrize(("old", "now"), RENAMED.items())
def test_a_renamed_command_works_and_says_its_new_name(old: str, now: str) -> None:
    done = labctl(old, "--help")
    assert done.returncode == 0 and done.stdout.startswith(f"Usage: labctl {old}")
    assert f"labctl {old} is now called labctl {now}" in done.stderr
    assert labctl(now, "--help").stderr == ""
    assert old not in labctl("--help").stdout.split()


def test_renamed_options_work_and_say_their_new_names(tmp_path: Path) -> None:
    done = labctl("analyse", "nosuch", "--watts", "3", "--iops", "5", cwd=tmp_path)
    assert "--watts is now called --max-watts" in done.stderr
    shown = labctl("analyse", "--help").stdout
    assert "--max-watts" in shown and "--min-iops" in shown and "--watts" not in shown


def test_a_dry_run_does_not_ask_the_machine_of_the_drive(tmp_path: Path) -> None:
    text = (EXAMPLES / "nvme-adapter.toml").read_text()
    rig = tmp_path / "far.toml"
    rig.write_text(text.replace('host = "local"', 'host = "nobody@no-such-host.invalid"'))
    done = labctl("run", rig, "demo", "--dry-run", cwd=tmp_path)
    assert done.returncode == 0 and "phases" in done.stdout, done.stderr
    assert list(tmp_path.iterdir()) == [rig]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("runs", "--json", ""), "the word behind --json of the command line is empty"),
        (("runs", "--runs="), "--runs of the command line is empty"),
        (("report", ""), "a word of the command line is empty"),
    ],
)
def test_an_empty_word_is_said_by_its_place(words: tuple[str, ...], said: str) -> None:
    done = labctl(*words)
    assert done.returncode == 2 and f"labctl: {said}" in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("docter",), "No such command 'docter': is 'doctor' meant?"),
        (("run", "nvme-adapter", "demoo", "--dry-run"), "is 'demo' meant?"),
    ],
)
def test_a_misspelt_word_leads_to_the_one_that_was_meant(words: tuple[str, ...], said: str) -> None:
    done = labctl(*words, env={**os.environ, "LABCTL_RIGS": str(EXAMPLES)})
    assert done.returncode == 2 and said in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("morning", "--since", "noon"), "--since"),
        (("verify", "no-such-bundle"), "there is no such file"),
        (("verify", "."), "is a folder"),
        (("runs", "--outcome", "complete"), "--outcome = 'complete': must be one of completed, "),
        (("queue", "add", "nvme-adapter"), "a rig and a plan are needed, or --matrix FILE"),
        (("daemon", "nvme-adapter", "--install-service", "user"), "name none"),
        (("daemon", "--runs", "here", "--install-service", "user"), "[runs] directory"),
        (("check", "nvme-adaptr"), "is 'nvme-adapter' meant?"),
        (("check", "power-per-q"), "is 'power-per-qd' meant?"),
    ],
)
def test_a_wrong_call_is_one_and_names_what_was_wrong(
    words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    places = {"LABCTL_RIGS": str(EXAMPLES), "HOME": str(tmp_path)}
    done = labctl(*words, cwd=tmp_path, env={**os.environ, **places})
    assert done.returncode == 2 and said in done.stderr, done.stderr
    assert "--after" not in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nvme-adapter",), "nvme-adapter.toml: a rig without mistakes"),
        (("nvme-adapter", "power-per-qd"), "nvme-adapter.toml: a rig without mistakes"),
        (("power-per-qd",), "power-per-qd.toml: a plan without mistakes"),
    ],
)
def test_check_takes_names_as_every_command_does(words: tuple[str, ...], said: str) -> None:
    done = labctl("check", *words, env={**os.environ, "LABCTL_RIGS": str(EXAMPLES)})
    assert done.returncode == 0 and said in done.stdout, done.stderr


def test_a_date_that_is_to_come_is_no_beginning() -> None:
    to_come = f"{datetime.now() + timedelta(hours=20):%Y-%m-%d %H:%M}"
    done = labctl("morning", "--since", to_come)
    assert done.returncode == 2 and "that have passed" in done.stderr
