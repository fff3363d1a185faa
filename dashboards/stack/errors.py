"""What the stack raises."""

from __future__ import annotations


class StackError(Exception):
    """The stack cannot run. ``usage`` tells whether the person can put it right beforehand."""

    def __init__(self, message: str, usage: bool = False) -> None:
        super().__init__(message)
        self.usage = usage
