"""The kinds of simulated meters: the driver of each, and how it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from instruments.simulated.drive.state_ring import StateReader
from instruments.simulated.meter_kit.config import MeterConfig
from instruments.simulated.meter_kit.parts import MeterParts
from instruments.simulated.meter_kit.simulated_meter import SimulatedMeter
from instruments.simulated.meters.brymen_bm25x import Bm257Meter
from instruments.simulated.meters.daq6510_scan import Daq6510Meter
from instruments.simulated.meters.dmm6500 import Dmm6500Meter
from instruments.simulated.meters.elmorlabs_pmd import PmdMeter
from instruments.simulated.meters.es51922 import Ut61eMeter
from instruments.simulated.meters.extech380803 import ExtechMeter
from instruments.simulated.meters.free_running_dmm import Dm3058Meter, Xdm1041Meter
from instruments.simulated.meters.fs9721 import Vc820Meter
from instruments.simulated.meters.ina2xx import Ina226Meter, Ina228Meter
from instruments.simulated.meters.k204 import K204Meter
from instruments.simulated.meters.powersensor3 import PowerSensor3Meter
from instruments.simulated.meters.quarch import QuarchServer
from instruments.simulated.meters.redfish import RedfishServer
from instruments.simulated.meters.scpi_dmm import Keithley2000Meter, PolledMeter
from instruments.simulated.meters.scpi_thermometer import ThermometerMeter
from instruments.simulated.meters.supply import Dp832Supply
from instruments.simulated.meters.truevolt import TruevoltMeter
from instruments.simulated.meters.wt300 import Wt310Meter

_KINDS: Final[Mapping[str, tuple[str, Callable[[MeterParts], SimulatedMeter]]]] = {
    "truevolt": ("truevolt", TruevoltMeter),
    "dmm6500": ("dmm6500", Dmm6500Meter),
    "sdm3065x": ("scpi_dmm", partial(PolledMeter, model="SDM3065X")),
    "34401a": ("scpi_dmm", partial(PolledMeter, model="34401A")),
    "8846a": ("scpi_dmm", partial(PolledMeter, model="8846A")),
    "keithley2000": ("scpi_dmm", Keithley2000Meter),
    "dm3058": ("free_running_dmm", Dm3058Meter),
    "xdm1041": ("free_running_dmm", Xdm1041Meter),
    "dp832": ("supply", Dp832Supply),
    "ut61e": ("es51922", Ut61eMeter),
    "k204": ("k204", K204Meter),
    "powersensor3": ("powersensor3", PowerSensor3Meter),
    "quarch": ("quarch", QuarchServer),
    "vc820": ("fs9721", Vc820Meter),
    "bm257": ("brymen_bm25x", Bm257Meter),
    "dmm6500_temperature": ("scpi_thermometer", ThermometerMeter),
    "daq6510": ("daq6510_scan", Daq6510Meter),
    "wt310e": ("wt300", Wt310Meter),
    "extech380803": ("extech380803", ExtechMeter),
    "pmd2": ("elmorlabs_pmd", partial(PmdMeter, model="PMD2")),
    "pmd_usb": ("elmorlabs_pmd", partial(PmdMeter, model="PMD-USB")),
    "ina226": ("ina2xx", Ina226Meter),
    "ina228": ("ina2xx", Ina228Meter),
    "bmc": ("redfish", RedfishServer),
}
DRIVERS: Final = {kind: driver for kind, (driver, _) in _KINDS.items()}
"""The driver of each kind of meter."""


def make_meter(
    config: MeterConfig, seed: int, directory: Path, state: StateReader
) -> SimulatedMeter:
    """The meter that ``config`` describes. Its errors follow from ``seed`` and its name."""
    _, make = _KINDS[config.kind]
    return make(MeterParts(config, seed, directory, state))
