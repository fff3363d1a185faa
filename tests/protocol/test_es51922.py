from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from instruments.drivers.es51922 import Es51922, Es51922Settings, decode, split_frames
from instruments.errors import ConnectionLost, ProtocolError
from instruments.reading import Status
from tests.protocol.exchange import Clock, ExpectedExchange

RECORDINGS = Path(__file__).parents[2].parent / "shared" / "data" / "es51922"
DELAY_NS = round((14 * 10 / 19200 + 0.25) * 1e9)


def frame(
    range_: int = 1, digits: str = "12345", function: int = 0x3B, flags: str = "000:0"
) -> bytes:
    return bytes([0x30 + range_]) + digits.encode() + bytes([function]) + flags.encode() + b"\r\n"


def meter(
    *arriving: bytes | Exception, step_ns: int = 500_000_000, **changes: Any
) -> tuple[Es51922, ExpectedExchange]:
    values = {"port": "/dev/ttyUSB0", "function": "voltage", "range": 22.0} | changes
    line = ExpectedExchange()
    instrument = Es51922(
        "v33", Es51922Settings.model_validate(values), Clock(step_ns=step_ns), line
    )
    instrument.open()
    instrument.start()
    line._unread = list(arriving)
    return instrument, line


def test_a_meter_with_an_es51932() -> None:
    """Source: rusty_meter's issue 16, a Victor 86E at 3.56 V; its low-pass bits are no HOLD."""
    shown = b"103560;000:3\r\n"
    held = b"103560;000:;\r\n"
    limits = {"accuracy_pct_of_reading": 0.05, "accuracy_floor": 5e-3}
    instrument, line = meter(shown, held, chip="es51932", **limits)
    with line:
        assert instrument.read().blocks[0].values.tolist() == pytest.approx([3.56])
        assert [s.status for s in instrument.read().statuses] == [Status.HOLD]
    assert instrument.open().model == "ES51932"
    assert decode(shown).hold, "an ES51922 has HOLD there"
    with pytest.raises(ValidationError, match="limits are a UT61E's"):
        meter(chip="es51932")


@pytest.mark.parametrize(
    ("range_", "function", "digits", "what", "value"),
    [
        (0, 0x3B, "12345", "voltage", 1.2345),
        (1, 0x3B, "12345", "voltage", 12.345),
        (2, 0x3B, "12345", "voltage", 123.45),
        (3, 0x3B, "09999", "voltage", 999.9),
        (4, 0x3B, "12345", "voltage", 0.12345),
        (0, 0x3D, "12345", "current", 123.45e-6),
        (1, 0x3D, "12345", "current", 1.2345e-3),
        (0, 0x3F, "12345", "current", 12.345e-3),
        (1, 0x3F, "12345", "current", 123.45e-3),
        (0, 0x30, "09876", "current", 9.876),
        (0, 0x33, "12345", "resistance", 123.45),
        (6, 0x33, "12345", "resistance", 123.45e6),
        (0, 0x35, "00012", "continuity", 0.12),
        (0, 0x31, "05678", "diode", 0.5678),
        (1, 0x32, "05000", "frequency", 500.0),
        (2, 0x36, "12345", "capacitance", 1.2345e-6),
    ],
)
def test_functions_and_ranges(
    range_: int, function: int, digits: str, what: str, value: float
) -> None:
    decoded = decode(frame(range_, digits, function))
    assert decoded.function == what
    assert decoded.value == pytest.approx(value, rel=1e-9, abs=0)


def test_flags() -> None:
    assert decode(frame(flags="4008 ".replace(" ", "0"))).value == -12.345
    assert decode(frame(flags="10080")).value is None
    assert decode(frame(flags="00880")).value is None
    assert decode(frame(flags="20080")).low_battery
    assert decode(frame(flags="00082")).hold
    assert decode(frame(flags="02080")).relative
    assert decode(frame(flags="08080")).extreme
    assert decode(frame(flags="00480")).extreme
    assert decode(frame(flags="00040")).ac
    auto = decode(frame(flags="000:0"))
    assert auto.dc and auto.auto_range
    assert decode(frame(digits=":<?0:", flags="10080")).value is None


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        frame()[:9],
        frame()[1:],
        frame() + b"0",
        frame(digits="12:45"),
        frame(range_=7),
        frame(function=0x37),
        frame()[:3] + b"\xb3" + frame()[4:],
        frame()[:-2] + b"\n\r",
    ],
)
def test_what_is_no_frame(bad: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(bad)


def test_frames_in_pieces_and_noise() -> None:
    lines, rest = split_frames(b"5;000:0\r\n" + frame() + frame()[:5])
    assert lines == [b"5;000:0\r\n", frame()]
    assert rest == frame()[:5]
    assert len(split_frames(b"\x00" * 500)[1]) < 14


def test_readings_and_their_time() -> None:
    arriving = (b"00:0\r\n", frame()[:4], frame()[4:], frame() + frame(digits="12346"))
    instrument, line = meter(*arriving, step_ns=1_000_000_000)
    with line:
        assert not instrument.read().blocks  # the tail of a frame that was under way
        assert not instrument.read().blocks
        (block,) = instrument.read().blocks
        assert block.values.tolist() == [12.345]
        assert block.t_ns.tolist() == [4_000_000_000 - DELAY_NS]
        first, second = instrument.read().blocks
        assert second.t_ns[0] - first.t_ns[0] == 500_000_000


@pytest.mark.parametrize(
    ("bad", "status"),
    [
        (frame(flags="10080"), Status.OVERLOAD),
        (frame(flags="00082"), Status.HOLD),
        (frame(flags="00480"), Status.WRONG_FUNCTION),
        (frame(flags="00040"), Status.WRONG_FUNCTION),
        (frame(function=0x33), Status.WRONG_FUNCTION),
        (frame(range_=2), Status.WRONG_FUNCTION),
        (frame(digits="1?345"), Status.UNREADABLE),
        (b"\xc3" + frame()[1:], Status.UNREADABLE),
    ],
)
def test_what_is_no_reading_is_a_status(bad: bytes, status: Status) -> None:
    instrument, line = meter(frame(), bad)
    with line:
        instrument.read()
        batch = instrument.read()
        assert not batch.blocks
        assert [s.status for s in batch.statuses] == [status]


def test_a_finer_range_is_fine_and_a_low_battery_is_reported_once() -> None:
    low = frame(range_=0, flags="20080")
    instrument, line = meter(low, low)
    with line:
        batch = instrument.read()
        assert batch.blocks[0].values.tolist() == pytest.approx([1.2345])
        (status,) = batch.statuses
        assert (status.status, status.count) == (Status.LOW_BATTERY, 0), "no reading is lost"
        assert status.t_ns < batch.blocks[0].t_ns[0], "its value ends the span"
        assert not instrument.read().statuses


def test_a_battery_that_wavers_is_reported_once_and_no_hold_is_cut() -> None:
    low, good = frame(range_=0, flags="20080"), frame(range_=0)
    instrument, line = meter(frame(range_=0, flags="20082"), low, good, low)
    with line:
        found = [[s.status for s in instrument.read().statuses] for _ in range(4)]
    assert found == [[Status.HOLD], [Status.LOW_BATTERY], [], []]


def test_an_automatic_range_is_reported_once_a_change() -> None:
    shown = [frame(range_=1), frame(range_=0), frame(range_=0), frame(range_=1)]
    instrument, line = meter(*shown)
    with line:
        found = [[(s.status, s.count) for s in instrument.read().statuses] for _ in shown]
    changed = [(Status.RANGE_CHANGED, 0)]
    assert found == [[], changed, [], changed]


def test_a_meter_that_sends_each_reading_twice() -> None:
    shown = [frame(digits=f"1234{i // 2}") for i in range(8)]
    instrument, line = meter(*shown, step_ns=100_000_000)
    with line:
        batches = [instrument.read() for _ in shown]
    values = [v for b in batches for block in b.blocks for v in block.values.tolist()]
    assert values == pytest.approx([12.34, 12.341, 12.342, 12.343])
    assert [s.status for b in batches for s in b.statuses] == [Status.DUPLICATE], "one event"


def test_equal_frames_that_waited_while_the_program_did_not_read_are_readings() -> None:
    instrument, line = meter(frame(), frame() * 3, step_ns=1_500_000_000)
    with line:
        instrument.read()
        batch = instrument.read()
    assert [len(block) for block in batch.blocks] == [1, 1, 1]
    assert not batch.statuses


def test_two_equal_frames_at_once_in_the_time_of_one_are_one_reading() -> None:
    instrument, line = meter(frame(), frame() * 2, frame(digits="12346") * 2)
    with line:
        batches = [instrument.read() for _ in range(3)]
    times = [block.t_ns.tolist() for batch in batches for block in batch.blocks]
    assert times == [[n * 500_000_000 + 1_000_000_000 - DELAY_NS] for n in (1, 2, 3)]
    assert [s.status for batch in batches for s in batch.statuses] == [Status.DUPLICATE]


def test_a_meter_that_is_faster_than_its_interval_is_read_on_while_its_value_stays() -> None:
    instrument, line = meter(*[frame()] * 30, step_ns=100_000_000)
    with line:
        batches = [instrument.read() for _ in range(30)]
    assert 6 <= sum(len(batch.blocks) for batch in batches) <= 12, "about two a second, not none"


def test_digits_that_stay_are_reported_when_they_changed_before_and_a_quiet_display_is_not() -> (
    None
):
    quiet = [frame()] * 1300
    instrument, line = meter(*quiet)
    with line:
        assert not any(instrument.read().statuses for _ in quiet), "it may be a quiet voltage"
    stuck = [frame(digits=f"1234{i % 3}") for i in range(100)] + quiet
    instrument, line = meter(*stuck)
    with line:
        reported = [instrument.read() for _ in stuck]
    first = next(i for i, batch in enumerate(reported) if batch.statuses)
    assert first == 100 + 1200, "ten minutes after the last change"
    assert reported[first].statuses[0].status is Status.STUCK and reported[first].blocks


def test_unplugged() -> None:
    instrument, line = meter(ConnectionLost("gone"))
    with line, pytest.raises(ConnectionLost):
        instrument.read()
    instrument.close()


RECORDED: dict[str, tuple[str, float | None]] = {
    "voltage_dc_3_3v": ("voltage", 3.302),
    "current_ma_dc_1ma": ("current", 1e-3),
    "current_a_dc_0_001a": ("current", 1e-3),
    "voltage_dc_0_1v_pmax": ("voltage", None),
    "resistance_ol": ("resistance", None),
    "diode_ol": ("diode", None),
}


@pytest.mark.skipif(not RECORDINGS.exists(), reason="needs recordings that are not shipped")
def test_recordings() -> None:
    for name, (function, value) in RECORDED.items():
        text = (RECORDINGS / f"es51922__ut61e_{name}.tsv").read_text()
        frames = [
            bytes.fromhex(match[1]) for match in re.finditer(r"^[\d.]+\t([0-9a-f ]+)\t", text, re.M)
        ]
        assert frames, name
        for raw in frames:
            decoded = decode(raw)
            assert decoded.function == function, name
            if value is not None:
                assert decoded.value == pytest.approx(value, abs=1.1e-3 * value), name
                assert decoded.dc and decoded.value is not None, name
            else:
                assert decoded.value is None or decoded.extreme, name


def test_a_meter_with_an_es51986() -> None:
    """Built by the table of bits in H. Haftmann's log of a UT803; each frame comes twice."""
    limits = {"accuracy_pct_of_reading": 1.5, "accuracy_floor": 0.05}
    rig = {"chip": "es51986", "function": "current", "range": 10.0} | limits
    amps, mean, over, maximum, held = (
        b"0" + digits + b"9" + flags + b"\r\n"
        for digits, flags in (
            (b"0123", b"808"), (b"0456", b"<08"), (b"6000", b"908"), (b"0123", b"848"),
            (b"0123", b"888"),
        )
    )  # fmt: skip
    instrument, line = meter(*(2 * one for one in (amps, mean, over, maximum, held)), **rig)
    with line:
        first = instrument.read()  # how long the meter had for its first two nobody knows
        assert first.blocks[0].values.tolist() == pytest.approx([1.23])
        assert instrument.read().blocks[0].values.tolist() == pytest.approx([-4.56])
        rest = [status for _ in range(3) for status in instrument.read().statuses]
    found = [one.status for one in rest if one.status is not Status.DUPLICATE]
    assert found == [Status.OVERLOAD, Status.WRONG_FUNCTION, Status.HOLD]
    assert instrument.open().model == "ES51986"
    with pytest.raises(ValidationError, match=r"must be one of 0\.6, 6, 60"):
        meter(**(rig | {"function": "voltage", "range": 22.0}))
    with pytest.raises(ValidationError, match="limits are a UT61E's"):
        meter(chip="es51986", range=60.0)
