"""A simulated UNI-T UT61E: the frames of its ES51922 chip."""

from __future__ import annotations

from instruments.simulated.meter_kit.faults import Fault
from instruments.simulated.meter_kit.handheld_meter import PushingMeter

_RANGES = {
    "voltage": ((0.22, 4, 1e-5), (2.2, 0, 1e-4), (22.0, 1, 1e-3), (220.0, 2, 1e-2)),
    "current": ((22e-3, 0, 1e-6), (220e-3, 1, 1e-5)),
}
"""Full scale, range byte, value of a digit; current: its mA position."""
_FUNCTION_BYTE = {"voltage": 0x3B, "current": 0x3F}
_AMPS_BYTE, _OHMS_BYTE = 0x30, 0x33
_MOST_DIGITS = 22_000


def ut61e_frame(
    function: str,
    value: float,
    overload: bool = False,
    hold: bool = False,
    low_battery: bool = False,
    other_function: bool = False,
) -> bytes:
    """The frame a UT61E with auto range sends for DC ``value`` (V or A)."""
    ranges = _RANGES[function]
    function_byte = _FUNCTION_BYTE[function]
    if function == "current" and abs(value) > ranges[-1][0]:
        function_byte, ranges = _AMPS_BYTE, ((10.0, 0, 1e-3),)
    fitting = [entry for entry in ranges if abs(value) <= entry[0]]
    _, range_index, step = fitting[0] if fitting else ranges[-1]
    count = min(round(abs(value) / step), _MOST_DIGITS)
    status = (4 if value < 0 else 0) | (2 if low_battery else 0) | (1 if overload else 0)
    option3 = 8 | 2  # DC, auto
    option4 = 2 if hold else 0
    if other_function:
        function_byte, option3 = _OHMS_BYTE, 2
    head = bytes([0x30 + range_index]) + f"{count:05d}".encode() + bytes([function_byte])
    return head + bytes(0x30 + flags for flags in (status, 0, 0, option3, option4)) + b"\r\n"


class Ut61eMeter(PushingMeter):
    """A UT61E with automatic range."""

    model = "UT61E"
    conversion_s = 0.5
    frame_s = 14 * 10 / 19_200  # 7O1

    def frame(self, value: float) -> bytes:
        """See :func:`ut61e_frame`; without a number its digits are none."""
        frame = ut61e_frame(
            self._function,
            value,
            overload=self.faults.has(Fault.OVERLOAD),
            hold=self.faults.has(Fault.HOLD),
            low_battery=self.faults.has(Fault.LOW_BATTERY),
            other_function=self.faults.has(Fault.WRONG_FUNCTION),
        )
        return frame[:1] + b":::::" + frame[6:] if self.faults.has(Fault.NAN) else frame
