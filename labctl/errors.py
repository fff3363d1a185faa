"""What labctl raises, and the exit code each means.

```
LabctlError (1)
├── ConfigurationError (2)   rig, plan or command line: all mistakes at once
├── Refused (2)              a safety rule forbids it
├── JournalError (1)         the record cannot be written or read
├── RunFailed (1)            a run could not be completed
└── GuardTripped (3)         a limit of the rig was passed
```

A message tells the person what to do next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class LabctlError(Exception):
    """Root of the errors that labctl reports to a person."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Mistake:
    """One configuration mistake: where, what stands there, and what may stand there."""

    file: str
    key: str
    value: object
    allowed: str

    def __str__(self) -> str:
        shown = "" if self.value is None else f" = {self.value!r}"
        return f"{self.file}: {self.key}{shown}: {self.allowed}"


class ConfigurationError(LabctlError):
    """A rig, plan or command line that cannot be used; carries every mistake found."""

    exit_code = 2

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(str(mistake) for mistake in mistakes))


class Refused(LabctlError):
    """A safety rule forbids what was asked."""

    exit_code = 2


class JournalError(LabctlError):
    """The record of a run cannot be written or read."""


class RunFailed(LabctlError):
    """A run could not be completed; what was recorded stays."""


class GuardTripped(LabctlError):
    """A limit of the rig was passed and the run was aborted."""

    exit_code = 3
