from __future__ import annotations

import importlib
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from instruments import drivers
from instruments.driver_kit.batches import blocks_and_statuses
from instruments.identify import driver_for_model
from instruments.instrument import Instrument
from instruments.reading import Status

DOCUMENTATION = Path(__file__).parents[4] / "docs" / "drivers.md"
SETTINGS: dict[str, dict[str, Any]] = {
    "truevolt": {
        "resource": "TCPIP0::meter::5025::SOCKET",
        "model": "34470A",
        "function": "current",
        "range": 1.0,
        "nplc": 1.0,
        "interval_s": 0.05,
    },
    "dmm6500": {
        "resource": "TCPIP0::meter::inst0::INSTR",
        "model": "DMM6500",
        "function": "voltage",
        "range": 10.0,
        "nplc": 1.0,
        "interval_s": 0.1,
    },
    "free_running_dmm": {
        "resource": "ASRL/dev/ttyUSB2::INSTR",
        "model": "XDM1041",
        "function": "voltage",
        "range": 50.0,
        "rate": "fast",
        "refresh_s": 0.2,
        "interval_s": 0.5,
        "accuracy_pct_of_reading": 0.05,
        "accuracy_floor": 0.01,
    },
    "supply": {
        "resource": "USB0::0x1AB1::0x0E11::DP8C1::INSTR",
        "model": "DP832",
        "output": 2,
    },
    "scpi_dmm": {
        "resource": "GPIB0::22::INSTR",
        "model": "34401A",
        "function": "current",
        "range": 3.0,
        "nplc": 1.0,
        "interval_s": 0.1,
    },
    "joulescope": {
        "model": "JS220",
        "resource": "u/js220/000415",
        "voltage_pct_of_reading": 0.1,
        "voltage_floor_volts": 0.002,
        "current_pct_of_reading": 0.3,
        "current_floor_amps": 0.0005,
    },
    "elmorlabs_pmd": {
        "port": "usb:0483:5740",
        "model": "PMD2",
        "rails": ["atx_12v", "atx_3v3"],
        "voltage_pct_of_reading": 0.5,
        "voltage_floor_volts": 0.02,
        "current_pct_of_reading": 1.0,
        "current_floor_amps": 0.05,
    },
    "es51922": {"port": "/dev/ttyUSB0", "function": "voltage", "range": 22.0},
    "k204": {"port": "/dev/ttyUSB1", "sensors": ["t1", "t3"]},
    "hwmon": {"directory": "nvme", "sensors": ["composite", "sensor_1"]},
    "powersensor3": {
        "port": "usb:0483:5740",
        "pairs": [0, 1],
        "voltage_pct_of_reading": 0.5,
        "voltage_floor_volts": 0.01,
        "current_pct_of_reading": 1.0,
        "current_floor_amps": 0.05,
    },
    "quarch": {
        "resource": "usb::QTL1999-02-020",
        "rails": ["12V", "3.3V"],
        "voltage_pct_of_reading": 1.0,
        "voltage_floor_volts": 0.001,
        "current_pct_of_reading": 1.0,
        "current_floor_amps": 0.002,
    },
    "fs9721": {
        "port": "usb:10c4:ea60",
        "function": "voltage",
        "range": 40.0,
        "accuracy_pct_of_reading": 0.8,
        "accuracy_floor": 0.01,
    },
    "brymen_bm25x": {
        "port": "/dev/ttyUSB2",
        "function": "current",
        "range": 6.0,
        "accuracy_pct_of_reading": 1.0,
        "accuracy_floor": 0.005,
    },
    "scpi_thermometer": {
        "resource": "GPIB0::16::INSTR",
        "model": "34461A",
        "sensor": "thermistor",
        "sensor_type": "5000",
        "accuracy_pct_of_reading": 0.0,
        "accuracy_floor": 0.2,
    },
    "daq6510_scan": {
        "resource": "TCPIP0::daq::5025::SOCKET",
        "interval_s": 0.2,
        "inputs": {
            "v12": {
                "number": 101,
                "function": "voltage",
                "range": 100.0,
                "accuracy_pct_of_reading": 0.01,
                "accuracy_floor": 1e-3,
            }
        },
    },
    "wt300": {
        "resource": "TCPIP0::wt::inst0::INSTR",
        "model": "WT310E",
        "coupling": "ac",
        "voltage_range": 300.0,
        "current_range": 1.0,
    },
    "extech380803": {
        "port": "/dev/ttyUSB3",
        "power_pct_of_reading": 1.0,
        "power_floor_watts": 0.5,
        "voltage_pct_of_reading": 1.0,
        "voltage_floor_volts": 0.5,
        "current_pct_of_reading": 1.0,
        "current_floor_amps": 0.005,
    },
    "fixed_voltage": {"volts": 3.3, "tolerance_pct": 3.0},
    "ina2xx": {"model": "ina226", "shunt_ohm": 0.01, "shunt_tolerance_pct": 1.0},
    "rapl": {
        "zones": ["package_0", "psys"],
        "accuracy_pct_of_reading": 5.0,
        "accuracy_floor": 1.0,
    },
    "redfish": {
        "url": "https://bmc.example",
        "accuracy_pct_of_reading": 2.0,
        "accuracy_floor": 1.0,
    },
    "dcmi": {"accuracy_pct_of_reading": 2.0, "accuracy_floor": 1.0},
    "sigrok": {
        "sigrok_driver": "brymen-bm86x",
        "conn": "0820.0001",
        "quantity": "voltage",
        "accuracy_pct_of_reading": 0.1,
        "accuracy_floor": 0.001,
    },
    "mqtt": {
        "host": "broker.example",
        "topic": "tele/plug/SENSOR",
        "path": "ENERGY.Power",
        "quantity": "power",
        "interval_s": 10.0,
        "accuracy_pct_of_reading": 1.0,
        "accuracy_floor": 0.5,
    },
}


@pytest.mark.parametrize("driver", drivers.names())
def test_each_driver_makes_an_instrument_that_knows_its_channels(driver: str) -> None:
    instrument = drivers.create("it", driver, SETTINGS[driver], time.monotonic_ns)
    assert isinstance(instrument, Instrument)
    assert instrument.channels
    for channel in instrument.channels:
        assert channel.accuracy.limit(1.0) > 0
        assert channel.accuracy.source
        assert channel.time_u_s > 0
    instrument.close()


@pytest.mark.parametrize("driver", drivers.names())
def test_unknown_keys_are_mistakes(driver: str) -> None:
    with pytest.raises(ValidationError, match="colour"):
        drivers.create("it", driver, SETTINGS[driver] | {"colour": 1}, time.monotonic_ns)


@pytest.mark.parametrize("driver", drivers.names())
def test_each_setting_is_documented(driver: str) -> None:
    text = DOCUMENTATION.read_text(encoding="utf-8")
    section = text.partition(f"## {driver}")[2].partition("\n## ")[0]
    assert section, f"docs/drivers.md has no section {driver}"
    common = text.partition("## Common settings")[2].partition("\n## ")[0]
    for key in drivers.settings_model(driver).model_fields:
        assert f"`{key}`" in section + common, f"{driver}: {key} is not in docs/drivers.md"


@pytest.mark.parametrize("driver", drivers.names())
def test_the_models_that_a_rig_may_name_are_those_that_the_driver_knows(driver: str) -> None:
    module = importlib.import_module(f"instruments.drivers.{driver}")
    known = getattr(module, "MODELS", None) or getattr(module, "FAMILIES", None)
    if known is not None:
        field = drivers.settings_model(driver).model_fields["model"]
        assert set(get_args(field.annotation)) == set(known)


def test_importing_the_table_imports_no_driver() -> None:
    code = (
        "import sys; import instruments.drivers; print('pyvisa' in sys.modules, 'numpy.ma' in "
        "sys.modules, any(m.startswith('instruments.drivers.') for m in sys.modules))"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert output.stdout.split()[0] == "False"
    assert output.stdout.split()[2] == "False"


def test_sorting_numbers_from_statuses() -> None:
    over, none = Status.OVERLOAD, Status.NO_VALUE
    blocks, statuses = blocks_and_statuses("v", [1, 2, 3, 4, 5], [over, over, 1.5, none, over])
    assert blocks[0].t_ns.tolist() == [3] and blocks[0].values.tolist() == [1.5]
    assert [(s.status, s.t_ns, s.count) for s in statuses] == [
        (over, 1, 2),
        (none, 4, 1),
        (over, 5, 1),
    ]
    assert blocks_and_statuses("v", [], []) == ((), ())


def test_a_meter_that_can_stream_is_suggested_with_the_driver_that_streams() -> None:
    suggested = {
        model: driver_for_model(model)[0] for model in ("34465A", "34401A", "DMM6500", "SDM3055")
    }
    assert suggested == {
        "34465A": "truevolt", "34401A": "scpi_dmm", "DMM6500": "dmm6500", "SDM3055": "scpi_dmm",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("answered", "driver", "model"),
    [
        ("MODEL DMM6500", "dmm6500", "DMM6500"),
        ("MODEL 2000", "scpi_dmm", "2000"),
        ("SDM3055-SC", "scpi_dmm", "SDM3055"),
        ("DP832A", "supply", "DP832A"),
        ("WT310E", "wt300", "WT310E"),
        ("L4411A", "scpi_dmm", "generic"),
    ],
)
def test_a_model_is_suggested_by_what_it_answers(answered: str, driver: str, model: str) -> None:
    assert driver_for_model(answered) == (driver, model)
