"""What of a plan a run itself goes by."""

from __future__ import annotations

from typing import Protocol

from labctl.config.sweeps import Resume, WhenPhaseFails


class RunRules(Protocol):
    """What of a plan a run itself goes by; its phases come beside it."""

    @property
    def name(self) -> str:
        """The name that the run bears."""
        ...

    @property
    def governor(self) -> str:
        """See :class:`Plan`."""
        ...

    @property
    def resume(self) -> Resume:
        """See :class:`Plan`."""
        ...

    @property
    def when_phase_fails(self) -> WhenPhaseFails:
        """See :class:`Plan`."""
        ...

    @property
    def scale(self) -> float:
        """By what it was scaled down; 1: it was not."""
        ...
