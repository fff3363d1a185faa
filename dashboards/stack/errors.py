"""What the stack raises."""

from __future__ import annotations


class StackError(Exception):
    """The stack cannot run. ``usage``: whether a correct call or installation would avoid it."""

    def __init__(self, message: str, usage: bool = False) -> None:
        super().__init__(message)
        self.usage = usage
