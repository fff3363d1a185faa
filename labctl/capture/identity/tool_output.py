"""Parse the output of command line tools: JSON with text around it, numbers, failures.

smartctl prints the same counter as a number and as a string, and other text may stand around JSON.
Nothing here raises for what a tool printed.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from labctl.capture.host.machine import NOT_EXECUTABLE, NOT_FOUND, TIMED_OUT, Completed

_KELVIN, _WHOLE_KELVIN = 273.15, 273.0
_SCALES_APART = 200
"""Values from this on are kelvin, lower ones °C: no drive is at 200 K or at 200 °C."""
_COLDEST_CELSIUS, _HOTTEST_CELSIUS = -60.0, 150.0
"""Parts are rated for -55 to 125 °C at most: what is beyond was not measured."""
_ABSENT = 255
"""FFh: a field of one byte without a value; not taken for 255 K."""
_FAHRENHEIT = re.compile(r"\d\s*°?\s*F", re.IGNORECASE)
_MOST_COUNTED = 1 << 63
"""A counter of 128 bits that is larger is filled with ones, or was never written."""
_MOST_IN_32_BITS = 0xFFFFFFFE
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_MOST_STARTS = 200
_DEAD = (
    "input/output error",
    "aborted by host",
    "abort requested",
    "path error",
    "controller is dead",
    "device not ready",
    "resource temporarily unavailable",
)
"""Errors of the kernel for a drive whose device node is left but which does not answer."""


def json_object(text: str) -> dict[str, Any] | None:
    """The largest JSON object in ``text``, or None; the text around it is skipped."""
    decoder = json.JSONDecoder(strict=False)  # nvme-cli 1.x does not escape what Identify has
    best: tuple[int, dict[str, Any]] | None = None
    position = text.find("{")
    for _ in range(_MOST_STARTS):
        if position < 0:
            break
        try:
            found, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            position = text.find("{", position + 1)
            continue
        if isinstance(found, dict) and (best is None or end - position > best[0]):
            best = end - position, found
        position = text.find("{", end)
    return None if best is None else best[1]


def number(value: Any) -> float | None:
    """A finite number from a number, a string ("1,234", "0x1f", "40 C") or ``{"value": …}``."""
    if isinstance(value, dict):
        return number(value.get("value"))
    if isinstance(value, str):
        word = (value.replace(",", "").split() or [""])[0].rstrip("%°CKF")
        try:
            value = int(word, 0) if word.lower().startswith("0x") else float(word)
        except ValueError:
            return None
    if not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def integer(value: Any) -> int | None:
    """A whole number from what :func:`number` takes, exact where the tool printed it exactly.

    None if negative (tools print -1 for "none") or too large for any counter.
    """
    if isinstance(value, dict):
        return integer(value.get("value"))
    if isinstance(value, str) and value.replace(",", "").strip().isdecimal():
        value = int(value.replace(",", ""))
    found = value if isinstance(value, int) else number(value)
    return None if found is None or not 0 <= found < _MOST_COUNTED else round(found)


def counter_of_32_bits(value: Any) -> int | None:
    """The value of a 32-bit counter; None for all ones, which is an absent counter."""
    return within(_MOST_IN_32_BITS, value)


def within(most: int, value: Any) -> int | None:
    """A whole number from 0 to ``most``; None for anything else."""
    found = integer(value)
    return None if found is None or found > most else found


def text(value: Any) -> str:
    """A name without the padding that Identify has."""
    return " ".join(str(value).replace("\0", " ").split()) if isinstance(value, str) else ""


def boolean(value: Any) -> bool | None:
    """A bool from a bool or a number."""
    found = number(value)
    return None if found is None else bool(found)


def celsius(value: Any) -> float | None:
    """°C from a field that is in °C, but may have been left in kelvin. None where no drive can
    have it."""
    found = _tool_output_degrees(value)
    if found is None or found == _ABSENT:
        return None
    if found >= _SCALES_APART:
        # Drives report whole kelvins, from which every tool subtracts 273
        found -= _WHOLE_KELVIN if found.is_integer() else _KELVIN
    return plausible(found)


def plausible(degrees_celsius: float) -> float | None:
    """The temperature, or None where no drive can have it: 0 K, 65535 K, FFh."""
    return degrees_celsius if _COLDEST_CELSIUS < degrees_celsius < _HOTTEST_CELSIUS else None


def _tool_output_degrees(value: Any) -> float | None:
    if isinstance(value, bool) or (isinstance(value, str) and _FAHRENHEIT.search(value)):
        return None
    return number(value)


def failure(tool: str, package: str, done: Completed, gives: str) -> str:
    """One line: what is missing (``gives``), why ``tool`` did not give it, and what to do."""
    plain = _COLOUR.sub("", done.stderr or done.stdout)
    message = " ".join(plain.partition("Usage:")[0].split())  # nvme-cli appends its usage text
    lower = message.lower()
    missing = f"no {gives}"
    if done.exit_code == NOT_FOUND:
        return f"{missing}: {tool} is not installed on the drive's host; install {package}"
    if done.exit_code == TIMED_OUT:
        return f"{missing}: {tool} did not answer; does the drive still respond?"
    if done.exit_code == NOT_EXECUTABLE or any(
        words in lower
        for words in ("permission denied", "operation not permitted", "eacces", "requires root")
    ):
        return (
            f"{missing}: {tool} was not permitted to ask the drive; run labctl as root there, or "
            "give the user the right (group disk for SATA; NVMe commands need root)"
        )
    if any(words in lower for words in ("no such file", "no such device", "not found")):
        return f"{missing}: {tool} finds no such drive; was it pulled?"
    if any(words in lower for words in _DEAD):
        return (
            f"{missing}: the drive does not answer {tool} ({message[:120]}); was it pulled, or has "
            "it failed? See dmesg on its host"
        )
    if "inappropriate ioctl" in lower or "unable to detect device type" in lower:
        return f"{missing}: this kind of drive does not answer {tool}, or it is not there any more"
    if "unknown usb bridge" in lower:
        return (
            f"{missing}: {message[:120]}: smartctl cannot ask through it; connect the drive without"
        )
    return f"{missing}: {tool} ended with {done.exit_code}: {message[:200] or 'nothing said'}"
