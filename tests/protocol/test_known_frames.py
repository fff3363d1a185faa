"""Frames of real meters beside what their displays showed.

UT61E, UT803, UT60G and UT60A/E: the logs of H. Haftmann (UT61E.LOG, UT803.LOG, UT60FG.LOG,
UT60AE.LOG) and a capture of a UT61E, as QtDMM collects them in docs/protocols/spec. TP4000ZC: the
notes of M. Mason and R. Garner. Those with a last byte E1 or E4: a meter with Bluetooth (source:
the tests of fs9721-utils). BM25x: a BM257s (source: the tests of bm257s; the first frame is the
maker's own example) and QtDMM's vectors, made from the same table as ours by other hands.
"""

from __future__ import annotations

import pytest

from instruments.driver_kit.serial_display import Display, reading_of
from instruments.drivers import brymen_bm25x, es51922, fs9721
from instruments.errors import ProtocolError

UT61E: dict[str, tuple[str, str, float | None]] = {
    "30 30 30 31 31 37 3B 30 30 30 3A 30 0D 0A": ("DC voltage", "AUTO", 0.0117),
    "30 30 30 30 39 37 3B 34 30 30 3A 30 0D 0A": ("DC voltage", "AUTO", -0.0097),
    "31 30 30 30 30 30 3B 30 30 30 38 30 0D 0A": ("DC voltage", "", 0.0),
    "30 30 30 30 30 30 3B 32 30 30 3A 30 0D 0A": ("DC voltage", "AUTO BAT", 0.0),
    "30 30 30 30 30 30 3B 30 32 30 38 30 0D 0A": ("DC voltage", "REL", 0.0),
    "30 30 30 31 39 37 3B 30 30 34 38 30 0D 0A": ("DC voltage", "EXTREME", 0.0197),
    "30 30 30 32 32 32 3B 34 30 32 38 30 0D 0A": ("DC voltage", "EXTREME", -0.0222),
    "34 30 33 30 35 35 3B 34 30 30 38 30 0D 0A": ("DC voltage", "", -30.55e-3),
    "34 30 38 31 35 33 3B 30 30 30 34 30 0D 0A": ("AC voltage", "", 81.53e-3),
    "31 30 30 35 30 30 3B 30 30 30 3B 30 0D 0A": ("DC frequency", "AUTO", 50.0),
    "30 30 30 34 39 34 3B 38 30 30 39 30 0D 0A": ("DC duty cycle", "", 49.4),
    "36 32 32 35 38 30 33 31 30 30 32 30 0D 0A": ("resistance", "AUTO", None),
    "30 32 32 35 38 30 35 31 30 30 30 30 0D 0A": ("continuity", "", None),
    "30 32 32 35 38 30 31 31 30 30 30 30 0D 0A": ("diode", "", None),
    "30 30 30 30 34 32 36 30 30 30 32 30 0D 0A": ("capacitance", "AUTO", 0.042e-9),
    "31 30 30 30 30 33 36 30 30 30 30 30 0D 0A": ("capacitance", "", 0.03e-9),
    "34 30 30 31 36 33 32 38 30 30 30 30 0D 0A": ("duty cycle", "", 16.3),
    "30 30 30 30 30 30 32 38 30 38 30 30 0D 0A": ("duty cycle", "", None),
    "31 30 30 30 30 39 3D 30 30 30 34 30 0D 0A": ("AC current", "", 0.9e-6),
    "30 30 30 30 30 37 3F 30 30 30 36 30 0D 0A": ("AC current", "AUTO", 0.007e-3),
    "30 30 30 30 31 36 30 30 30 30 34 30 0D 0A": ("AC current", "", 0.016),
    "30 30 30 30 30 30 30 30 30 30 34 32 0D 0A": ("AC current", "HOLD", 0.0),
}
UT803: dict[str, tuple[str, str, float | None]] = {
    "30 30 30 30 30 3B 38 30 3A 0D 0A": ("DC voltage", "AUTO", 0.0),
    "31 30 30 30 30 3B 3C 30 38 0D 0A": ("DC voltage", "", 0.0),
    "30 30 30 31 34 3B 38 30 36 0D 0A": ("AC voltage", "AUTO", 0.014),
    "33 30 30 31 31 3B 38 30 34 0D 0A": ("AC voltage", "", 11.0),
    "35 36 30 30 30 33 39 30 32 0D 0A": ("resistance", "AUTO", None),
    "30 36 30 30 30 35 39 30 30 0D 0A": ("continuity", "", None),
    "30 32 36 34 37 31 39 30 30 0D 0A": ("diode", "", None),
    "30 32 38 32 30 31 39 38 30 0D 0A": ("diode", "HOLD", None),
    "30 30 30 35 31 36 38 30 32 0D 0A": ("capacitance", "AUTO", 0.051e-9),
    "30 30 30 33 35 36 38 30 32 0D 0A": ("capacitance", "AUTO", 0.035e-9),
    "34 30 30 30 30 32 38 30 30 0D 0A": ("frequency", "", 0.0),
    "30 30 30 32 32 34 38 30 30 0D 0A": ("temperature", "", 22.0),
    "30 30 30 30 30 3D 38 30 3A 0D 0A": ("DC current", "AUTO", 0.0),
    "31 30 30 33 37 3D 38 30 34 0D 0A": ("AC current", "", 37e-6),
    "31 30 30 33 32 3F 38 30 34 0D 0A": ("AC current", "", 3.2e-3),
    "30 30 30 30 30 39 3C 30 38 0D 0A": ("DC current", "", 0.0),
    "30 30 30 32 33 39 38 30 34 0D 0A": ("AC current", "", 0.23),
}
UT60: dict[str, tuple[str, str, float | None]] = {
    "13 20 30 47 5D 6E 78 80 90 A0 B2 C4 D0 E8": ("resistance", "AUTO", None),
    "17 2F 3D 47 5D 67 7D 8A 97 A0 B8 C0 D4 E8": ("DC voltage", "AUTO", -0.4e-3),
    "17 27 3D 40 55 67 7F 8B 9F A0 B8 C0 D4 E8": ("DC voltage", "AUTO", 18.9e-3),
    "17 2F 3D 47 5D 63 7E 8D 9B A0 B8 C0 D4 E8": ("DC voltage", "AUTO", -5.2e-3),
    "17 21 3F 45 5B 61 7F 88 95 A0 B8 C0 D4 E8": ("DC voltage", "AUTO", 323.1e-3),
    "13 27 3D 42 57 69 75 80 95 A2 B0 C4 D0 E8": ("resistance", "AUTO", 4710.0),
    "1B 27 3D 4F 5D 60 75 81 9F A0 B0 C0 D4 E8": ("AC voltage", "AUTO", 0.013),
    "13 20 35 47 5D 69 75 85 9B A4 B0 C9 D0 E8": ("capacitance", "AUTO HOLD", 10.72e-9),
    "15 27 3D 47 5D 67 7D 8F 9D A8 B0 C0 D8 E8": ("DC current", "", 0.0),
    "15 27 3D 47 5D 67 7D 8F 9D A8 B0 C2 D8 E8": ("DC current", "REL", 0.0),
    "17 27 3D 40 55 67 7D 8B 9F A0 B8 C0 D4 E1": ("DC voltage", "AUTO", 10.9e-3),
    "17 27 3D 47 5D 63 7F 8F 9F A0 B8 C0 D4 E1": ("DC voltage", "AUTO", 9.8e-3),
    "17 27 3D 47 5D 61 75 8F 9F A0 B8 C0 D4 E1": ("DC voltage", "AUTO", 7.8e-3),
    "15 27 3D 47 5D 67 7D 87 9E A0 B0 C0 D0 E4": ("DC nothing known", "", 6.0),
}
BM25X: dict[str, tuple[str, str, float | None]] = {
    "02 1A 20 3C 47 50 6A 78 8F 9F A7 B0 C0 D0 E5": ("AC voltage", "AUTO", 513.6),
    "02 1C 20 3E 4B 5E 6B 7F 8B 9A AD B0 C0 D1 E5": ("DC voltage", "AUTO", 0.02e-3),
    "02 1C 20 3E 4B 51 6A 74 8E 9C AF B0 C0 D0 E5": ("DC voltage", "AUTO", 0.149),
    "02 1C 20 3F 4B 5F 6B 7E 87 9E AF B0 C0 D0 E5": ("DC voltage", "AUTO", -0.068),
    "02 10 20 3E 4B 5E 67 78 8A 9E A4 B0 C0 D0 E0": ("temperature", "", 67.0),
    "02 10 20 3E 4B 50 6A 7C 8F 9E A1 B0 C0 D0 E0": ("temperature", "", 19.0),
    "02 11 20 3E 4B 5E 6B 7E 8B 9E A4 B0 C0 D0 E0": ("temperature", "REL", 0.0),
    "02 18 20 3E 4B 5E 67 7C 8F 9E A4 B0 C0 D8 E8": ("temperature", "AUTO", 69.0),
    "02 18 20 3E 4B 5E 67 78 8A 9E A4 B0 C0 D0 E8": ("temperature", "AUTO EXTREME", 67.0),
    "02 18 20 3E 4B 58 6A 7E 8B 9E A4 B0 C0 D8 E0": ("temperature", "AUTO EXTREME", 70.0),
    "02 12 20 3A 4D 59 6F 7E 8B 9C AF B0 C8 D8 E4": ("AC voltage", "EXTREME", 2.309),
    "02 18 20 3E 4B 50 6A 7E 8B 9B AD B0 C4 D0 E1": ("resistance", "AUTO", 10.2),
    "02 18 20 30 4A 5F 6B 7E 8B 9A AD B1 C4 D0 E1": ("resistance", "AUTO", 1002.0),
    "02 18 20 3E 4B 5E 67 71 8A 90 AA B1 C4 D0 E1": ("resistance", "AUTO", 6110.0),
    "02 18 20 3A 4D 5D 67 7E 8B 9C A7 B2 C4 D0 E1": ("resistance", "AUTO", 2.505e6),
    "02 18 20 30 40 5E 6B 77 81 90 A0 B2 C4 D0 E1": ("resistance", "AUTO", None),
    "02 10 28 30 40 5E 6B 76 81 91 A0 B0 C4 D0 E1": ("resistance", "", None),
    "02 18 20 3E 4B 5E 6B 71 8A 9A AD B0 C1 D4 E0": ("capacitance", "AUTO", 0.12e-9),
    "02 18 20 30 4A 5C 6F 7E 8B 9D A7 B0 C1 D4 E0": ("capacitance", "AUTO", 190.5e-9),
    "02 18 20 3A 4D 58 6A 7D 8F 9C A7 B0 C0 D6 E0": ("capacitance", "AUTO", 27.95e-6),
    "02 1C 20 3E 4B 5A 6D 78 8A 95 AE B0 C0 D2 E3": ("DC current", "AUTO", 27.4e-6),
    "02 14 20 30 4A 5E 6B 7A 8D 9E AF B0 C8 DA E2": ("DC current", "EXTREME", 1028e-6),
    "02 14 20 3E 4B 50 6A 7A 8D 91 AA B0 C8 D9 E2": ("DC current", "EXTREME", 12.1e-3),
    "02 14 20 3E 4B 58 6A 79 8A 9E AF B0 C8 D8 E2": ("DC current", "EXTREME", 7.78),
    "02 1A 20 3E 4B 5F 6B 7E 8B 9C A7 B8 C0 D0 E3": ("AC current", "AUTO HOLD", 0.005),
    "02 10 20 3F 4B 5F 6B 7E 8B 9E AB B0 C0 D0 E4": ("voltage", "", 0.0),
    "02 10 20 30 40 5F 6B 76 81 90 A0 B0 C0 D0 E4": ("voltage", "", None),
    "02 18 20 3E 47 5E 6B 7F 8B 9E AB B0 C2 D0 E1": ("frequency", "AUTO", 60.0),
    "02 18 20 34 4E 5C 6F 7D 8F 9E AF B1 C2 D0 E1": ("frequency", "AUTO", 49.98e3),
    "02 18 20 30 4A 5F 6B 7E 8B 9E AB B2 C2 D0 E1": ("frequency", "AUTO", 1e6),
    "02 1C 20 30 4A 5B 6D 78 8F 94 AE B0 C0 D0 E4": ("DC voltage", "AUTO", 1.234),
    "02 1C 20 31 4A 5A 6D 79 8F 94 AE B0 C0 D1 E4": ("DC voltage", "AUTO", -12.34e-3),
    "02 12 20 3A 4D 58 6F 7E 8B 91 AA B0 C0 D0 E4": ("AC voltage", "", 230.1),
    "02 1C 20 3E 4B 5D 67 7E 8B 9E AB B8 C0 D0 E2": ("DC current", "AUTO HOLD", 0.5),
    "02 18 20 34 4E 59 6A 7E 8B 9E AB B1 C4 D0 E0": ("resistance", "AUTO", 4700.0),
    "02 18 20 30 40 5E 6B 76 81 90 A0 B2 C4 D0 E0": ("resistance", "AUTO", None),
    "02 18 20 30 4A 5E 6B 7E 8B 9F AB B0 C1 D4 E0": ("capacitance", "AUTO", 100e-9),
    "02 18 20 3C 47 5E 6B 7F 8B 9E AB B1 C2 D0 E0": ("frequency", "AUTO", 50e3),
}


def shown(display: Display) -> tuple[str, str]:
    kind = "DC " if display.dc else "AC " if display.ac else ""
    flags = {
        "AUTO": display.auto_range,
        "HOLD": display.hold,
        "REL": display.relative,
        "EXTREME": display.extreme,
        "BAT": display.low_battery,
    }
    return kind + display.function, " ".join(name for name, on in flags.items() if on)


@pytest.mark.parametrize(
    ("decode", "frame", "expected"),
    [
        (decode, frame, expected)
        for decode, frames in (
            (es51922.decode, UT61E),
            (es51922.decode_es51986, UT803),
            (fs9721.decode, UT60),
            (brymen_bm25x.decode, BM25X),
        )
        for frame, expected in frames.items()
    ],
)
def test_what_a_display_showed(
    decode: object, frame: str, expected: tuple[str, str, float | None]
) -> None:
    assert callable(decode)
    display: Display = decode(bytes.fromhex(frame))
    assert (*shown(display), display.value) == (
        *expected[:2],
        None if expected[2] is None else pytest.approx(expected[2], rel=1e-9, abs=1e-15),
    )


@pytest.mark.parametrize("volts", [0.3231, 10.9e-3])
def test_a_meter_is_read_though_it_always_sends_a_symbol_of_its_own(volts: float) -> None:
    settings = fs9721.Fs9721Settings(
        port="-",
        function="voltage",
        range=0.4,
        accuracy_pct_of_reading=0.8,
        accuracy_floor=0.001,
    )
    frame = next(frame for frame, expected in UT60.items() if expected[2] == volts)
    assert reading_of(fs9721.decode(bytes.fromhex(frame)), settings)[0] == pytest.approx(volts)


@pytest.mark.parametrize(
    "frame",
    [
        "02 10 20 30 44 50 64 70 84 9E A4 B0 C0 D0 E0",
        "02 10 22 3E 4E 52 63 76 85 92 A7 B0 C0 D0 E0",
        "02 10 20 30 40 5E 65 7F 84 91 A0 B0 C0 D0 E0",
        "02 10 20 31 44 50 64 70 84 90 A4 B0 C0 D0 E0",
    ],
    ids=["--- °F", "Auto", "electric field", "strong electric field"],
)
def test_words_on_a_display_are_no_value(frame: str) -> None:
    """Source: the tests of bm257s."""
    with pytest.raises(ProtocolError, match=r"no digits|two decimal points"):
        brymen_bm25x.decode(bytes.fromhex(frame))


def test_a_digit_caught_between_two_is_no_value() -> None:
    """Source: the tests of fs9721-utils, whose display is 002. without a last digit."""
    with pytest.raises(ProtocolError, match="no digits"):
        fs9721.decode(bytes.fromhex("17 27 3D 47 5D 65 7B 89 97 A0 B8 C0 D4 E1"))
