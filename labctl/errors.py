"""What labctl raises, and the exit code each means.

```
LabctlError (1)
├── ConfigurationError (2)   rig, plan or command line: all mistakes at once
├── Refused (2)              a safety rule forbids it
├── MissingPart (2)          an optional part is not installed
├── JournalError (1)         the record cannot be written or read
├── StoreError (1)           a store for runs cannot be reached, refuses, or holds another's
├── RunFailed (1)            a run could not be completed
├── GuardTripped (3)         a limit of the rig was passed
└── RigBusy (75)             another process has the rig: labctl.service.locks
```

A host of the drive that cannot be reached is a RunFailed with exit code 75
(:mod:`labctl.capture.host.ssh`).

A message tells the person what to do next.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from traceback import extract_tb

from labctl.printable import printable, printable_lines

NOT_NOW = 75
"""The exit code where nothing has to be mended, and the same will work later: EX_TEMPFAIL of
sysexits.h. A scheduler begins the job again."""

INTERRUPTED = 130
"""The exit code after Ctrl-C: 128 and the number of SIGINT, as shells have it."""

MOST_SHOWN = 200
"""Characters of a value or a key that a message repeats: enough to find it."""

_MOST_ALLOWED = 2_000
"""Of what is allowed: it may list all channels of a rig."""
_SECRET_KEY = re.compile(r"(token|password|secret)s?$", re.IGNORECASE)
_MASK = "***"


def masked(key: str, value: object) -> object:
    """``value`` as it may be shown: without the password of an address, and nothing of it where
    the key is a secret's. None stays None."""
    if value is not None and _SECRET_KEY.search(key):
        return _MASK
    if not isinstance(value, str):
        return value
    end = value.rfind("@")  # a password may hold anything
    begins = (i for i in range(end) if value[i] == ":" and not value.startswith("//", i + 1))
    begin = next(begins, None)
    return value if begin is None else f"{value[: begin + 1]}{_MASK}{value[end:]}"


class LabctlError(Exception):
    """Root of the errors that labctl reports to a person."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Mistake:
    """One configuration mistake: where, what stands there, and what may stand there.

    As text it is printable, and short whatever stands there. ``value`` is :func:`masked`: it is
    shown to people and printed as JSON.
    """

    file: str
    key: str
    value: object
    allowed: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", masked(self.key, self.value))

    def __str__(self) -> str:
        key = _shortened_error_text(printable(self.key), MOST_SHOWN)
        shown = (
            ""
            if self.value is None
            else f" = {_shortened_error_text(repr(self.value), MOST_SHOWN)}"
        )
        allowed = _shortened_error_text(printable_lines(self.allowed), _MOST_ALLOWED)
        return f"{printable(self.file)}: {key}{shown}: {allowed}"


def _shortened_error_text(text: str, most: int) -> str:
    """Its two ends, where it is longer than ``most`` characters, and how long it is."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]} … {text[-most // 4 :]} ({len(text)} characters)"


class ConfigurationError(LabctlError):
    """A rig, plan or command line that cannot be used; carries every mistake found."""

    exit_code = 2

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(str(mistake) for mistake in mistakes))


class Refused(LabctlError):
    """A safety rule forbids what was asked."""

    exit_code = 2


class MissingPart(LabctlError):
    """An extra of labctl is not installed (:func:`labctl.installed.need`)."""

    exit_code = 2


class JournalError(LabctlError):
    """The record of a run cannot be written or read."""


class StoreError(LabctlError):
    """A store for runs cannot be reached, refuses, is full, or holds what is not expected."""


class RunFailed(LabctlError):
    """A run could not be completed; what was recorded stays."""


class GuardTripped(LabctlError):
    """A limit of the rig was passed and the run was aborted."""

    exit_code = 3


def error_line(error: BaseException) -> str:
    """An error in one line for a person; where it comes from, if nobody has foreseen it."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(map(error_line, error.exceptions))
    if isinstance(error, LabctlError):
        return str(error)
    places = extract_tb(error.__traceback__)
    where = f" ({Path(places[-1].filename).name}, line {places[-1].lineno})" if places else ""
    return f"unexpected {type(error).__name__}: {printable(str(error))}{where}"
