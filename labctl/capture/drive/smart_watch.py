"""Watch the drive's own counters while a run is on, beside the phases.

SMART is read when the run begins, at the boundaries of phases, every few seconds between them, and
at the end. Each change becomes an event, so that the analysis knows within which seconds a thermal
counter moved. A drive that no longer answers gives one event when it is lost, one when it is back.

Reading the SMART log of an NVMe drive is an admin command beside its I/O queues. On SATA the
command waits for the queue to run empty, so a SATA drive is only read at the boundaries.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass
from typing import TypeVar

from labctl.capture.drive.own_measurement import OwnMeasurement
from labctl.capture.host.alongside import alongside
from labctl.capture.host.daemon_thread import in_daemon_thread
from labctl.capture.host.machine import Machine
from labctl.capture.identity.smart import SmartReader
from labctl.errors import LabctlError
from labctl.record.drive_state import DriveState, PowerMeasurement, SmartLog
from labctl.record.events import EventKind, OnEvent

T = TypeVar("T")

EVERY_S = 10.0
"""How often SMART is read between phase boundaries, on average."""
LEAST_GAP_S = 1.0
"""However short the phases are, at least this long passes between two samples."""
LAST_SAMPLE_WITHIN_S = 5.0
"""The end of a run waits this long for the last reading."""


@dataclass(frozen=True, slots=True)
class SmartSample:
    """One reading of SMART. ``t_ns`` is the middle of the time it took, ``u_ns`` half of that."""

    t_ns: int
    u_ns: int
    log: SmartLog | None
    problem: str = ""


class DriveWatch:
    """Reads the counters of one drive and reports changes as events.

    Events (all times in ns on the run's timebase):

    - ``drive_state``: ``when`` ("before", "after"), ``smart`` (every field of SmartLog), ``u_ns``
    - ``drive_counters``: a thermal counter moved since the last sample: ``since_ns`` (its
      time), ``moved`` ({name: [before, now]}), ``counters`` (all thermal counters),
      ``composite_celsius``, ``u_ns``
    - ``drive_power``: ``watts``, the drive's own reading, where it has one, at every sample
    - ``drive_measurement``: what the drive measured of its own power (every field of
      PowerMeasurement) since ``since_ns``, where it can; at each phase boundary, and at the end.
      Each ``reason`` for which there is none, or not all of it, comes once
    - ``drive_silent`` with ``reason``; ``drive_back`` with ``gap_s``
    """

    def __init__(
        self,
        reader: SmartReader,
        now_ns: Callable[[], int],
        on_event: OnEvent,
        every_s: float | None = EVERY_S,
        own: OwnMeasurement | None = None,
    ) -> None:
        """``every_s`` None: only at phase boundaries. ``own``: of a drive that measures itself."""
        self._reader = reader
        self._own = own
        self._own_since: tuple[int, int] | None = None
        self._own_problem = ""
        self._now_ns = now_ns
        self._on_event = on_event
        self._every_s = every_s
        self._wanted = asyncio.Event()
        self._last: SmartSample | None = None
        self._silent_since_ns: int | None = None

    def phase_boundary(self) -> None:
        """A phase began or ended: request a sample. Returns at once."""
        self._wanted.set()

    async def sample(self, when: str | None = None) -> SmartSample:
        """Read once and report changes. With ``when`` ("before", "after") report all of it."""
        begin_ns = self._now_ns()
        log, problem = await in_daemon_thread(self._read, "drive-watch")
        end_ns = self._now_ns()
        sample = SmartSample((begin_ns + end_ns) // 2, (end_ns - begin_ns + 1) // 2, log, problem)
        self._report(sample, when)
        return sample

    def _read(self) -> tuple[SmartLog | None, str]:
        try:
            return self._reader.read()
        except LabctlError as error:  # the drive's host is away
            return None, str(error)
        except (OSError, ValueError, KeyError, TypeError) as error:  # an answer of unknown form
            return None, f"its answer makes no sense: {error!r}"

    async def run(self) -> None:
        """Sample at each boundary and every ``every_s``, until cancelled. Raises nothing else.

        A sample may wake the drive, so that the time from one to the next is drawn at random from
        a half to one and a half of it: a meter could be in step with even ones.
        """
        await self.measure_anew()
        while True:
            wait_s = None if self._every_s is None else self._every_s * random.uniform(0.5, 1.5)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wanted.wait()
            at_boundary = self._wanted.is_set()
            self._wanted.clear()
            if at_boundary:
                await self.measure_anew()
            await self.sample()
            await asyncio.sleep(LEAST_GAP_S)

    async def measure_anew(self, *, go_on: bool = True) -> None:
        """Report what the drive has measured of itself, and have it begin anew, or end."""
        if self._own is None:
            return
        since, self._own_since = self._own_since, None
        if since is not None:
            found, t_ns, u_ns = await self._timed(self._own.read)
            if isinstance(found, PowerMeasurement):
                data = {"since_ns": since[0], "u_ns": since[1] + u_ns, **asdict(found)}
                self._on_event(EventKind.DRIVE_MEASUREMENT, t_ns, data)
            self._report_unmeasured(self._own.problem, t_ns)
        ask: Callable[[], bool | None] = self._own.begin if go_on else self._own.end
        begun, t_ns, u_ns = await self._timed(ask)
        self._own_since = (t_ns, u_ns) if begun else None
        self._report_unmeasured(self._own.problem, t_ns)

    def _report_unmeasured(self, problem: str, t_ns: int) -> None:
        if problem and problem != self._own_problem:
            self._on_event(EventKind.DRIVE_MEASUREMENT, t_ns, {"reason": problem})
        self._own_problem = problem or self._own_problem

    async def _timed(self, ask: Callable[[], T]) -> tuple[T | None, int, int]:
        """What was asked in a thread (None where the host is away), the middle of the time that it
        took, and half of that, in ns."""
        begin_ns = self._now_ns()
        try:
            found: T | None = await in_daemon_thread(ask, "drive-watch")
        except LabctlError:
            found = None
        end_ns = self._now_ns()
        return found, (begin_ns + end_ns) // 2, (end_ns - begin_ns + 1) // 2

    def _report(self, sample: SmartSample, when: str | None) -> None:
        if sample.log is None:
            if self._silent_since_ns is None:
                self._silent_since_ns = sample.t_ns
                self._on_event(EventKind.DRIVE_SILENT, sample.t_ns, {"reason": sample.problem})
            return
        if self._silent_since_ns is not None:
            gap_s = (sample.t_ns - self._silent_since_ns) / 1e9
            self._on_event(EventKind.DRIVE_BACK, sample.t_ns, {"gap_s": round(gap_s, 3)})
            self._silent_since_ns = None
        if self._last is not None and self._last.log is not None:
            self._report_moved(self._last, sample)
        if sample.log.interval_watts is not None:
            power = {"watts": sample.log.interval_watts, "u_ns": sample.u_ns}
            self._on_event(EventKind.DRIVE_POWER, sample.t_ns, power)
        if when is not None:
            state = {"when": when, "smart": asdict(sample.log), "u_ns": sample.u_ns}
            self._on_event(EventKind.DRIVE_STATE, sample.t_ns, state)
        self._last = sample

    def _report_moved(self, last: SmartSample, sample: SmartSample) -> None:
        assert last.log is not None and sample.log is not None
        before, now = last.log.thermal_counters(), sample.log.thermal_counters()
        moved = {
            name: [before[name], value]
            for name, value in now.items()
            if name in before and before[name] != value
        }
        if moved:
            data = {
                "since_ns": last.t_ns,
                "moved": moved,
                "counters": now,
                "composite_celsius": sample.log.composite_celsius,
                "u_ns": sample.u_ns,
            }
            self._on_event(EventKind.DRIVE_COUNTERS, sample.t_ns, data)


@contextlib.asynccontextmanager
async def watching_drive(
    machine: Machine,
    state: DriveState,
    now_ns: Callable[[], int],
    on_event: OnEvent,
    every_s: float | None = EVERY_S,
    longest_s: float = 0.0,
    on_setting: Callable[..., None] = lambda kind, **data: None,
    left: str | None = None,
) -> AsyncIterator[DriveWatch | None]:
    """Watch the drive of ``state`` inside the ``async with``; None where it has no SMART to read.

    Reports its state before and after. ``longest_s``, ``on_setting``, ``left``: see
    :class:`OwnMeasurement`. On exit it waits at most
    ``LAST_SAMPLE_WITHIN_S`` for a drive that does not answer.
    """
    if not state.smart_device or state.smart is None:
        yield None  # the reason is in the state's problems
        return
    is_nvme = "nvme" in state.smart_device
    extended = state.smart.thermal_throttling_events is not None
    kind = "nvme" if is_nvme else "scsi"
    reader = SmartReader(machine, state.smart_device, kind, extended=extended)
    own = None
    if state.has_power_measurement:
        own = OwnMeasurement(machine, state, longest_s, on_setting, left)
    watch = DriveWatch(reader, now_ns, on_event, every_s if is_nvme else None, own)
    await watch.sample("before")
    try:
        async with alongside(watch.run(), "drive-watch"):
            yield watch
    finally:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_SAMPLE_WITHIN_S):
                await watch.measure_anew(go_on=False)
                await watch.sample("after")
