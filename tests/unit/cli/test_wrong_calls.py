"""Mistakes with every command: each ends with a documented exit code and a few lines
that name what was wrong, and never with a traceback."""

from __future__ import annotations

import gc
import json
import os
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer.main

from labctl.cli.commands import COMMANDS
from labctl.cli.main import app, main
from labctl.errors import GuardTripped, LabctlError, Refused
from labctl.record.layout import HEADER_FILE
from labctl.service.locks.rig_lock import RigLock
from tests.forked_labctl import labctl
from tests.unit.cli.lab_folder import lab_in

DOCUMENTED = {LabctlError.exit_code, Refused.exit_code, GuardTripped.exit_code}
MOST_LINES = 9
CONTROLS, LONG, UNREADABLE = "\x1b[31mred\x07", "x" * 300, "/proc/self/mem"
STANDS_FOR = {"CONTROLS": CONTROLS, "LONG": LONG}
NAMES = ("no-such-thing", CONTROLS, LONG, "\udcff", "a/b/c")
WRONG = {
    "rig": (*NAMES, "folder", "binary", "empty", UNREADABLE),
    "plan": (*NAMES, "folder", "binary", "empty", UNREADABLE),
    "run": (*NAMES, "folder", "binary", "newer", "torn", UNREADABLE, "_sweep", "latest:nobody"),
    "file": (*NAMES, "folder", "binary", "empty", UNREADABLE),
    "job": ("x", "0", "1.5", "999999", CONTROLS),
    "word": (CONTROLS, "no-such-thing", LONG),
    "sql": ("SELEC 1", CONTROLS, "SELECT * FROM nothing", "\udcff"),
}
"""By what a command takes: what is none of it."""
TAKES: dict[str, tuple[tuple[str, str], ...]] = {
    "run": (("rig", "nvme-adapter"), ("plan", "power-per-qd")),
    "measure": (("rig", "nvme-adapter"),),
    "trace describe": (("file", "trace.csv"),),
    "trace convert": (("file", "trace.csv"),),
    "report": (("run", "one"),),
    "analyse": (("run", "one"),),
    "review": (("run", "one"),),
    "compare": (("run", "one"), ("run", "other")),
    "repeats": (("run", "one"), ("run", "other")),
    "trend": (("run", "one"),),
    "judge": (("run", "one"),),
    "query": (("sql", "SELECT 1"),),
    "bundle": (("run", "one"),),
    "verify": (("file", "bundle.zip"),),
    "check": (("file", "plan.toml"),),
    "doctor": (("rig", "nvme-adapter"),),
    "trim-check": (("rig", "nvme-adapter"),),
    "read": (("rig", "nvme-adapter"),),
    "range": (("rig", "nvme-adapter"),),
    "calibrate": (("rig", "nvme-adapter"),),
    "record-session": (("rig", "nvme-adapter"),),
    "play-session": (("file", "session"),),
    "queue add": (("rig", "nvme-adapter"), ("plan", "power-per-qd")),
    "queue show": (("job", "1"),),
    "queue move": (("job", "1"),),
    "queue cancel": (("job", "1"),),
    "daemon": (("rig", "nvme-adapter"),),
    "idle": (("rig", "nvme-adapter"),),
    "ship": (("run", "one"),),
    "completion": (("word", "bash"),),
    "help": (("word", "runs"),),
}
"""What stands after a command, and a good example of each."""
REST = {
    "judge": ("--limits", "ocp-2.6"),
    "measure": ("--", "true"),
    "trace convert": ("t.log", "--drive-size", "100g"),
    "record-session": ("v12",),
    "queue move": ("1",),
}
CONTRADICTIONS = {
    "run": """
        --resume one --dry-run
        --resume one --job a
        nvme-adapter power-per-qd --job 'a b'
        nvme-adapter power-per-qd --job CONTROLS
        nvme-adapter power-per-qd --job a --dry-run
        nvme-adapter power-per-qd --scale 2 --dry-run
        nvme-adapter power-per-qd --scale nan --dry-run
        nvme-adapter power-per-qd --until setled --dry-run
        nvme-adapter plan.toml --resume one --dry-run --until settled
        --resume one --until settled
    """,
    "measure": """
        nvme-adapter --idle -1 -- true
        nvme-adapter --idle inf -- true
        nvme-adapter -- no-such-program
        nvme-adapter --marks '[' -- true
    """,
    "import": """
        no-such-file --fio no-such-file
        folder --fio folder
        binary --fio binary
        empty --fio empty
        trace.csv --fio trace.csv
        trace.csv --fio empty --zone Nowhere
        trace.csv --fio empty --rig CONTROLS
        trace.csv --fio empty --stated-volts 12
        trace.csv --fio empty --trust-stamps --offset 3
        trace.csv --fio empty --mapping binary
        trace.csv --fio empty --accuracy-pct -1
    """,
    "mark": """
        --run no-such-run x
        --rig nobody x
        --run folder x
    """,
    "demo": """
        --seed -1
        --plan no-such-plan
        --scale 0
        --to nowhere
        --runs binary --plan folder
    """,
    "simulate": """
        bench --seed -1
        binary
        bench --parameters folder
        bench --parameters no-such-file
    """,
    "trace convert": """
        trace.csv folder --drive-size 100g
        trace.csv t.log --drive-size much
        trace.csv t.log --drive-size 1k
        trace.csv t.log --drive-size 9g --disk x
    """,
    "report": """
        one --calibration no-such-file
        one --calibration binary
    """,
    "analyse": """
        one --from 9 --to 1
        one --from then
        one --to 9999999
        one --qos-percent 101
        one --max-watts -1
        one --min-iops nan
        one --tail 0
    """,
    "compare": """
        one
        one other --allow watts
        one other --gate binary
        one other --allow nonsense=3
        one --against other other
    """,
    "trend": """
        --since then
        --since 2026-13-01
        --since 99999-01-01
        --allow watts
        --allow nonsense=3
        --allow celsius_max=3
        --gate binary
        --rig nobody --allow watts=3
    """,
    "judge": """
        one
        one --limits no-such-thing
        one --limits binary
        one --limits empty
        one --limits CONTROLS
        one --limits ocp-2.6 --html no/such/folder/a.html
    """,
    "repeats": """
        one other --change 0
        one other --change inf
        one --change x
    """,
    "bundle": """
        one -o folder
        one -o no/such/folder/a.zip
    """,
    "runs": """
        --columns run,rigs
        --last 0
        --last x
        --runs binary
        --columns CONTROLS
    """,
    "rigs": """
        --copy no-such
        --as x
        --copy nvme-adapter --as ../x
        --copy CONTROLS
        --slurm rigs/nvme-adapter.toml
        --slurm binary/slurm
        --slurm slurm --as x
    """,
    "init": """
        a/b
        CONTROLS
        new --drive folder --rail nonsense
    """,
    "instruments": """
        /dev/no-such-port
        CONTROLS
        folder
    """,
    "read": """
        nvme-adapter --every 0
        nvme-adapter --seconds -1
    """,
    "calibrate": """
        nvme-adapter --show --compare
        nvme-adapter nobody.voltage
        nvme-adapter --against v12.voltage nobody.x
        nvme-adapter --seconds -1
    """,
    "record-session": """
        nvme-adapter nobody
        nvme-adapter v12 --seconds x
    """,
    "queue add": """
        nvme-adapter power-per-qd --after noon
        nvme-adapter
        nvme-adapter power-per-qd --repeat 0
        nvme-adapter power-per-qd --matrix plan.toml
        --matrix binary
        --matrix folder
        nvme-adapter power-per-qd --tag 'a b'
        nvme-adapter power-per-qd --retries -1
    """,
    "queue move": """
        1 0
        1 x
    """,
    "queue pause": """
        'a b'
        CONTROLS
        LONG
    """,
    "queue resume": """
        'a b'
        CONTROLS
        LONG
    """,
    "daemon": """
        nvme-adapter nvme-adapter
        --install-service nobody
    """,
    "morning": """
        --since noon
        --since CONTROLS
        --runs binary
    """,
    "tidy": """
        --dry-run
        --budget much
        --delete-after x
        --delete-after 9 --runs binary
        --delete-after 9 --archive ftp://x
        --delete-after 9 --archive file:///usr
        --export-after -1
    """,
    "ship": """
        one --to nowhere
        one --rig nobody
        one
    """,
    "compact": """
        one
        file:///usr
        s3://
        ftp://host/folder
        no-such-folder
        CONTROLS
        one other
    """,
    "push": """
        one
        file:///

        no-such-run file:///
        one file:///no-such-folder
        one ftp://host/folder
        one file://host/folder
        one s3://key:secret@bucket/prefix
        one s3://bucket/prefix?endpoint=x
        one s3://
        one s3://bucket/CONTROLS
        one CONTROLS
    """,
    "pull": """
        one
        file:///
        one file:///no-such-folder
        one file:///usr
        one s3://
        CONTROLS file:///usr
    """,
    "mqtt forget": """
        nobody
        CONTROLS
        binary
    """,
    "influxdb forget": """
        one
        one --to nowhere
        one --rig nobody
        one --older-than 3 --to 'http://127.0.0.1:9?bucket=b'
        --older-than -1 --to 'http://127.0.0.1:9?bucket=b'
        --older-than nan --to 'http://127.0.0.1:9?bucket=b'
        --older-than inf --to 'http://127.0.0.1:9?bucket=b'
        CONTROLS --to 'http://127.0.0.1:9?bucket=b'
    """,
    "status": """
        --broker host:port
        --broker 'a b:1'
    """,
    "watch": """
        --broker host:port
    """,
    "stack": """
        --no-native
    """,
    "completion": """
        bash zsh
    """,
    "help": """
        runs rigs
        review --schema
        --schema
    """,
}
"""What does not go together, or is out of range: a call a line."""
NOTHING_BUT_JSON = ("plans", "queue list")
"""Commands that take nothing else."""
ANYWHERE = ("--nonsense", "--jsno", "--help=3", "-Z", "--runs=", "-h=x", "--=", "--none=3", "")


def every_command() -> list[str]:
    group: Any = typer.main.get_command(app)
    found = []
    for name in COMMANDS:
        below = getattr(group.get_command(None, name), "commands", {})
        found += [f"{name} {word}" for word in below] or [name]
    return found


def calls(name: str) -> Iterator[tuple[str, ...]]:
    """Wrong calls of a command: of what stands after it, and of any command."""
    takes, rest = TAKES.get(name, ()), REST.get(name, ())
    good = tuple(example for _, example in takes)
    for place, (kind, _) in enumerate(takes):
        for wrong in WRONG[kind]:
            yield (*good[:place], wrong, *good[place + 1 :], *rest)
    for line in CONTRADICTIONS.get(name, "").strip().splitlines():
        yield tuple(STANDS_FOR.get(word, word) for word in shlex.split(line))
    own = good or ("x",)
    for word in (*ANYWHERE, f"--{CONTROLS}"):
        yield (word, *own)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lab")
    made = lab_in(folder)
    for name in ("newer", "torn"):
        shutil.copytree(made, folder / name)
    header = json.loads((made / HEADER_FILE).read_text())
    (folder / "newer" / HEADER_FILE).write_text(json.dumps({**header, "format": 99}))
    (folder / "torn" / HEADER_FILE).write_text("{")
    (folder / "folder").mkdir()
    (folder / "empty").write_text("")
    (folder / "binary").write_bytes(bytes(range(256)) * 8)
    (folder / "plan.toml").write_text('[[sweeps]]\npattern = "randread"\nduration_s = 1\n')
    shutil.copy(Path(__file__).parents[3] / "docs" / "examples" / "trace.csv", folder)
    return folder


@pytest.fixture
def at_home(lab: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In the lab, with what main() changes of this process put back."""
    for name, value in {
        "LABCTL_HOME": lab / "home", "LABCTL_SITE": lab / "site.toml", "HOME": lab,
        "LABCTL_RIGS": lab / "rigs", "COLUMNS": 80,
    }.items():  # fmt: skip
        monkeypatch.setenv(name, str(value))
    monkeypatch.delenv("LABCTL_RUNS", raising=False)
    monkeypatch.chdir(lab)
    before = os.umask(0)
    os.umask(before)
    yield
    os.umask(before)
    gc.unfreeze()
    gc.enable()


@pytest.mark.usefixtures("at_home")
@pytest.mark.parametrize("name", every_command())
def test_every_mistake_ends_with_a_word_and_a_documented_code(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert name in {*TAKES, *CONTRADICTIONS, *NOTHING_BUT_JSON}, "no wrong call of its own"
    problems = []
    for words in calls(name):
        code, said = called(name, words, monkeypatch, capsys)
        if trouble := what_is_wrong(code, said):
            problems.append(f"labctl {name} {' '.join(map(repr, words))}: {trouble}\n{said}")
    assert not problems, "\n\n".join(problems)


@pytest.mark.usefixtures("at_home")
@pytest.mark.parametrize("name", ["read", "calibrate"])
def test_negative_seconds_are_refused_before_a_rig_is_used(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def use(*_: object, **__: object) -> None:
        raise AssertionError("the rig was locked")

    monkeypatch.setattr(RigLock, "take", use)
    code, said = called(name, ["nvme-adapter", "--seconds", "-1"], monkeypatch, capsys)
    assert code == 2 and "--seconds" in said


def called(
    name: str,
    words: Sequence[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> tuple[int, str]:
    """Exit code, and what was printed: an address that does not answer is a result."""
    capsys.readouterr()
    with monkeypatch.context() as patched:
        patched.setattr(sys, "argv", ["labctl", *name.split(), *words])
        patched.setattr(sys, "stdout", sys.stdout)
        patched.setattr(sys, "stderr", sys.stderr)
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
    printed = capsys.readouterr()
    return code, printed.err or printed.out


def what_is_wrong(code: int, said: str) -> str:
    """Against the end of a wrong call; nothing where it is as it should be."""
    lines = [part for line in said.splitlines() for part in textwrap.wrap(line, 80)]
    if code not in DOCUMENTED:
        return f"exit code {code}"
    if "Traceback" in said or "[Errno" in said:
        return "words of Python's"
    if not all(letter.isprintable() or letter in "\n\t" for letter in said):
        return "control characters"
    if not 0 < len(lines) <= MOST_LINES:
        return f"{len(lines)} lines"
    return ""


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("LABCTL_SITE", "no-such-file"),
        ("LABCTL_SITE", "binary"),
        ("LABCTL_SITE", "folder"),
        ("LABCTL_SITE", UNREADABLE),
        ("LABCTL_RUNS", "binary"),
    ],
)
@pytest.mark.usefixtures("at_home")
def test_a_wrong_variable_is_named(variable: str, value: str) -> None:
    done = labctl("runs", env={**os.environ, variable: value})
    assert what_is_wrong(done.returncode, done.stderr) == "", done.stderr
    assert value in done.stderr
