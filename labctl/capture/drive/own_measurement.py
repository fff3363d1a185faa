"""Has a drive measure its own power over each phase (NVMe 2.3, feature and log page 25h).

The measurement is begun anew at each boundary and ends by itself, so that nothing is left on in a
drive whose host was lost. Which one is begun is recorded before, as a changed setting: where labctl
is killed, the next run on the rig knows it by its generation number, and ends it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from labctl.capture.drive.changed_settings import OFF, POWER_MEASUREMENT
from labctl.capture.host.machine import Machine, run_tool
from labctl.capture.identity.nvme_cli import MEASUREMENT, ask_nvme, nvme_failure
from labctl.capture.identity.nvme_pages import parse_power_measurement, whole_measurement_bytes
from labctl.errors import RunFailed
from labctl.record.drive_state import DriveState, PowerMeasurement
from labctl.record.events import EventKind

_FEATURE = "0x25"
_START, _STOP = 1, 0
"""Of the action (ACT) in bits 3:0; type 0 in bits 7:4 is the power of the whole subsystem."""
_MINUTES_AT = 16
"""Stop measurement time (SMT) in minutes, bits 31:16."""
_MOST_MINUTES = 0xFFFF
_GENERATIONS = 256
_SPARE_S = 300.0
"""A phase may take longer than planned: a drive that is slow, a host that is away."""
SOMEBODY_ELSES = (
    "somebody else has the drive measure its power: that is left alone, and not set against the "
    "meters"
)
NOT_BEGUN = "the drive took the command to measure its power, and does not measure"


class OwnMeasurement:
    """The power measurement of one drive. Whoever measures with it already is left alone."""

    def __init__(
        self,
        machine: Machine,
        state: DriveState,
        longest_s: float,
        on_setting: Callable[..., None] = lambda kind, **data: None,
        left: str | None = None,
    ) -> None:
        """``longest_s``: of a phase; a measurement that is forgotten ends some minutes later.
        ``on_setting`` takes ``setting_changed`` before one is begun and ``settings_restored``;
        ``left``: the generation of one that a run had begun which was killed and goes on."""
        self._machine = machine
        self._device = state.smart_device
        most = state.longest_measurement_minutes or _MOST_MINUTES
        self._minutes = math.ceil(min((longest_s + _SPARE_S) / 60, most))
        self._on_setting = on_setting
        self._generation = None if left is None or left == OFF else int(left)
        """Of the one that was begun here; None where there is none."""
        self.problem = ""
        """What is wrong with what the drive was last asked or told; empty where nothing is."""

    def begin(self) -> bool:
        """Measure from now on; whether the drive does. Blocks until the tool has ended."""
        found = self._read()
        if found is None:
            return False
        if found.is_on and not self._began(found):
            self.problem = SOMEBODY_ELSES
            self._generation = None
            return False
        if found.is_on:  # else a kill between mark and start would leave it without a mark
            self._set(_STOP)
        following = (found.generation + 1) % _GENERATIONS
        self._mark(following)
        refused = "" if self._set(_START | self._minutes << _MINUTES_AT) else self.problem
        begun = self._read()
        if begun is None:  # it may have begun: the number tells at the next boundary
            self.problem = refused or self.problem
            return not refused
        if not begun.is_on:
            self.problem = refused or NOT_BEGUN
            self._unmark()
            return False
        if begun.generation != following:
            self._mark(begun.generation)
        if found.is_on and begun.generation == found.generation:  # neither stopped nor begun anew
            self.problem = refused or NOT_BEGUN
            return False
        return True

    def _mark(self, generation: int) -> None:
        before, now = {POWER_MEASUREMENT: OFF}, {POWER_MEASUREMENT: str(generation)}
        self._on_setting(EventKind.SETTING_CHANGED, before=before, now=now)
        self._generation = generation

    def _unmark(self) -> None:
        self._on_setting(EventKind.SETTINGS_RESTORED, settings=[POWER_MEASUREMENT])
        self._generation = None

    def read(self) -> PowerMeasurement | None:
        """What it has measured since it began, if nobody else began another since then."""
        found = None if self._generation is None else self._read()
        if found is not None and not self._began(found):
            self.problem = SOMEBODY_ELSES
            return None
        return found if found is not None and found.intervals else None

    def end(self) -> None:
        """Measure no longer, as before the run."""
        found = None if self._generation is None else self._read()
        if found is not None and (not self._began(found) or self._set(_STOP)):
            self._unmark()
        self._generation = None

    def _began(self, found: PowerMeasurement) -> bool:
        """Whether it is the one that was begun here: each has another generation number."""
        return found.generation == self._generation

    def _read(self) -> PowerMeasurement | None:
        done = ask_nvme(self._machine, MEASUREMENT, self._device)
        found = parse_power_measurement(done.raw)
        self.problem = ""
        if found is None:
            self.problem = nvme_failure(done, MEASUREMENT)
        elif len(done.raw) < (whole := whole_measurement_bytes(done.raw)):
            came = f"{len(done.raw)} bytes came of a page of {whole}"
            self.problem = f"the histogram of the drive's power measurement is cut off: {came}"
        return found

    def _set(self, value: int) -> bool:
        self.problem = _set_measurement(self._machine, self._device, value)
        return not self.problem


def measurement_on(machine: Machine, device: str) -> str:
    """The generation of the power measurement that a drive does now, or OFF. Raises RunFailed."""
    done = ask_nvme(machine, MEASUREMENT, device)
    found = parse_power_measurement(done.raw)
    if found is None:
        raise RunFailed(nvme_failure(done, MEASUREMENT))
    return str(found.generation) if found.is_on else OFF


def end_measurement(machine: Machine, device: str) -> None:
    """Have a drive measure itself no longer. Raises RunFailed."""
    problem = _set_measurement(machine, device, _STOP)
    if problem:
        raise RunFailed(f"its power measurement cannot be ended: {problem}")


def _set_measurement(machine: Machine, device: str, value: int) -> str:
    command = ["nvme", "set-feature", device, f"--feature-id={_FEATURE}", f"--value={value}"]
    done = run_tool(machine, command)
    return nvme_failure(done, MEASUREMENT) if done.exit_code else ""
