"""Text from elsewhere (a broker, a meter, a program's last words) as it may go to a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """One line without what moves a cursor, names a window or turns the writing direction."""
    return "".join(mark if mark.isprintable() else "·" for mark in text)
