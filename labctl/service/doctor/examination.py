"""Runs the checks of ``labctl doctor``: all at once, each group for a limited time.

Nothing is written to the drive or stored on a server; the meters are left local.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from labctl.capture.host.daemon_thread import in_daemon_thread
from labctl.capture.host.machine import Machine
from labctl.capture.host.remote_host import host_at
from labctl.capture.identity.identify import identify
from labctl.capture.identity.sharing import shared_ports
from labctl.config.estimate import estimate
from labctl.config.plan import Plan
from labctl.config.rig import Rig, smallest
from labctl.config.site import site_store
from labctl.errors import ConfigurationError, LabctlError
from labctl.installed import Extra, need
from labctl.record.drive_state import DriveState
from labctl.record.phase import Phase
from labctl.record.timebase import Timebase
from labctl.service.doctor import disk, drive, host, meters
from labctl.service.doctor.checks import Check, Level, ok, trouble, warning, worst
from labctl.service.doctor.drive import check_leftovers
from labctl.service.doctor.servers import check_influx, check_mqtt, check_place
from labctl.sinks.influxdb.settings import influx_settings
from labctl.sinks.mqtt.settings import mqtt_settings

WITHIN_S = 40.0
"""Time limit of each group of checks; most take a second or two."""


@dataclass(frozen=True, slots=True)
class Examination:
    """The results of all checks, in the order of a run."""

    rig_name: str
    plan_name: str
    checks: tuple[Check, ...]

    @property
    def exit_code(self) -> int:
        """1 when something would stop the run, else 0."""
        return int(worst(self.checks) is Level.TROUBLE)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        return {
            "rig": self.rig_name,
            "plan": self.plan_name,
            "level": worst(self.checks).value,
            "checks": [check.to_json() for check in self.checks],
        }


def examine(rig: Rig, plan: Plan | None, runs_root: Path) -> Examination:
    """Check ``rig``, and ``plan`` on it. Raises ConfigurationError for mistakes in either."""
    phases = plan.expand(rig.size_bytes) if plan is not None else ()
    if plan is not None and (mistakes := rig.mistakes_with(phases, plan.name)):
        raise ConfigurationError(mistakes)
    checks = asyncio.run(_Examiner(rig, plan, phases, runs_root).all())
    return Examination(rig.name, plan.name if plan is not None else "", tuple(checks))


@dataclass(frozen=True)
class _Examiner:
    rig: Rig
    plan: Plan | None
    phases: tuple[Phase, ...]
    runs_root: Path

    async def all(self) -> list[Check]:
        """Every check. Groups run at once; the drive's waits for the connection to its host."""
        groups = await asyncio.gather(
            self._on_host(),
            self._within("instruments", self._meters()),
            self._within("sinks", self._sinks()),
            return_exceptions=True,  # cancelling a connection while it is made may hang asyncio
        )
        checks: list[Check] = []
        for group in groups:
            if isinstance(group, BaseException):
                raise group
            checks += group
        return checks

    async def _within(self, subject: str, work: Awaitable[Iterable[Check]]) -> list[Check]:
        try:
            async with asyncio.timeout(WITHIN_S):
                return list(await work)
        except TimeoutError:
            return [trouble(subject, f"no answer within {WITHIN_S:.0f} s")]
        except LabctlError as error:
            return [trouble(subject, line) for line in str(error).splitlines()]

    async def _on_host(self) -> list[Check]:
        timebase = Timebase()
        drive_host = host_at(self.rig.file.host, timebase, self.rig.tools)
        try:
            try:
                await drive_host.connect()
            except LabctlError as error:
                away = [trouble("host", line) for line in str(error).splitlines()]
                return [*away, *await self._within("disk", self._disk({}))]
            machine = drive_host.machine
            arguments = (self.rig, machine, self.plan, self.phases)
            found = await asyncio.gather(
                self._in_thread("host", lambda: host.check_host(*arguments)),
                self._in_thread("clock", lambda: host.check_clocks(self.rig, drive_host, timebase)),
                self._drive(machine),
            )
            return [check for group in found for check in group]
        finally:
            await drive_host.close()

    async def _in_thread(self, subject: str, checks: Callable[[], Iterable[Check]]) -> list[Check]:
        return await self._within(subject, in_daemon_thread(lambda: list(checks()), "doctor"))

    async def _drive(self, machine: Machine) -> list[Check]:
        """Each drive, then the disk: the plan's duration depends on the drives' sizes."""
        states: dict[str, DriveState] = {}
        checks: list[Check] = []
        for name, rig in self.rig.each_drive().items():
            found = await self._one_drive(rig, states, name, machine)
            subject = f"drive {name}"
            checks += [replace(check, subject=subject) if name else check for check in found]
        if len(states) > 1:
            checks += [warning("drive", line) for line in shared_ports(states)]
            checks += await self._in_thread(
                "drive", lambda: drive.check_distinct(self.rig, machine)
            )
        checks += await self._in_thread("drive", lambda: check_leftovers(self.rig, machine))
        return [*checks, *await self._disk(states)]

    async def _one_drive(
        self, rig: Rig, states: dict[str, DriveState], name: str, machine: Machine
    ) -> list[Check]:
        """The checks of the only drive of ``rig``; its state is put into ``states``."""
        target, phases = rig.drive, self.phases
        try:
            async with asyncio.timeout(WITHIN_S):
                state = await in_daemon_thread(
                    lambda: identify(machine, target.target, target.engine, target.smart_device),
                    "doctor",
                )
        except (TimeoutError, LabctlError) as error:
            reason = str(error) or f"not identified within {WITHIN_S:.0f} s"
            return [trouble("drive", reason)]
        states[name] = state
        found = await asyncio.gather(
            self._in_thread("drive", lambda: drive.check_identity(rig, state)),
            self._in_thread(
                "drive", lambda: drive.check_rights(rig, phases, self.runs_root, machine)
            ),
            self._in_thread("drive", lambda: drive.check_health(rig, state, phases)),
            self._in_thread("drive", lambda: drive.check_power_state(rig, state, phases, machine)),
        )
        return [check for group in found for check in group]

    async def _disk(self, states: Mapping[str, DriveState]) -> list[Check]:
        sizes = [
            one.size_bytes or (states[name].size_bytes if name in states else None)
            for name, one in self.rig.drives.items()
        ]
        phases = self.plan.expand(smallest(sizes)) if self.plan is not None else ()
        cost = estimate(phases, self.rig.write_bytes_per_s, len(sizes))
        checks = []
        if self.plan is not None and cost.seconds is not None:
            written = f", writes about {(cost.bytes_written or 0) / 1e9:.1f} GB"
            hours = (
                f"{cost.seconds / 3600:.1f} h"
                if cost.seconds > 5400
                else (f"{cost.seconds / 60:.0f} min")
            )
            text = f"{len(phases)} phases, about {hours}"
            checks.append(ok("plan", text + (written if cost.bytes_written else ", only reads")))
        elif self.plan is not None:
            checks.append(warning("plan", "how long it takes is not known", "set drive.size_bytes"))
        seconds = cost.seconds if self.plan is not None else None
        limits = list(disk.check_limits(self.rig, seconds))
        return [
            *checks,
            *await self._in_thread(
                "disk", lambda: disk.check_disk(self.rig, self.runs_root, seconds)
            ),
            *limits,
        ]

    async def _meters(self) -> list[Check]:
        stop = threading.Event()
        try:
            listen = partial(meters.listen, self.rig, Timebase(), stop)
            return await in_daemon_thread(listen, "doctor")
        finally:
            stop.set()

    async def _sinks(self) -> list[Check]:
        influx = influx_settings(self.rig.text, self.rig.path)
        mqtt = mqtt_settings(self.rig.text, self.rig.path)
        sinks: list[AsyncIterable[Check]] = []
        if influx is not None:
            need(Extra.INFLUX)
            sinks.append(check_influx(influx))
        if mqtt is not None:
            need(Extra.MQTT)
            sinks.append(check_mqtt(mqtt))
        if (store := site_store()) is not None:
            sinks.append(check_place(store))

        async def all_of(checks: AsyncIterable[Check]) -> list[Check]:
            return [check async for check in checks]

        groups = await asyncio.gather(*(self._within("sinks", all_of(sink)) for sink in sinks))
        if not sinks:
            return [ok("sinks", "none: runs stay on this disk")]
        return [check for group in groups for check in group]
