"""Displays that are sent segment by segment, two bytes a digit, four digits (FS9721, BM25x).

The high half of each byte is its place in the frame, which finds the frames in noise.
"""

from __future__ import annotations

from instruments.driver_kit.serial_display import PushedDisplaySettings
from instruments.driver_kit.settings import NotNegative
from instruments.reading import Accuracy


class LcdMeterSettings(PushedDisplaySettings):
    """The models of these families differ: how good the meter is must be said."""

    accuracy_pct_of_reading: NotNegative
    accuracy_floor: NotNegative
    """V or A: the counts of the manual times the value of a count in ``range``."""

    def limits(self) -> Accuracy:
        """What the rig says."""
        return Accuracy(self.accuracy_pct_of_reading / 100, self.accuracy_floor, "the rig")


def fits(data: bytes, places: bytes) -> bool:
    """Whether each byte of ``data`` is at its place; ``data`` may be the beginning of a frame."""
    return all(byte & 0xF0 == place for byte, place in zip(data, places, strict=False))


def split_frames(data: bytes, places: bytes) -> tuple[list[bytes], bytes]:
    """Frames and what stands between them, in order, and the rest that is not finished.

    ``places`` has the high half of each byte of a frame, times 16. A piece that is no frame is
    shorter or does not fit its places.
    """
    size = len(places)
    pieces: list[bytes] = []
    noise_from = at = 0
    while at < len(data):
        piece = data[at : at + size]
        if not fits(piece, places):
            at += 1
            continue
        if noise_from < at:
            pieces.append(data[noise_from:at])
        noise_from = at
        if len(piece) < size:
            return pieces, piece
        pieces.append(piece)
        noise_from = at = at + size
    if noise_from < at:
        pieces.append(data[noise_from:at])
    return pieces, b""
