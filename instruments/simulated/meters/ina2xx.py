"""Simulated INA226 and INA228 as the Linux kernel shows them: a hwmon directory that is kept true.

Layout: the kernel's ``Documentation/hwmon/ina2xx.rst`` and ``ina238.rst``, whose driver has no
``shunt_resistor`` and no ``update_interval``. Steps of an INA226: 1.25 mV of the bus, 2.5 µV across
the shunt; of an INA228: 195.3125 µV and 312.5 nV (TI data sheets). The kernel then rounds to whole
mV and mA.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from dataclasses import replace
from typing import ClassVar, Final

import numpy as np

from instruments.reading import Accuracy
from instruments.simulated.drive.state_ring import replace_text
from instruments.simulated.meter_kit import data_sheets
from instruments.simulated.meter_kit.faults import Fault, Faults
from instruments.simulated.meter_kit.parts import MeterParts
from instruments.simulated.meter_kit.probe import Errors, Probe

_MODEL: Final = "ina226"
_BUS_STEP_VOLTS: Final = 1.25e-3
_SHUNT_STEP_VOLTS: Final = 2.5e-6
_USUAL_INTERVAL_S: Final = 0.035
"""16 conversions of 1.1 ms of each quantity: the kernel's default."""


class HwmonChip:
    """A chip on one rail, whose files are renewed as it converts."""

    possible_faults = frozenset({Fault.DISCONNECT, Fault.NAN, Fault.OVERLOAD, Fault.STUCK})
    shunt_end_mv: ClassVar[float]
    """Across the shunt, where the converter is at its end."""

    def __init__(self, parts: MeterParts) -> None:
        """``point`` is a whole rail."""
        self.name = parts.name
        self.faults = Faults()
        self._directory = parts.directory / f"hwmon-{self.name}"
        self._clock = parts.new_clock()
        self._rng = parts.new_rng("noise")
        self._shunt_ohm = float(parts.config.settings["shunt_ohm"])
        self._task: asyncio.Task[None] | None = None
        self._converted = asyncio.Event()

    async def start(self) -> dict[str, str]:
        """Appear, and convert once: a chip has been on for long; the directory."""
        self._appear()
        self._task = asyncio.create_task(self._serve(), name=self.name)
        await self._converted.wait()
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

    async def _serve(self) -> None:
        """Convert, renew the files, and so on."""
        raise NotImplementedError

    def _errors_of(
        self, parts: MeterParts, quantity: str, data_sheet: Accuracy | None = None
    ) -> Errors:
        """Of volts, or of amps with the shunt's tolerance."""
        limits = parts.limits(quantity, data_sheet)
        if quantity == "current":
            of_shunt = float(parts.config.settings["shunt_tolerance_pct"]) / 100
            limits = replace(limits, of_reading=limits.of_reading + of_shunt)
        return parts.errors(limits, f"{quantity} errors")

    def _appear(self) -> None:
        """Bound to its driver: all files appear, ``name`` last: then the chip is there."""
        raise NotImplementedError

    def _show(self, volts: float, amps: float) -> None:
        shunt_mv = amps * self._shunt_ohm * 1e3
        if self.faults.has(Fault.OVERLOAD):
            shunt_mv = self.shunt_end_mv
            amps = shunt_mv * 1e-3 / self._shunt_ohm
        nothing = self.faults.has(Fault.NAN)
        for name, milli in (
            ("in1_input", volts * 1e3),
            ("in0_input", shunt_mv),
            ("curr1_input", amps * 1e3),
        ):
            self._write(name, "" if nothing else f"{round(milli)}")

    def _write(self, name: str, text: str) -> None:
        replace_text(self._directory / name, f"{text}\n")


class Ina226Meter(HwmonChip):
    """Volts and amps of one rail, at the end of each averaging."""

    possible_faults = HwmonChip.possible_faults | {Fault.IDENTITY}
    shunt_end_mv = 81.92

    def __init__(self, parts: MeterParts) -> None:
        super().__init__(parts)
        settings = parts.config.settings
        self._interval_s = float(settings.get("update_interval_s") or _USUAL_INTERVAL_S)
        self._sensors = [
            (
                Probe(parts.state, f"{parts.config.point}.{name}"),
                self._errors_of(parts, name, data_sheets.ina226(self._shunt_ohm)[name]),
                step,
            )
            for name, step in (
                ("voltage", _BUS_STEP_VOLTS),
                ("current", _SHUNT_STEP_VOLTS / self._shunt_ohm),
            )
        ]

    def _appear(self) -> None:
        self._directory.mkdir(exist_ok=True)
        self._write("shunt_resistor", f"{self._shunt_ohm * 1e6:.0f}")
        self._write("update_interval", f"{self._interval_s * 1e3:.0f}")
        self._show(0.0, 0.0)
        self._write("name", "ina219" if self.faults.has(Fault.IDENTITY) else _MODEL)

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
                self._converted.set()
            end += interval_ns

    def _appear_if_gone(self) -> None:
        there = self._directory / "name"
        wrong = there.exists() and (there.read_text() != f"{_MODEL}\n")
        if not there.exists() or wrong or self.faults.has(Fault.IDENTITY):
            self._appear()


_CYCLE_S: Final = 3 * 1.052e-3
"""One conversion each of shunt, bus and temperature: CT bits 101 (data sheet)."""
_AVERAGED: Final = 16
_CYCLES_AT_ONCE: Final = 4
"""The energy is brought up to date after so many cycles (a chip: after each), to spare the CPU."""
_OSCILLATOR: Final = 0.005
"""Data sheet: ±0.5 %."""
_228_BUS_STEP_VOLTS: Final = 195.3125e-6
_228_SHUNT_STEP_VOLTS: Final = 312.5e-9


class Ina228Meter(HwmonChip):
    """Volts and amps of one rail, averaged over 16 cycles, and joules counted by its own clock."""

    shunt_end_mv = 163.84

    def __init__(self, parts: MeterParts) -> None:
        """The limits of its errors are those of its settings."""
        super().__init__(parts)
        point = parts.config.point
        self._probes = (
            Probe(parts.state, f"{point}.voltage"),
            Probe(parts.state, f"{point}.current"),
        )
        self._errors = tuple(self._errors_of(parts, name) for name in ("voltage", "current"))
        drawn = float(parts.new_rng("oscillator").uniform(-1, 1))
        self._oscillator = 1 + 0.9 * _OSCILLATOR * drawn * parts.config.error_scale
        self._joules = 0.0

    async def _serve(self) -> None:
        """Convert what is due, and keep the files true; a busy machine makes it some at once."""
        step_ns = _CYCLE_S * _CYCLES_AT_ONCE / self._oscillator * 1e9
        begin = self._clock.now()
        averaged = np.empty((2, 0))
        while True:
            wait_ns = self._clock.to_host(begin + step_ns) - time.monotonic_ns()
            await asyncio.sleep(max(wait_ns, 0) * 1e-9)
            due = max(int((self._clock.now() - begin) / step_ns), 1)
            edges = [self._clock.to_host(begin + number * step_ns) for number in range(due + 1)]
            begin += due * step_ns
            windows = np.array(edges[:-1], np.int64), np.array(edges[1:], np.int64)
            shown = np.array(
                [
                    errors.apply(await probe.means(*windows), self._rng, step)
                    for probe, errors, step in zip(
                        self._probes,
                        self._errors,
                        (_228_BUS_STEP_VOLTS, _228_SHUNT_STEP_VOLTS / self._shunt_ohm),
                        strict=True,
                    )
                ]
            )
            # Its own seconds are what it counts with, and they are not quite seconds.
            self._joules += float(np.abs(shown[0] * shown[1]).sum()) * _CYCLE_S * _CYCLES_AT_ONCE
            averaged = np.hstack([averaged, shown])
            if self.faults.has(Fault.DISCONNECT) or self.faults.has(Fault.STUCK):
                continue
            if not (self._directory / "name").exists():
                self._appear()
            self._write("energy1_input", f"{self._energy_uj()}")
            whole = averaged.shape[1] * _CYCLES_AT_ONCE // _AVERAGED * _AVERAGED // _CYCLES_AT_ONCE
            if whole:
                newest = averaged[:, whole - _AVERAGED // _CYCLES_AT_ONCE : whole]
                self._show(*newest.mean(axis=1).tolist())
                self._converted.set()
                averaged = averaged[:, whole:]

    def _appear(self) -> None:
        """Its energy is 0: the chip was reset."""
        self._joules = 0.0
        self._directory.mkdir(exist_ok=True)
        self._show(0.0, 0.0)
        self._write("name", "ina228")

    def _show(self, volts: float, amps: float) -> None:
        super()._show(volts, amps)
        self._write("energy1_input", f"{self._energy_uj()}")

    def _energy_uj(self) -> int:
        """Whole steps: 16 times those of the power, 0.2 of those of the current (data sheet), which
        the kernel makes 5 µV / the shunt."""
        step_uj = 16 * 0.2 * 5e-6 / self._shunt_ohm * 1e6
        return round(int(self._joules * 1e6 / step_uj) * step_uj)
