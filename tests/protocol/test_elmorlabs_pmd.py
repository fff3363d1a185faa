"""ElmorLabs PMD2 and PMD-USB: the exchange of the maker's programs, for driver and simulation.

source: github.com/ElmorLabs/PMD2-Python (pmd2-msm.py, 18 February 2025) for the PMD2;
github.com/ElmorLabs/PMDLogger (PMD_USB_Device.cs) and pmd-usb-serial-interface-fast (main.py, 12
September 2023) for the PMD-USB. The values are made up; nothing was recorded from a board.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from instruments import drivers, identify
from instruments.drivers.elmorlabs_pmd import ElmorlabsPmd, ElmorlabsPmdSettings
from instruments.drivers.elmorlabs_pmd_frames import parse_pmd2, parse_pmd_usb
from instruments.errors import NoAnswer, ProtocolError, WrongInstrument
from instruments.reading import Status
from instruments.simulated.meter_kit.config import MeterConfig
from tests.bench.running_meters import (
    VOLTS_12,
    Running,
    fails,
    numbers,
    numbers_again,
    read_count,
    reconnect,
    running_meters,
    started,
    statuses_until,
)
from tests.protocol.exchange import Clock, ExpectedExchange

UID = bytes.fromhex("3a0021000d51383532353339")
# Vdd 3301 mV, 35.2 °C, then mV, mA and mW of ATX 12 V, 5 V, 5 VSB and 3.3 V, HPWR, EPS 1 and 2,
# PCIE 1 to 3, four sums in W, ten bytes of overcurrent: offsets 4, 14, … 94, 104, 112.
PMD2_VALUES = bytes.fromhex(
    "e50c6001"
    "172f" "bd040000" "ac390000"  # 12055 mV, 1213 mA, 14764 mW
    "a213" "00000000" "00000000"
    "ba13" "90010000" "e0070000"
    "ea0c" "c9ffffff" "4cffffff"  # 3306 mV, -55 mA
    "0000" "00000000" "00000000"
    "402f" "a00f0000" "90bc0000"
    "412f" "00000000" "00000000"
    "0000" "00000000" "00000000"
    "0000" "00000000" "00000000"
    "0000" "00000000" "00000000"
    "3000" "0000" "1100" "4100"
    "00000000000000000000"
)  # fmt: skip
PMD2_OPEN = (
    (b"\x00", b"ElmorLabs PMD2\0"),
    (b"\x01", b"\xee\x15\x00"),
    (b"\x02", UID),
    (b"\x04", PMD2_VALUES),
)
# Words of PCIE1 V and A, PCIE2, EPS1, EPS2: 12 bits on the left. 1592, 20, 1599, -3, 0 …
PMD_USB_VALUES = bytes.fromhex("8063" "4001" "f063" "d0ff" "0000" "0000" "0000" "0000")  # fmt: skip
# Version 5, a byte of padding, CRC, offsets of the eight inputs: 2, 1, 0, 3, 0 …
PMD_USB_CONFIG = bytes.fromhex("0500" "3412" "0201000300000000") + bytes(14)  # fmt: skip
PMD_USB_OPEN = (
    (b"\x00", b"ElmorLabs PMD-USB"),
    (b"\x01", b"\xee\x0a\x05"),
    (b"\x04", PMD_USB_CONFIG),
    (b"\x06", PMD_USB_VALUES),
)
LIMITS = {
    "voltage_pct_of_reading": 0.3,
    "voltage_floor_volts": 0.01,
    "current_pct_of_reading": 1.0,
    "current_floor_amps": 0.03,
}
PMD2 = {"model": "PMD2", "rails": ["atx_12v", "atx_3v3"], "interval_s": 0.02, **LIMITS}
PMD_USB = {"model": "PMD-USB", "rails": ["pcie1", "pcie2"], "interval_s": 0.02, **LIMITS}


def meter(settings: dict[str, Any], *steps: Any) -> tuple[ElmorlabsPmd, ExpectedExchange]:
    line = ExpectedExchange(*steps)
    validated = ElmorlabsPmdSettings.model_validate({"port": "/dev/ttyACM0"} | settings)
    return ElmorlabsPmd("pmd", validated, Clock(), line), line


def values(batch: Any) -> dict[str, list[float]]:
    return {block.channel: block.values.tolist() for block in batch.blocks}


def test_all_rails_of_a_pmd2_in_one_answer() -> None:
    instrument, line = meter(PMD2, *PMD2_OPEN, (b"\x04", PMD2_VALUES))
    with line:
        identity = instrument.open()
        assert (identity.maker, identity.model) == ("ElmorLabs", "PMD2")
        assert (identity.serial, identity.firmware) == (UID.hex(), "0")
        instrument.start()
        batch = instrument.read()
    assert values(batch) == {
        "voltage_atx_12v": [12.055],
        "current_atx_12v": [1.213],
        "voltage_atx_3v3": [3.306],
        "current_atx_3v3": [-0.055],
    }
    assert len({block.t_ns[0] for block in batch.blocks}) == 1
    assert parse_pmd2(PMD2_VALUES)[5].amps == 4.0


def test_a_pmd_usb_with_the_offsets_that_it_keeps() -> None:
    instrument, line = meter(PMD_USB, *PMD_USB_OPEN, (b"\x06", PMD_USB_VALUES))
    with line:
        assert instrument.open().firmware == "5"
        instrument.start()
        found = values(instrument.read())
    assert found["voltage_pcie1"] == [pytest.approx((1592 + 2) * 0.007568)]
    assert found["current_pcie1"] == [pytest.approx((20 + 1) * 0.0488)]
    assert found["voltage_pcie2"] == [pytest.approx(1599 * 0.007568)]
    assert found["current_pcie2"] == [0.0]


@pytest.mark.parametrize(
    ("settings", "steps", "message"),
    [
        (PMD2, [(b"\x00", b"ElmorLabs PMD2X\0")], "expected an ElmorLabs PMD2, this is.*PMD2X"),
        (PMD2, [(b"\x00", b"F411-1.5.0\r\n")], "does another program use it"),
        (PMD2, [PMD2_OPEN[0], (b"\x01", b"\xee\x17\x00")], "identity ee 15, this one ee 17"),
        (PMD2, [*PMD2_OPEN[:3], (b"\x04", bytes(186))], "firmware 0 answers with 186 bytes"),
        (PMD2 | {"serial": "0" * 24}, list(PMD2_OPEN[:3]), f"this one is {UID.hex()}"),
        (
            PMD_USB,
            [PMD_USB_OPEN[0], (b"\x01", b"\xee\x0a\x06"), (b"\x04", PMD_USB_CONFIG)],
            "firmware 6 answers with 26 bytes of configuration instead of 34",
        ),
    ],
)
def test_another_board_or_firmware_is_refused(
    settings: dict[str, Any], steps: list[Any], message: str
) -> None:
    instrument, line = meter(settings, *steps)
    with line, pytest.raises(WrongInstrument, match=message):
        instrument.open()


@pytest.mark.parametrize(
    "bad", [PMD2_VALUES[:-5], PMD2_VALUES[:4] + b"\xff\x7f" + PMD2_VALUES[6:], b"\x00"]
)
def test_half_an_answer_and_volts_that_cannot_be(bad: bytes) -> None:
    instrument, line = meter(PMD2, *PMD2_OPEN, (b"\x04", bad), (b"\x04", PMD2_VALUES))
    with line:
        instrument.open()
        instrument.start()
        batch = instrument.read()
        assert {status.status for status in batch.statuses} == {Status.UNREADABLE}
        assert len(batch.statuses) == 4 and not batch.blocks
        assert values(instrument.read())["voltage_atx_12v"] == [12.055]


def test_no_answer() -> None:
    instrument, line = meter(PMD2, (b"\x00", None))
    with line, pytest.raises(NoAnswer, match="is it an ElmorLabs PMD2"):
        instrument.open()
    with pytest.raises(ProtocolError, match="not 12 bits"):
        parse_pmd_usb(b"\x01" + PMD_USB_VALUES[1:], (0,) * 8)


def test_rails_that_it_does_not_have() -> None:
    with pytest.raises(ValidationError, match=r"no atx_3v3; it has pcie1, pcie2, eps1, eps2"):
        meter(PMD_USB | {"rails": ["pcie1", "atx_3v3"]})
    with pytest.raises(ValidationError, match="each rail once"):
        meter(PMD2 | {"rails": ["eps1", "eps1"]})


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    boards = (
        MeterConfig(name="two", kind="pmd2", point="rails", settings=PMD2),
        MeterConfig(name="usb", kind="pmd_usb", point="rails", settings=PMD_USB),
    )
    with running_meters(tmp_path_factory.mktemp("pmd"), boards, seed=4) as meters:
        yield meters


@pytest.mark.parametrize(("name", "known"), [("two", PMD2_OPEN), ("usb", PMD_USB_OPEN)])
def test_the_simulated_boards_answer_as_the_makers_programs_expect(
    running: Running, name: str, known: tuple[tuple[bytes, bytes], ...]
) -> None:
    port = os.open(running.addresses[name]["port"], os.O_RDWR | os.O_NONBLOCK)
    try:
        for number, (question, expected) in enumerate(known):
            os.write(port, question)
            answer, end = b"", time.monotonic() + 20
            while len(answer) < len(expected) and time.monotonic() < end:
                try:
                    answer += os.read(port, 4096)
                except BlockingIOError:
                    time.sleep(0.005)
            assert len(answer) == len(expected)
            assert number > 1 or answer == expected, "name and identity"
    finally:
        os.close(port)


@pytest.fixture
def create(running: Running) -> Iterator[Any]:
    yield running.create
    running.close()


@pytest.mark.parametrize("name", ["two", "usb"])
def test_volts_and_amps_of_the_simulated_boards(create: Any, name: str) -> None:
    instrument = started(create(name))
    batches = read_count(instrument, 40)
    rail = instrument.channels[0].name.partition("_")[2]
    step = 0.007568 if name == "usb" else 0.001
    shown = numbers(batches, f"voltage_{rail}")[1]
    limit = instrument.channels[0].accuracy.limit(VOLTS_12) + step
    assert np.abs(shown - VOLTS_12).max() <= limit
    amps = numbers(batches, f"current_{rail}")[1]
    limit = instrument.channels[1].accuracy.limit(1.5) + 0.05
    assert 0.5 - limit <= amps.min() and amps.max() <= 1.5 + limit


def test_faults_of_a_board(create: Any, running: Running) -> None:
    instrument = started(create("two"))
    numbers_again(instrument)
    with running.having("two", "lost_bytes"):
        statuses_until(instrument, Status.UNREADABLE)
    numbers_again(instrument)
    with running.having("two", "silent"):
        fails(instrument, NoAnswer)
    reconnect(instrument)
    instrument.close()
    with running.having("two", "identity"), pytest.raises(WrongInstrument, match="ee 17"):
        instrument.open()


def test_a_board_is_found_at_its_port(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = [sign for sign in drivers.serial_signs() if sign[0] == "elmorlabs_pmd"]
    monkeypatch.setattr(drivers, "serial_signs", lambda: ours)
    found = identify.identify_address(str(Path(running.addresses["usb"]["port"])))
    assert (found.identity, found.driver) == ("ElmorLabs PMD", "elmorlabs_pmd")
    assert "# rails =" in identify.rig_lines(found, "pmd")
