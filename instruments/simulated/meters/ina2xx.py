"""A simulated INA226 as the Linux kernel shows it: a hwmon directory whose files it keeps true.

Layout: the kernel's ``Documentation/hwmon/ina2xx.rst``. Steps: 1.25 mV of the bus, 2.5 µV across
the shunt (TI INA226 data sheet); the kernel then rounds to whole mV and mA.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from typing import Final

import numpy as np

from instruments.drivers.ina2xx import SHUNT_LIMIT_MV
from instruments.simulated.drive.state_ring import replace_text
from instruments.simulated.meter_kit.faults import Fault, Faults
from instruments.simulated.meter_kit.parts import MeterParts
from instruments.simulated.meter_kit.probe import Probe

_MODEL: Final = "ina226"
_BUS_STEP_VOLTS: Final = 1.25e-3
_SHUNT_STEP_VOLTS: Final = 2.5e-6
_USUAL_INTERVAL_S: Final = 0.035
"""16 conversions of 1.1 ms of each quantity: the kernel's default."""


class Ina226Meter:
    """Volts and amps of one rail in files that are renewed at the end of each averaging."""

    possible_faults = frozenset(
        {Fault.DISCONNECT, Fault.NAN, Fault.OVERLOAD, Fault.STUCK, Fault.IDENTITY}
    )

    def __init__(self, parts: MeterParts) -> None:
        """``point`` is a whole rail."""
        settings = parts.config.settings
        self.name = parts.name
        self.faults = Faults()
        self._directory = parts.directory / f"hwmon-{self.name}"
        self._clock = parts.clock()
        self._rng = parts.rng("noise")
        self._shunt_ohm = float(settings["shunt_ohm"])
        self._interval_s = float(settings.get("update_interval_s") or _USUAL_INTERVAL_S)
        self._task: asyncio.Task[None] | None = None
        self._sensors = [
            (
                Probe(parts.state, f"{parts.config.point}.{name}"),
                parts.errors(channel.accuracy, f"{name} errors"),
                step,
            )
            for (name, channel), step in zip(
                parts.channels("ina2xx").items(),
                (_BUS_STEP_VOLTS, _SHUNT_STEP_VOLTS / self._shunt_ohm),
                strict=True,
            )
        ]

    async def start(self) -> dict[str, str]:
        """Appear; the directory."""
        self._appear()
        self._task = asyncio.create_task(self._serve(), name=self.name)
        return {"directory": str(self._directory)}

    async def begin_fault(self, fault: Fault, seconds: float) -> None:
        """Have a fault; unbound from its driver, the whole directory is gone."""
        self.faults.begin(fault, seconds)
        if fault is Fault.DISCONNECT:
            shutil.rmtree(self._directory, ignore_errors=True)

    async def stop(self) -> None:
        """Convert no more."""
        if self._task is not None:
            self._task.cancel()

    def _appear(self) -> None:
        self._directory.mkdir(exist_ok=True)
        for name, text in (
            ("name", "ina219" if self.faults.has(Fault.IDENTITY) else _MODEL),
            ("shunt_resistor", f"{self._shunt_ohm * 1e6:.0f}"),
            ("update_interval", f"{self._interval_s * 1e3:.0f}"),
        ):
            replace_text(self._directory / name, f"{text}\n")
        self._show(0.0, 0.0)

    async def _serve(self) -> None:
        """Average, renew the files, and so on."""
        interval_ns = self._interval_s * 1e9
        end = self._clock.now() + interval_ns
        while True:
            begin_ns, end_ns = self._clock.to_host(end - interval_ns), self._clock.to_host(end)
            await asyncio.sleep(max(end_ns - time.monotonic_ns(), 0) * 1e-9)
            window = np.array([begin_ns]), np.array([end_ns])
            volts, amps = [
                float(errors.apply(await probe.means(*window), self._rng, step)[0])
                for probe, errors, step in self._sensors
            ]
            if not self.faults.has(Fault.DISCONNECT) and not self.faults.has(Fault.STUCK):
                self._appear_if_gone()
                self._show(volts, amps)
            end += interval_ns

    def _appear_if_gone(self) -> None:
        there = self._directory / "name"
        wrong = there.exists() and (there.read_text() != f"{_MODEL}\n")
        if not there.exists() or wrong or self.faults.has(Fault.IDENTITY):
            self._appear()

    def _show(self, volts: float, amps: float) -> None:
        shunt_mv = amps * self._shunt_ohm * 1e3
        if self.faults.has(Fault.OVERLOAD):
            shunt_mv = SHUNT_LIMIT_MV[_MODEL] + 0.02
            amps = shunt_mv * 1e-3 / self._shunt_ohm
        nothing = self.faults.has(Fault.NAN)
        for name, milli in (
            ("in1_input", volts * 1e3),
            ("in0_input", shunt_mv),
            ("curr1_input", amps * 1e3),
        ):
            replace_text(self._directory / name, "\n" if nothing else f"{round(milli)}\n")
