"""Act on the drive and its host besides I/O: purge, power state, CPU governor.

Permission is checked elsewhere: see :mod:`labctl.capture.drive.check_target`.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath

from labctl.capture.drive.changed_settings import (
    GOVERNORS,
    OF_DRIVE,
    OFF,
    POWER_LIMIT,
    POWER_MEASUREMENT,
    POWER_STATE,
    Changed,
    power_limit_words,
)
from labctl.capture.drive.own_measurement import end_measurement, measurement_on
from labctl.capture.host.machine import NOT_FOUND, Machine, run_tool
from labctl.capture.identity.node import DrivePlace
from labctl.capture.identity.nvme_cli import SANITIZE, ask_feature, ask_nvme, nvme_failure
from labctl.capture.identity.nvme_pages import parse_sanitize_log, power
from labctl.capture.identity.opened_target import (
    NOT_WHAT_WAS_CHECKED,
    OpenedTarget,
    opening,
    to_open,
)
from labctl.capture.identity.sysfs import nvme_controller_of
from labctl.config.rig_file import Drive
from labctl.errors import Refused, RunFailed
from labctl.record.events import EventKind
from labctl.record.phase import Phase

POLL_EVERY_S = 2.0
QUICKLY_S = 30.0

_NVME = re.compile(r"/dev/(nvme\d+n\d+)(p\d+)?")
_POWER_MANAGEMENT = "2"
"""NVMe base specification 2.0, Set Features: feature identifier 02h, the state in bits 4:0."""
_POWER_LIMIT = "0x23"
"""NVMe base specification 2.3: value in bits 15:0, its scale in 17:16. Set Features takes it in
dword 13, which nvme-cli passes on by ``admin-passthru`` alone."""
_SET_FEATURES = "0x09"
_HUNDREDTHS = 2 << 16
_USER_DATA_ERASE = "1"
"""Format NVM: secure erase settings 001b."""
_BLOCK_ERASE = "2"
"""Sanitize: sanitize action 010b."""
_SANITIZE_OVER = 65535
"""Sanitize progress (SPROG) when no sanitize is in progress."""
_SUCCESSFUL = (1, 4)
"""Sanitize status (SSTAT bits 2:0): completed; completed without deallocation."""


class DriveControl:
    """Acts on one drive, and puts back what it changed: see :meth:`restore`.

    Every method may take long and raises RunFailed with what to do about it.
    """

    def __init__(
        self,
        machine: Machine,
        drive: Drive,
        left: Changed | None = None,
        on_event: Callable[..., None] = lambda kind, **data: None,
    ) -> None:
        """``left``: what another process has changed, to be put back by this one. ``on_event``
        takes ``setting_changed`` (before the change is made) and ``settings_restored``."""
        self._machine = machine
        self._drive = drive
        self._changed = left or Changed()
        self._on_event = on_event
        self._chosen: dict[str, str] = {}
        self._boot_id = ""

    @property
    def _controller(self) -> str:
        """The device to ask for power states and limits, and for what it measures of itself: a
        strict drive refuses by namespace (status 10Fh). Of a target that leads to no controller,
        such as an encrypted volume, the rig may name the device (``smart_device``)."""
        named = [one for one in (self._drive.target, self._drive.smart_device) if one]
        devices = [self._machine.resolve(one) or one for one in named]
        controllers = filter(None, map(self._nvme_controller, devices))
        return next(controllers, None) or devices[-1]

    def _nvme_controller(self, device: str) -> str | None:
        """The controller's device; None where the drive is no NVMe."""
        found = _NVME.fullmatch(device)
        name = nvme_controller_of(found[1], self._machine) if found else None
        return f"/dev/{name}" if name else None

    def serial(self) -> str:
        """The NVMe drive's serial number, or an empty text."""
        path = f"/sys/class/nvme/{PurePosixPath(self._controller).name}/serial"
        return self._machine.read_texts([path]).get(path, "").strip()

    def purge(
        self,
        phase: Phase,
        place: DrivePlace | None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> str:
        """Purge the drive by ``phase.purge_method``; return the method that was used.

        ``place``: the checked target; None for an NBD address.
        """
        method = phase.purge_method
        device = place.path if place is not None else ""
        controller = self._nvme_controller(device)
        if method == "auto":
            method = "format" if controller else "discard"
        if method in ("format", "sanitize") and controller is None:
            raise RunFailed(
                f"purge by {method} needs an NVMe drive; {self._drive.target} is none: use "
                'method = "discard"'
            )
        if method == "format":
            self._run(["nvme", "format", device, f"--ses={_USER_DATA_ERASE}"], phase)
        elif method == "sanitize":
            assert controller is not None
            self._sanitize(controller, phase, stopped)
        elif place is None or place.node is not None:  # a file that does not exist yet is fresh
            (opened,) = to_open({"": place}, {}, self._machine).values() if place else (None,)
            self._run(self._discarding(opened), phase, opened)
        return method

    def _discarding(self, opened: OpenedTarget | None) -> list[str]:
        drive = self._drive
        if opened is None:
            size = [f"--size={drive.size_bytes}"] if drive.size_bytes else []
            job = ["--thread=1", "--name=purge", "--rw=trim", "--bs=1m", "--iodepth=8", *size]
            return ["fio", "--ioengine=nbd", f"--uri={drive.target}", *job]
        if opened.node.is_device:
            return ["blkdiscard", opened.name]
        length = str(drive.size_bytes or 0)
        return ["fallocate", "--punch-hole", "--length", length, opened.name]

    def _sanitize(self, controller: str, phase: Phase, stopped: Callable[[], bool]) -> None:
        deadline = time.monotonic() + phase.duration_s
        self._run(["nvme", "sanitize", controller, f"--sanact={_BLOCK_ERASE}"], phase)
        while True:
            done = ask_nvme(self._machine, SANITIZE, controller)
            found = parse_sanitize_log(done.raw)
            progress, status = found or (None, None)
            if progress == _SANITIZE_OVER and status in _SUCCESSFUL:
                return
            if progress == _SANITIZE_OVER and status != 2:
                raise RunFailed(f"sanitize of {controller} failed (status {status})")
            if time.monotonic() > deadline:
                after = f"after {phase.duration_s:.0f} s"
                if found is None:
                    raise RunFailed(
                        f"whether the sanitize of {controller} has ended is not known {after}: "
                        f"{nvme_failure(done, SANITIZE)}"
                    )
                raise RunFailed(
                    f"sanitize of {controller} has not ended {after}; it goes on in the drive: "
                    "raise within_s of the purge"
                )
            if stopped():
                raise RunFailed(f"sanitize of {controller} goes on in the drive")
            time.sleep(POLL_EVERY_S)

    def _run(self, argv: Sequence[str], phase: Phase, opened: OpenedTarget | None = None) -> None:
        """Run a tool, which is given ``opened`` where that is not None."""
        if opened is None:
            done = run_tool(self._machine, argv, phase.duration_s)
        else:
            done = self._machine.run(opening([opened], argv), phase.duration_s)
        if done.exit_code == 0:
            return
        if done.exit_code == NOT_FOUND:
            raise RunFailed(f"{argv[0]} is not installed on the drive's host: install it")
        if opened is not None and done.exit_code == NOT_WHAT_WAS_CHECKED:
            raise Refused(done.message)
        raise RunFailed(f"{' '.join(argv[:2])} of {self._drive.target} failed: {done.message}")

    def set_power_state(self, state: int) -> None:
        """Set NVMe power state ``state`` and verify it. Raises RunFailed."""
        self._choose({POWER_STATE: str(self.power_state())}, str(state))

    def set_default_power_state(self) -> int | None:
        """Set the power state that the run found, which is given; None where it never set another.

        Raises RunFailed.
        """
        found = self._changed.before.get(POWER_STATE)
        if found is None:
            return None
        self._choose({POWER_STATE: str(self.power_state())}, found)
        return int(found)

    def set_power_limit(self, watts: float) -> None:
        """Limit the drive to ``watts``, to a hundredth, and verify it. Raises RunFailed."""
        value = _HUNDREDTHS | round(watts * 100)
        self._choose({POWER_LIMIT: str(self.power_limit())}, str(value))

    def set_default_power_limit(self) -> bool:
        """Set the power limit that the run found; whether it ever set another. Raises RunFailed."""
        found = self._changed.before.get(POWER_LIMIT)
        if found is not None:
            self._choose({POWER_LIMIT: str(self.power_limit())}, found)
        return found is not None

    def set_governor(self, governor: str) -> None:
        """Set the CPU frequency governor of every core. Raises RunFailed."""
        before = self.governors()
        if not before:
            raise RunFailed("the drive's host has no CPU governors to set; leave governor out")
        self._choose(before, governor)

    def _choose(self, before: dict[str, str], value: str) -> None:
        """Set what is not ``value`` yet; a drive need not be able to change its only state."""
        wanted = {name: value for name, now in before.items() if now != value}
        self._chosen |= dict.fromkeys(before, value)
        if wanted:
            was = {name: before[name] for name in wanted}
            self._on_event(EventKind.SETTING_CHANGED, before=was, now=wanted)
            self._changed = self._changed.and_also(was, wanted)
            self._set(wanted)

    def set_again_after(self, boot_id: str) -> None:
        """Set again what was set, where the host has restarted since the last call."""
        booted, self._boot_id = self._boot_id not in ("", boot_id), boot_id
        if booted and self._chosen:
            there = self._present(self._chosen)
            self._set({name: value for name, value in self._chosen.items() if there[name] != value})

    @property
    def has_changed(self) -> bool:
        """Whether there is anything to be put back."""
        return bool(self._changed)

    def left_over(self) -> Changed:
        """The settings that still have the value which an ended process gave them."""
        changed = self._changed
        there = self._present(changed.now)
        return changed.only(
            name
            for name, value in there.items()
            if changed.before[name] != value == changed.now[name]
        )

    def restore(self) -> list[str]:
        """Put back what was changed; return the problems, one line each. Never raises."""
        problems = []
        for kind in (*({name} for name in OF_DRIVE), self._changed.before.keys() - OF_DRIVE.keys()):
            part = self._changed.only(kind)
            if not part:
                continue
            try:
                there = self._present(part.before)
                self._set(
                    {
                        name: value
                        for name, value in part.before.items()
                        if there[name] not in ("", value)
                    }
                )
            except RunFailed as error:
                problems.append(str(error))
            else:
                self._changed = self._changed.without(part.before)
                self._on_event(EventKind.SETTINGS_RESTORED, settings=sorted(part.before))
        return problems

    def _present(self, names: Iterable[str]) -> dict[str, str]:
        """The present values of settings; empty where the host does not have one any more."""
        wanted = set(names)
        found = dict.fromkeys(wanted, "")
        if POWER_STATE in wanted:
            found[POWER_STATE] = str(self.power_state())
        if POWER_LIMIT in wanted:
            found[POWER_LIMIT] = str(self.power_limit())
        if POWER_MEASUREMENT in wanted:
            there = measurement_on(self._machine, self._controller)
            # every other one is somebody else's
            is_left = there == self._changed.now.get(POWER_MEASUREMENT)
            found[POWER_MEASUREMENT] = there if is_left else OFF
        if wanted - OF_DRIVE.keys():
            found |= {path: text for path, text in self.governors().items() if path in wanted}
        return found

    def _set(self, values: dict[str, str]) -> None:
        governors = {name: value for name, value in values.items() if name not in OF_DRIVE}
        if governors:
            self._write_governors(governors)
        if POWER_MEASUREMENT in values:
            end_measurement(self._machine, self._controller)
        if POWER_STATE in values:
            self._set_power_state(int(values[POWER_STATE]))
        if POWER_LIMIT in values:
            self._set_power_limit(int(values[POWER_LIMIT]))

    def _set_power_state(self, state: int) -> None:
        # in full: since nvme-cli 2.6 "-v" is no value any more, and 0 is set without a word
        what = [f"--feature-id={_POWER_MANAGEMENT}", f"--value={state}"]
        command = ["nvme", "set-feature", self._controller, *what]
        done = run_tool(self._machine, command, QUICKLY_S)
        if done.exit_code:
            raise RunFailed(
                f"power state {state} of {self._drive.target} cannot be set: {done.message}; 'nvme "
                "id-ctrl' lists the states that the drive has, and root is needed"
            )
        taken = self.power_state()
        if taken != state:
            raise RunFailed(f"{self._drive.target} stays in power state {taken}, not {state}")

    def _set_power_limit(self, value: int) -> None:
        fields = [f"--opcode={_SET_FEATURES}", f"--cdw10={_POWER_LIMIT}", f"--cdw13={value}"]
        done = run_tool(
            self._machine, ["nvme", "admin-passthru", self._controller, *fields], QUICKLY_S
        )
        if done.exit_code:
            raise RunFailed(
                f"power limit {power_limit_words(value)} of {self._drive.target} cannot be set: "
                f"{done.message}; it may be lower or higher than the drive allows"
            )
        taken = self.power_limit()
        if taken != value:
            raise RunFailed(
                f"{self._drive.target} was told power limit {power_limit_words(value)} and has "
                f"{power_limit_words(taken)}: name a limit that it takes as it is"
            )

    def power_state(self) -> int:
        """The power state that the drive is in."""
        return self._feature(_POWER_MANAGEMENT, POWER_STATE) & 0x1F

    def power_limit(self) -> int:
        """The power limit of the drive: see :func:`power_limit_words`. In hundredths of a watt
        wherever that loses nothing: a drive may answer in another unit than it was told in."""
        field = self._feature(_POWER_LIMIT, POWER_LIMIT) & 0x3FFFF
        hundredths = (power(field) or 0.0) * 100
        if hundredths and math.isclose(hundredths, round(hundredths), rel_tol=1e-9):
            return _HUNDREDTHS | round(hundredths)
        return field

    def _feature(self, number: str, name: str) -> int:
        found, done = ask_feature(self._machine, number, self._controller, QUICKLY_S)
        if found is None:
            raise RunFailed(
                f"the {OF_DRIVE[name]} of {self._drive.target} cannot be read: "
                f"{done.message or 'no nvme-cli'}; install nvme-cli and run as root"
            )
        return found

    def governors(self) -> dict[str, str]:
        """The CPU frequency governor of each core, by its file."""
        return {path: text.strip() for path, text in self._machine.read_texts([GOVERNORS]).items()}

    def _write_governors(self, wanted: dict[str, str]) -> None:
        script = 'while [ $# -gt 1 ]; do echo "$2" > "$1" || exit 1; shift 2; done'
        pairs = [word for path, governor in wanted.items() for word in (path, governor)]
        done = self._machine.run(["sh", "-c", script, "sh", *pairs])
        if done.exit_code:
            available = self._machine.read_texts(
                [GOVERNORS.replace("scaling_governor", "scaling_available_governors")]
            )
            there = ", ".join(
                sorted({word for text in available.values() for word in text.split()})
            )
            raise RunFailed(
                f"the CPU governor cannot be set ({' '.join(done.stderr.split())[:200]}); root is "
                f"needed; the host has: {there or 'unknown'}"
            )
