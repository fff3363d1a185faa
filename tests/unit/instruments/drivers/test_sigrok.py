from __future__ import annotations

import math
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from instruments.drivers.sigrok import Sigrok, SigrokSettings, parse_line, reading_of
from instruments.errors import ConnectionLost, ProtocolError, SettingRefused
from instruments.reading import Batch, Status

needs_sigrok = pytest.mark.skipif(
    shutil.which("sigrok-cli") is None, reason="needs sigrok-cli (apt install sigrok-cli)"
)


def settings(**changes: Any) -> SigrokSettings:
    values = {
        "sigrok_driver": "demo",
        "options": {"analog_channels": "1", "logic_channels": "0"},
        "config": {"samplerate": "5"},
        "channel": "A0",
        "quantity": "voltage",
        "accuracy_pct_of_reading": 1.0,
        "accuracy_floor": 0.1,
    } | changes
    return SigrokSettings.model_validate(values)


def bridge(**changes: Any) -> Sigrok:
    return Sigrok("odd", settings(**changes), time.monotonic_ns)


def a_program(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def read_until(instrument: Sigrok, count: int) -> list[Batch]:
    batches: list[Batch] = []
    end = time.monotonic() + 10
    while sum(len(block) for batch in batches for block in batch.blocks) < count:
        assert time.monotonic() < end
        batches.append(instrument.read())
    return batches


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("P1: 12.34 V DC AUTO", 12.34, "V"),
        ("P1: -250.1 mA DC", -0.2501, "A"),
        ("P1: 1.5 µV DC", 1.5e-6, "V"),
        ("P1: 23.4 °C", 23.4, "°C"),
        ("P1: 1.2 kW", 1200.0, "W"),
        ("P1: inf V DC", math.inf, "V"),
    ],
)
def test_lines(text: str, value: float, unit: str) -> None:
    line = parse_line(text)
    assert (line.value, line.unit) == (pytest.approx(value), unit)


@pytest.mark.parametrize("bad", ["", "P1", "P1: 12.34", "P1: twelve V", "cli: Received SIGTERM"])
def test_what_is_no_line(bad: str) -> None:
    with pytest.raises(ProtocolError):
        parse_line(bad)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("P1: inf V DC", Status.OVERLOAD),
        ("P1: nan V DC", Status.NO_VALUE),
        ("P1: 12.0 V DC HOLD", Status.HOLD),
        ("P1: 12.0 V AC", Status.WRONG_FUNCTION),
        ("P1: 12.0 V DC MAX", Status.WRONG_FUNCTION),
        ("P1: 47.0 kΩ AUTO", Status.WRONG_FUNCTION),
        ("P1: 1.2 A DC", Status.WRONG_FUNCTION),
    ],
)
def test_what_is_no_reading(text: str, status: Status) -> None:
    assert reading_of(parse_line(text), settings())[0] is status


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("P1: 0.612 V DC DIODE AUTO", "shows AUTO DC DIODE"),
        ("P1: 12.00 V AC DC RMS", "shows AC DC RMS"),
        ("P1: 1.0 ", "measures something without a unit, not V"),
        ("P1: 49.2 %", "measures %, not V"),
        ("P1: 12 V DC", "its last digit is 1 V, more than accuracy_floor 0.1: a larger range"),
    ],
)
def test_a_switch_that_was_turned_is_told_in_words(text: str, words: str) -> None:
    reading, detail = reading_of(parse_line(text), settings())
    assert reading is Status.WRONG_FUNCTION
    assert words in detail


@pytest.mark.parametrize(
    ("text", "last_digit"),
    [("P1: 12.34 V DC", 0.01), ("P1: 58.5 mV", 1e-4), ("P1: 0 µA", 1e-6), ("P1: 12 V DC", 1.0)],
)
def test_the_last_digit_of_a_line(text: str, last_digit: float) -> None:
    assert parse_line(text).last_digit == pytest.approx(last_digit)
    assert parse_line("P1: inf V DC").last_digit == 0


@pytest.mark.parametrize("conn", ["usb:0403:6001", "/dev/serial/by-path/pci-0000:00:14.0-usb-0:2"])
def test_a_port_that_sigrok_would_take_apart(conn: str) -> None:
    with pytest.raises(ValidationError, match="/dev/serial/by-id"):
        settings(conn=conn)
    with pytest.raises(ValidationError, match="at colons"):
        settings(options={"serialcomm": "2400/8n1:conn=x"})
    opto_cable = settings(conn="/dev/ttyUSB0", options={"serialcomm": "2400/8n1/rts=0/dtr=1"})
    assert "demo:conn=/dev/ttyUSB0:serialcomm=2400/8n1/rts=0/dtr=1" in opto_cable.arguments()


@needs_sigrok
def test_the_real_program_with_its_demo_driver() -> None:
    instrument = bridge()
    identity = instrument.open()
    assert "arrival times" in identity.notes[0]
    instrument.start()
    batches = read_until(instrument, 3)
    assert {block.channel for batch in batches for block in batch.blocks} == {"voltage"}
    values = [v for batch in batches for block in batch.blocks for v in block.values.tolist()]
    assert all(-10 <= value <= 10 for value in values)
    instrument.close()
    instrument.close()
    with pytest.raises(ConnectionLost):
        instrument.read()


@needs_sigrok
def test_a_driver_that_sigrok_does_not_have() -> None:
    instrument = bridge(sigrok_driver="no-such-driver", options={})
    instrument.open()
    with pytest.raises(ConnectionLost, match=r"no-such-driver"):
        instrument.start()
    instrument.close()


def test_it_ends_while_reading_and_starts_again(tmp_path: Path) -> None:
    script = "echo 'P2: 1.0 V DC'; echo 'P1: 3.3 V DC'; echo 'P1: 3.31'; sleep 1.2; echo gone >&2"
    instrument = bridge(command=a_program(tmp_path / "cli", script), channel="P1", options={})
    for _ in range(2):
        instrument.open()
        instrument.start()
        batches: list[Batch] = []
        while not any(batch.statuses for batch in batches):
            batches.append(instrument.read())
        found = [v for b in batches for block in b.blocks for v in block.values.tolist()]
        assert found == [3.3]
        assert [s.status for b in batches for s in b.statuses] == [Status.UNREADABLE]
        with pytest.raises(ConnectionLost, match=r"ended \(gone\)"):
            read_until(instrument, 1)
        instrument.close()


def test_not_installed_and_unsafe_settings() -> None:
    instrument = bridge(command="/no/such/sigrok-cli")
    with pytest.raises(SettingRefused, match="install sigrok-cli"):
        instrument.open()
    instrument.close()
    with pytest.raises(ValidationError):
        settings(sigrok_driver="demo --output-file=/tmp/x")
