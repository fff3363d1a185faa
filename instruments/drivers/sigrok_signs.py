"""How meters that sigrok reads are told from others at a serial port: by their frames on DC.

sigrok-cli itself cannot tell: its parsers take the frames of others, too. The patterns are of DC
volts and amps alone, where the frames of these chips differ (tables of bits in the logs of
H. Haftmann: UT61BCD, UT71BCDE, UT803, UT70B; parsers of libsigrok). Chips with the same frames but
another place for the point cannot be told apart, so the user compares a
value with the display.
"""

from __future__ import annotations

import re
from typing import Final

from instruments.driver_kit.serial_sign import SerialSign
from instruments.transports.lines import SerialFormat

_CHECK: Final = "; compare a reading with its display"
_7O1: Final = SerialFormat(baud=2400, data_bits=7, parity="O", rts=False, dtr=True)

_FS9922: Final = re.compile(
    rb"[+-](?:\d{4}|\?0:\?) [0124][\x10-\x17\x30-\x37][\x00-\x3f][\x00\x40\x80][\x40\x80].\r\n",
    re.DOTALL,
)
"""Byte 7: DC, with or without AUTO, REL, HOLD, bar graph; 9: µ, m or none; 10: V or A."""
_UT71: Final = re.compile(
    rb"(?:^|\n)(?:[0-3]\d{3}|40\d\d|::0<)[\d:]"
    rb"(?:[1-4]10[1256]|030[04]|[01][78]0[1256]|190[04])\r\n"
)
"""Digits, range, function (V, mV, µA, mA, A), no AC, and AUTO or MAN where there are ranges."""
_ES_2400: Final = re.compile(rb"(?:^|\n)([0-4]\d{4}[;=9?][0-7][02468:<>][89:;]\r\n)\1")
"""Range, digits, function (V, µA, mA, A), flags, DC; and the same again."""


def _sign(
    meters: str, line_format: SerialFormat, frames: re.Pattern[bytes], sigrok_driver: str
) -> SerialSign:
    settings = {"sigrok_driver": sigrok_driver, "conn": "{port}"}
    return SerialSign(f"{meters}{_CHECK}", line_format, b"", frames.search, settings)


SIGNS: Final = (
    _sign(
        "frames of an FS9922 (UNI-T UT61B, C, D)",
        SerialFormat(baud=2400, rts=False, dtr=True),
        _FS9922,
        "uni-t-ut61b-ser",
    ),
    _sign(
        "frames of the UNI-T UT71 family (Voltcraft VC940, UT804)",
        _7O1,
        _UT71,
        "uni-t-ut71c-ser",
    ),
    _sign(
        "frames of an ES51962 (UNI-T UT70B, ISO-TECH IDM103N)",
        _7O1,
        _ES_2400,
        "iso-tech-idm103n",
    ),
)
"""What is listened for, and the driver of sigrok that reads it."""
