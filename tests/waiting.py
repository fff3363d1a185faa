"""Waiting for what another process or thread does."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(condition: Callable[[], object], within_s: float = 60.0) -> None:
    """Return when the condition holds. Raises AssertionError if it did not in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"did not happen within {within_s:g} s"
        time.sleep(0.02)
