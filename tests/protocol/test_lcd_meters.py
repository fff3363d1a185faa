"""FS9721 and Brymen BM25x: frames built from the segments of their displays."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from instruments.driver_kit.serial_display import SerialDisplayMeter, split_frames
from instruments.drivers import brymen_bm25x, fs9721
from instruments.drivers.brymen_bm25x import BrymenBm25x, BrymenBm25xSettings
from instruments.drivers.fs9721 import Fs9721, Fs9721Settings
from instruments.errors import ConnectionLost, ProtocolError
from instruments.reading import Batch, Status
from tests.protocol.exchange import Clock, ExpectedExchange

FS9721_SYMBOLS = {
    "AC": (0, 8), "DC": (0, 4), "AUTO": (0, 2), "RS232": (0, 1),
    "-": (1, 8), "p1": (3, 8), "p2": (5, 8), "p3": (7, 8),
    "µ": (9, 8), "n": (9, 4), "k": (9, 2), "diode": (9, 1),
    "m": (10, 8), "%": (10, 4), "M": (10, 2), "beep": (10, 1),
    "F": (11, 8), "Ω": (11, 4), "REL": (11, 2), "HOLD": (11, 1),
    "A": (12, 8), "V": (12, 4), "Hz": (12, 2), "BAT": (12, 1),
    "MIN": (13, 8), "°C": (13, 4), "MAX": (13, 1),
}  # fmt: skip
FS9721_SEGMENTS = {
    "0": 0x7D, "1": 0x05, "2": 0x5B, "3": 0x1F, "4": 0x27, "5": 0x3E, "6": 0x7E, "7": 0x15,
    "8": 0x7F, "9": 0x3F, "L": 0x68, " ": 0x00, "?": 0x11,
}  # fmt: skip
BRYMEN_SYMBOLS = {
    "AUTO": (1, 8), "DC": (1, 4), "AC": (1, 2), "REL": (1, 1), "BAT": (2, 4),
    "-": (3, 1), "p1": (5, 1), "p2": (7, 1), "p3": (9, 1),
    "HOLD": (11, 8), "M": (11, 2), "k": (11, 1), "Ω": (12, 4), "Hz": (12, 2), "n": (12, 1),
    "MAX": (13, 8), "F": (13, 4), "µ": (13, 2), "m": (13, 1),
    "MIN": (14, 8), "V": (14, 4), "A": (14, 2),
}  # fmt: skip
BRYMEN_SEGMENTS = {
    "0": 0xBE, "1": 0xA0, "2": 0xDA, "3": 0xF8, "4": 0xE4, "5": 0x7C, "6": 0x7E, "7": 0xA8,
    "8": 0xFE, "9": 0xFC, "L": 0x16, " ": 0x00, "C": 0x1E, "?": 0x22,
}  # fmt: skip


def fs9721_frame(digits: str, *symbols: str, rs232: bool = True) -> bytes:
    data = [16 * (i + 1) for i in range(14)]
    for i, character in enumerate(digits):
        data[1 + 2 * i] |= FS9721_SEGMENTS[character] >> 4
        data[2 + 2 * i] |= FS9721_SEGMENTS[character] & 0xF
    for symbol in [*symbols, *(["RS232"] if rs232 else [])]:
        place, bit = FS9721_SYMBOLS[symbol]
        data[place] |= bit
    return bytes(data)


def brymen_frame(digits: str, *symbols: str) -> bytes:
    data = [2, *(16 * i for i in range(1, 15))]
    for i, character in enumerate(digits):
        data[3 + 2 * i] |= BRYMEN_SEGMENTS[character] & 0xE
        data[4 + 2 * i] |= BRYMEN_SEGMENTS[character] >> 4
    for symbol in symbols:
        place, bit = BRYMEN_SYMBOLS[symbol]
        data[place] |= bit
    return bytes(data)


FRAMES = {"fs9721": fs9721_frame, "brymen": brymen_frame}
DECODE = {"fs9721": fs9721.decode, "brymen": brymen_bm25x.decode}


@pytest.fixture(params=["fs9721", "brymen"])
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def meter(
    family: str, *arriving: bytes | Exception, step_ns: int = 400_000_000, **changes: Any
) -> tuple[SerialDisplayMeter, ExpectedExchange]:
    values = {
        "port": "/dev/ttyUSB0",
        "function": "voltage",
        "range": 40.0 if family == "fs9721" else 60.0,
        "accuracy_pct_of_reading": 0.5,
        "accuracy_floor": 0.04,
    } | changes
    line = ExpectedExchange()
    clock = Clock(step_ns=step_ns)
    instrument: SerialDisplayMeter
    if family == "fs9721":
        instrument = Fs9721("v", Fs9721Settings.model_validate(values), clock, line)
    else:
        instrument = BrymenBm25x("v", BrymenBm25xSettings.model_validate(values), clock, line)
    instrument.open()
    instrument.start()
    line._unread = list(arriving)
    return instrument, line


def reported(batch: Batch) -> list[Status]:
    return [status.status for status in batch.statuses]


def values(batch: Batch) -> list[float]:
    return [value for block in batch.blocks for value in block.values.tolist()]


def test_a_known_frame_of_an_fs9721() -> None:
    # a VC820 that shows 12.34 V DC AUTO, written out byte by byte
    data = bytes(
        [0x17, 0x20, 0x35, 0x45, 0x5B, 0x69, 0x7F, 0x82, 0x97, 0xA0, 0xB0, 0xC0, 0xD4, 0xE0]
    )
    assert data == fs9721_frame("1234", "DC", "AUTO", "V", "p2")
    assert fs9721.decode(data).value == pytest.approx(12.34)


@pytest.mark.parametrize(
    ("digits", "symbols", "function", "value"),
    [
        ("1234", ["DC", "V", "p1"], "voltage", 1.234),
        ("0330", ["DC", "V", "p2"], "voltage", 3.30),
        ("1205", ["DC", "V", "p2", "-"], "voltage", -12.05),
        ("3999", ["DC", "V", "m", "p3"], "voltage", 0.3999),
        ("0678", ["DC", "A", "m", "p2"], "current", 6.78e-3),
        ("1050", ["DC", "A", "µ"], "current", 1050e-6),
        ("0150", ["DC", "A", "p2"], "current", 1.5),
        ("2301", ["AC", "V", "p3"], "voltage", 230.1),
        ("4700", ["Ω", "k", "p1"], "resistance", 4700.0),
        ("0999", ["Hz", "M", "p1"], "frequency", 0.999e6),
        ("0471", ["F", "n", "p1"], "capacitance", 0.471e-9),
    ],
)
def test_functions_prefixes_and_points(
    family: str, digits: str, symbols: list[str], function: str, value: float
) -> None:
    display = DECODE[family](FRAMES[family](digits, *symbols))
    assert display.function == function
    assert display.value == pytest.approx(value, rel=1e-9)
    assert display.dc == ("DC" in symbols) and display.ac == ("AC" in symbols)


def test_each_digit(family: str) -> None:
    for digit in "0123456789":
        assert DECODE[family](FRAMES[family](f"000{digit}", "V")).value == int(digit)


def test_a_temperature_on_a_brymen() -> None:
    display = brymen_bm25x.decode(brymen_frame("023C"))
    assert (display.function, display.unit, display.value) == ("temperature", "°C", 23.0)


@pytest.mark.parametrize(
    ("digits", "symbols"),
    [("123?", ["V"]), ("1 34", ["V"]), ("1234", ["V", "A"]), ("1234", ["V", "m", "k"])],
)
def test_what_is_no_display(family: str, digits: str, symbols: list[str]) -> None:
    with pytest.raises(ProtocolError):
        DECODE[family](FRAMES[family](digits, *symbols))


def test_what_is_no_frame(family: str) -> None:
    good = FRAMES[family]("1234", "DC", "V")
    for bad in (b"", good[:-1], good[1:], good + b"\x00", good[:5] + b"\xff" + good[6:]):
        with pytest.raises(ProtocolError):
            DECODE[family](bad)
    with pytest.raises(ProtocolError, match="RS232"):
        fs9721.decode(fs9721_frame("1234", "DC", "V", rs232=False))
    with pytest.raises(ProtocolError, match="two decimal points"):
        brymen_bm25x.decode(brymen_frame("1234", "V", "p1", "p2"))


@pytest.mark.parametrize(
    ("digits", "symbols", "status"),
    [
        (" 0L ", ["DC", "V"], Status.OVERLOAD),
        ("1234", ["DC", "V", "p2", "HOLD"], Status.HOLD),
        ("1234", ["DC", "V", "p2", "REL"], Status.WRONG_FUNCTION),
        ("1234", ["DC", "V", "p2", "MAX"], Status.WRONG_FUNCTION),
        ("1234", ["DC", "V", "p2", "MIN"], Status.WRONG_FUNCTION),
        ("1234", ["AC", "V", "p2"], Status.WRONG_FUNCTION),
        ("1234", ["DC", "A", "p2"], Status.WRONG_FUNCTION),
        ("1234", ["Ω", "p2"], Status.WRONG_FUNCTION),
        ("1234", ["DC", "V", "p3"], Status.WRONG_FUNCTION),
        ("12?4", ["DC", "V", "p2"], Status.UNREADABLE),
    ],
)
def test_what_is_no_reading_is_a_status(
    family: str, digits: str, symbols: list[str], status: Status
) -> None:
    frame = FRAMES[family]
    instrument, line = meter(family, frame("1200", "DC", "V", "p2"), frame(digits, *symbols))
    with line:
        assert values(instrument.read()) == [12.0]
        batch = instrument.read()
    assert not batch.blocks
    assert reported(batch) == [status]


def test_a_symbol_of_its_makers_own_is_reported_when_it_changes() -> None:
    usual = [fs9721_frame(f"120{i}", "DC", "V", "p2", "MIN") for i in range(3)]
    changed = fs9721_frame("1203", "DC", "V", "p2")
    instrument, line = meter("fs9721", usual[0], changed)
    with line:
        assert [values(instrument.read()) for _ in range(2)] == [[12.0], []]
        instrument.start()
        line._unread = [changed, usual[1], usual[2]]
        batches = [instrument.read() for _ in range(3)]
    assert reported(batches[0]) == [Status.WRONG_FUNCTION], (
        "what it was holds after a reconnection too"
    )
    assert [values(batch) for batch in batches] == [[], [12.01], [12.02]]


def test_an_automatic_range_is_reported_once_a_change(family: str) -> None:
    frame = FRAMES[family]
    shown = [
        frame("1234", "DC", "V", "p2", "AUTO"),
        frame("1234", "DC", "V", "p1", "AUTO"),
        frame("1235", "DC", "V", "p1", "AUTO"),
    ]
    instrument, line = meter(family, *shown)
    with line:
        batches = [instrument.read() for _ in shown]
    assert [reported(batch) for batch in batches] == [[], [Status.RANGE_CHANGED], []]
    assert batches[1].statuses[0].count == 0, "no reading is lost"
    assert [values(batch) for batch in batches] == [[12.34], [1.234], [1.235]]


@pytest.mark.parametrize(
    ("shown", "range_", "expected"),
    [
        (("0321", "DC", "A", "p2"), 10.0, [3.21]),  # the 10 A range: its display ends at 40 or 60
        (("0321", "DC", "A", "p2"), 20.0, [3.21]),
        (("0321", "DC", "A", "p1"), 10.0, [0.321]),
        (("0321", "DC", "A", "p2"), 6.0, []),
        (("0321", "DC", "A", "p3"), 10.0, []),  # 400 A: of a clamp
        (("0321", "DC", "V"), 1000.0, [321.0]),
        (("0321", "DC", "V"), 400.0, []),
    ],
)
def test_the_largest_ranges_have_the_names_on_the_meter(
    family: str, shown: tuple[str, ...], range_: float, expected: list[float]
) -> None:
    function = "current" if "A" in shown else "voltage"
    instrument, line = meter(family, FRAMES[family](*shown), function=function, range=range_)
    with line:
        assert values(instrument.read()) == pytest.approx(expected)


def test_a_low_battery_is_reported_once(family: str) -> None:
    low = FRAMES[family]("1234", "DC", "V", "p2", "BAT")
    instrument, line = meter(family, low, low)
    with line:
        assert [reported(instrument.read()) for _ in range(2)] == [[Status.LOW_BATTERY], []]


def test_half_frames_noise_and_the_way_back(family: str) -> None:
    good = FRAMES[family]("1200", "DC", "V", "p2")
    other = FRAMES[family]("1201", "DC", "V", "p2")
    pieces = [good[9:], good[:6], good[6:], other[:4] + good, b"\xff\x00\x81", other]
    instrument, line = meter(family, *pieces)
    with line:
        batches = [instrument.read() for _ in pieces]
    assert [values(b) for b in batches] == [[], [], [12.0], [12.0], [], [12.01]]
    assert [reported(b) for b in batches] == [
        [],
        [],
        [],
        [Status.UNREADABLE],
        [Status.UNREADABLE],
        [],
    ]


def test_wrong_parity_makes_no_value(family: str) -> None:
    """Each frame with its eighth bit set, as a line with another parity delivers it."""
    good = FRAMES[family]("1200", "DC", "V", "p2")
    instrument, line = meter(family, good, bytes(byte | 0x80 for byte in good) * 3, good)
    with line:
        assert values(instrument.read()) == [12.0]
        assert not instrument.read().blocks
        assert values(instrument.read())[-1:] == [12.0]


def test_a_meter_that_sends_each_reading_twice(family: str) -> None:
    frame = FRAMES[family]
    shown = [frame(f"120{i // 2}", "DC", "V", "p2") for i in range(8)]
    instrument, line = meter(family, *shown, step_ns=50_000_000)
    with line:
        batches = [instrument.read() for _ in shown]
    assert [v for b in batches for v in values(b)] == pytest.approx([12.0, 12.01, 12.02, 12.03])
    assert [s for b in batches for s in reported(b)] == [Status.DUPLICATE], (
        "one event, not one each"
    )


def test_a_steady_value_is_no_duplicate(family: str) -> None:
    same = FRAMES[family]("1200", "DC", "V", "p2")
    instrument, line = meter(family, *[same] * 5)
    with line:
        batches = [instrument.read() for _ in range(5)]
    assert sum(len(values(b)) for b in batches) == 5


def test_the_time_of_a_reading() -> None:
    instrument, line = meter("fs9721", fs9721_frame("1200", "DC", "V", "p2"), interval_s=0.4)
    with line:
        (block,) = instrument.read().blocks
    arrived_ns = 1_400_000_000
    assert block.t_ns[0] == arrived_ns - round(14 * 10 / 2400 * 1e9) - 200_000_000


def test_pieces(family: str) -> None:
    good = FRAMES[family]("1234", "DC", "V")
    places = fs9721.PLACES if family == "fs9721" else brymen_bm25x.PLACES
    assert split_frames(good[3:] + good + good[:3], places) == ([good[3:], good], good[:3])
    assert split_frames(b"\xfe" * 1000, places) == ([b"\xfe" * 1000], b"")


def test_unplugged_and_settings(family: str) -> None:
    instrument, line = meter(family, ConnectionLost("gone"))
    with line, pytest.raises(ConnectionLost):
        instrument.read()
    instrument.close()
    with pytest.raises(ValidationError, match="accuracy_floor"):
        meter(family, accuracy_floor=None)
