"""Long lists go through a pager, on a terminal only."""

from __future__ import annotations

import os
import pty
import struct
import subprocess
import sys
from collections.abc import Mapping
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

import pytest

from labctl.cli.terminal.pager import pager
from tests.forked_labctl import labctl

PAGED = "sed s/^/>/"


def on_a_terminal(rows: int, *words: str, **variables: str) -> list[str]:
    """The lines that a terminal of ``rows`` times 80 gets."""
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", rows, 80, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "labctl.cli.main", *words],
        stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env=environment(variables),
    )  # fmt: skip
    os.close(theirs)
    printed = b""
    while part := _read(ours):
        printed += part
    os.close(ours)
    assert process.wait(60) == 0
    return printed.decode().replace("\r", "").splitlines()


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    kept = {key: text for key, text in os.environ.items() if key not in ("COLUMNS", "LINES")}
    return {**kept, "TERM": "dumb", **variables}


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:  # Linux: nobody has the other end any more
        return b""


def test_what_is_longer_than_the_screen_is_paged_and_what_fits_is_not() -> None:
    for words in (("plans",), ("help",)):
        long = on_a_terminal(8, *words, LABCTL_PAGER=PAGED, PAGER="false")
        assert len(long) > 8 and all(line.startswith(">") for line in long)
        assert [line[1:] for line in long] == on_a_terminal(90, *words, PAGER=PAGED)
    assert on_a_terminal(8, "help", LABCTL_PAGER="") == on_a_terminal(90, "help")
    assert not labctl("help", env={**os.environ, "PAGER": PAGED}).stdout.startswith(">")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"LABCTL_PAGER": "sed p", "PAGER": "false"}, ["sed", "p"]),
        ({"PAGER": "sed"}, ["sed"]),
        ({"LABCTL_PAGER": "", "PAGER": "sed"}, []),
        ({"PAGER": "cat"}, []),
        ({"PAGER": "no-such-program"}, []),
        ({"PAGER": "'"}, []),
        ({}, ["less"]),
    ],
)
def test_the_pager_that_is_named(
    said: dict[str, str], words: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "less").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name in ("LABCTL_PAGER", "PAGER"):
        monkeypatch.delenv(name, raising=False)
    for name, text in said.items():
        monkeypatch.setenv(name, text)
    assert pager() == words
