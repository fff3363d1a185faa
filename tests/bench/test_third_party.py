"""Programs of other projects against both sides: their clients against the simulated meters, and
their simulated meters against the drivers. pymeasure and pyvisa-sim are among the tests'
dependencies; QCoDeS would bring some 55 packages more. Its definition of a meter is enough:
``pip install --no-deps qcodes`` by hand."""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from instruments import drivers
from instruments.errors import InstrumentError, WrongInstrument
from instruments.simulated.meter_kit.config import MeterConfig
from tests.bench.running_meters import VOLTS_12, Running, running_meters

ACCURACY = {"accuracy_pct_of_reading": 0.01, "accuracy_floor": 1e-3}
COMMON = {"function": "voltage", "range": 100.0, "nplc": 1.0, "interval_s": 0.1}
METERS = [
    MeterConfig(
        name="hp", kind="34401a", point="12V.voltage", settings={**COMMON, "model": "34401A"}
    ),
    MeterConfig(
        name="two",
        kind="keithley2000",
        point="12V.voltage",
        settings={**COMMON, **ACCURACY, "model": "2000"},
    ),
    MeterConfig(name="touch", kind="dmm6500", point="12V.voltage", settings={**COMMON, **ACCURACY}),
]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running_meters(tmp_path_factory.mktemp("bench"), METERS, seed=1) as meters:
        yield meters


def test_pymeasure_reads_the_simulated_34401a(running: Running) -> None:
    hp = pytest.importorskip("pymeasure.instruments.hp", reason="pymeasure is not installed")
    meter = hp.HP34401A(
        running.addresses["hp"]["resource"],
        visa_library="@py",
        read_termination="\n",
        write_termination="\n",
    )
    try:
        assert "34401A" in meter.id
        meter.function_ = "DCV"
        meter.range_ = 100
        meter.nplc = 1
        assert (meter.function_, meter.range_, meter.nplc) == ("DCV", 100, 1)
        assert meter.reading == pytest.approx(VOLTS_12, abs=0.01)
        assert not meter.check_errors()
    finally:
        meter.adapter.close()


def test_pymeasure_reads_the_simulated_keithley_2000(running: Running) -> None:
    keithley = pytest.importorskip(
        "pymeasure.instruments.keithley", reason="pymeasure is not installed"
    )
    meter = keithley.Keithley2000(
        running.addresses["two"]["resource"],
        visa_library="@py",
        read_termination="\n",
        write_termination="\n",
    )
    try:
        assert "MODEL 2000" in meter.id
        meter.reset()
        meter.mode = "voltage"
        meter.voltage_range = 100
        meter.voltage_nplc = 0.1
        assert (meter.mode, meter.voltage_range, meter.voltage_nplc) == ("voltage", 100, 0.1)
        assert meter.voltage == pytest.approx(VOLTS_12, abs=0.05)
        assert not meter.check_errors()
    finally:
        meter.adapter.close()


def test_pymeasure_sets_up_the_simulated_dmm6500(running: Running) -> None:
    keithley = pytest.importorskip(
        "pymeasure.instruments.keithley", reason="pymeasure is not installed"
    )
    meter = keithley.KeithleyDMM6500(
        running.addresses["touch"]["resource"],
        visa_library="@py",
        read_termination="\n",
        write_termination="\n",
    )
    try:
        assert meter.command_set == "SCPI"
        meter.mode = "voltage"
        meter.nplc = 2
        assert (meter.mode, meter.nplc) == ("voltage", 2)
    finally:
        meter.adapter.close()


@pytest.mark.parametrize("resource", ["GPIB0::9::INSTR", "USB0::0x1111::0x2222::0x2468::INSTR"])
def test_a_device_of_pyvisa_sim_is_refused_by_its_name_and_what_it_cannot_is_said(
    resource: str,
) -> None:
    pytest.importorskip("pyvisa_sim", reason="pyvisa-sim is not installed")
    settings = {"resource": resource, "visa_library": "@sim", "timeout_s": 0.2}
    instrument = drivers.create(
        "v12", "scpi_dmm", {**settings, **COMMON, "model": "34461A"}, time.monotonic_ns
    )
    try:
        with pytest.raises(WrongInstrument, match=r"^v12: expected a 34461A, found SCPI MOCK"):
            instrument.open()
    finally:
        instrument.close()
    limits = {"voltage_pct_of_reading": 1, "voltage_floor_volts": 1}
    limits |= {"current_pct_of_reading": 1, "current_floor_amps": 1}
    supply = drivers.create(
        "psu", "supply", {**settings, **limits, "model": "generic"}, time.monotonic_ns
    )
    try:
        assert supply.open().model == "MOCK"
        with pytest.raises(InstrumentError, match=r"^psu: .*\w{4}"):
            supply.start()
    finally:
        supply.close()


def test_a_simulated_34465a_of_qcodes_is_known_and_what_it_cannot_is_said() -> None:
    pytest.importorskip("pyvisa_sim", reason="pyvisa-sim is not installed")
    try:
        definition = distribution("qcodes").locate_file("qcodes/instrument/sims")
    except PackageNotFoundError:
        pytest.skip("qcodes is not installed")
    library = f"{Path(str(definition)) / 'Keysight_34465A.yaml'}@sim"
    settings = {
        "resource": "GPIB::1::INSTR",
        "visa_library": library,
        "model": "34465A",
        **COMMON,
        "interval_s": 0.2,
    }
    instrument = drivers.create("v12", "truevolt", settings, time.monotonic_ns)
    try:
        assert instrument.open().model == "34465A"
        with pytest.raises(InstrumentError, match=r"^v12: .*\w{4}"):
            instrument.start()
    finally:
        instrument.close()
