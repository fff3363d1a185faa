"""Output that is longer than the screen goes through a pager, on a terminal only."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import ParamSpec, TextIO, TypeVar, cast

from instruments.process_environment import environment_without_secrets
from labctl.cli.terminal.safe_stream import SafeStream, beneath

PAGER_VARIABLES = ("LABCTL_PAGER", "PAGER")
USUAL = "less"
LESS = "FRX"
"""How less is started where ``LESS`` does not say it: as git does (its core.pager)."""
_NO_PAGER = ("", "cat")

P = ParamSpec("P")
T = TypeVar("T")


def pages(command: Callable[P, T]) -> Callable[P, T]:
    """A command whose output is shown by a pager where it is longer than the screen."""

    @functools.wraps(command)
    def paged(*args: P.args, **kwargs: P.kwargs) -> T:
        with paging():
            return command(*args, **kwargs)

    return paged


@contextlib.contextmanager
def paging() -> Iterator[None]:
    """What is printed meanwhile is shown at the end: by a pager where it is longer than the screen.

    Only on a terminal, and only if there is a pager (:func:`pager`).
    """
    guarded, terminal = sys.stdout, beneath(sys.stdout)
    words = pager() if terminal.isatty() else []
    if not words:
        yield
        return
    kept = _Kept()
    sys.stdout = cast(TextIO, SafeStream(kept))
    try:
        yield
    finally:
        sys.stdout = guarded
        text = kept.getvalue()
        if len(text.splitlines()) < shutil.get_terminal_size().lines or not _shown(text, words):
            terminal.write(text)


def pager() -> list[str]:
    """The words of the pager: LABCTL_PAGER, else PAGER, else less; none: it is empty or cat."""
    said = next((os.environ[name] for name in PAGER_VARIABLES if name in os.environ), USUAL)
    try:
        words = shlex.split(said)
    except ValueError:
        return []
    return [] if not words or words[0] in _NO_PAGER or shutil.which(words[0]) is None else words


class _Kept(io.StringIO):
    """What is printed; to be drawn as for the terminal."""

    def isatty(self) -> bool:
        return True


def _shown(text: str, words: list[str]) -> bool:
    """Show a text with a pager; whether it could be started. Ctrl-C is the pager's."""
    less = os.environ.get("LESS", LESS)
    try:
        process = subprocess.Popen(
            words, stdin=subprocess.PIPE, env=environment_without_secrets(LESS=less)
        )
    except OSError:
        return False
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process.communicate(text.encode(errors="replace"))
    finally:
        signal.signal(signal.SIGINT, before)
    return True
