"""Checks of the drive: identity, permission to use it, SMART, temperature and settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from labctl.capture.drive import check_target
from labctl.capture.drive.changed_settings import power_limit_words
from labctl.capture.drive.control import DriveControl
from labctl.capture.host.machine import Machine
from labctl.capture.identity.node import DrivePlace
from labctl.config.rig import Rig
from labctl.errors import LabctlError
from labctl.record.drive_state import DriveState, SmartLog
from labctl.record.phase import Pattern, Phase
from labctl.record.reader import RunRecord
from labctl.service.data_dir import find_home
from labctl.service.doctor.checks import Check, ok, trouble, warning
from labctl.service.locks.rig_lock import use_of
from labctl.service.runs.killed_runs import controls_of

DRIVE = "drive"
CRITICAL_WARNINGS = (
    "the spare blocks are below their threshold",
    "a temperature is beyond its threshold",
    "its reliability is degraded",
    "it has become read-only",
    "its backup of volatile memory has failed",
    "its persistent memory region has become read-only",
)
"""NVMe base specification 2.0, SMART / Health log, Critical Warning, bits 0 to 5."""
WARM_BY_CELSIUS = 10.0
"""A drive that idles this close below its warning temperature will soon throttle."""


def check_identity(rig: Rig, state: DriveState) -> Iterator[Check]:
    """Whether the drive has the model and serial that the rig file names."""
    names = " ".join(filter(None, (state.model, state.serial, state.firmware)))
    size = f", {state.size_bytes / 1e9:.0f} GB" if state.size_bytes else ""
    known = names or state.kind
    yield (ok if known else warning)(
        DRIVE, f"{rig.drive.target}: {known or 'not identified'}{size}"
    )
    model, wanted = state.model.strip(), rig.drive.model.strip()
    if wanted and model and wanted.casefold() not in model.casefold():
        yield warning(
            DRIVE, f"the rig says {wanted!r}, the drive {model!r}", f"correct {rig.drive_key}.model"
        )
    serial = rig.drive.serial.strip()
    if serial and state.serial and state.kind != "file" and serial != state.serial.strip():
        # A drive behind a USB bridge has several serial numbers; the safety rules compare them all.
        yield (trouble if state.kind in ("nvme", "nbd") else warning)(
            DRIVE,
            f"it has serial {state.serial}, the rig names {serial}: this is another drive",
            f"correct {rig.drive_key}.target or {rig.drive_key}.serial",
        )
    for finding in state.findings:
        yield warning(DRIVE, finding)
    for problem in state.problems:
        yield warning(DRIVE, problem)


def check_rights(
    rig: Rig, phases: Sequence[Phase], runs_root: Path, machine: Machine
) -> Iterator[Check]:
    """Whether the plan may use the drive; without a plan, whether it can be read.

    Nothing is written.
    """
    purges = any(phase.pattern is Pattern.PURGE for phase in phases)
    writes = any(phase.writes for phase in phases)
    try:
        place = check_target.check_target(rig, phases, runs_root, machine, whole_drive=purges)
    except LabctlError as error:
        for line in str(error).splitlines():
            yield trouble(DRIVE, line)
        return
    unreadable = (
        _drive_read_problem(place, machine) if place is not None and place.is_device else ""
    )
    if unreadable:
        yield trouble(DRIVE, unreadable, "run labctl as root, or join the device's group (disk)")
    elif writes:
        yield ok(DRIVE, "the plan writes to it, and every rule for that is kept")
        if held := check_target.what_it_holds(rig, machine):
            yield warning(
                DRIVE,
                f"it holds {', '.join(held)}, which nobody has open and the plan destroys",
                "be sure that nobody needs it",
            )
    else:
        yield ok(DRIVE, "it may be read; the journal is elsewhere")


def check_distinct(rig: Rig, machine: Machine) -> Iterator[Check]:
    """Whether no two of the rig's drives are the same device."""
    try:
        check_target.refuse_twice(rig, machine)
    except LabctlError as error:
        yield trouble(DRIVE, str(error))


def _drive_read_problem(device: DrivePlace, machine: Machine) -> str:
    """Why one block of a device cannot be read; empty where it can."""
    done = machine.run(["dd", f"if={device.path}", "of=/dev/null", "bs=4096", "count=1"], 10.0)
    message = " ".join(done.stderr.split())
    return f"{device.path} cannot be read: {message[:200]}" if done.exit_code else ""


def check_health(rig: Rig, state: DriveState, phases: Sequence[Phase]) -> Iterator[Check]:
    """Whether SMART reports a problem, and how near the drive is to its warning temperature."""
    smart = state.smart
    if smart is None:
        yield warning(
            DRIVE,
            "SMART is not known: throttling cannot be excluded by its counters",
            f"name the drive in {rig.drive_key}.smart_device, and run as root",
        )
        return
    bad = list(_smart_problems(smart))
    yield from bad
    worn = f"{smart.percentage_used} % worn" if smart.percentage_used is not None else ""
    hours = f"{smart.power_on_hours} h on" if smart.power_on_hours is not None else ""
    if not bad:
        yield ok(DRIVE, ", ".join(filter(None, ("SMART without a warning", worn, hours))))
    yield from _check_drive_temperature(
        rig, state, smart, any(phase.pattern.io for phase in phases)
    )


def _smart_problems(smart: SmartLog) -> Iterator[Check]:
    if smart.passed is False:
        yield trouble(DRIVE, "SMART says that the drive is failing", "replace it")
    for bit, meaning in enumerate(CRITICAL_WARNINGS):
        if (smart.critical_warning or 0) >> bit & 1:
            yield (warning if bit == 1 else trouble)(DRIVE, f"SMART critical warning: {meaning}")
    if smart.percentage_used is not None and smart.percentage_used >= 100:
        yield warning(DRIVE, f"its rated life is used up ({smart.percentage_used} %)")
    if smart.thermal_throttling_level:
        yield warning(
            DRIVE,
            f"it says that it throttles now (level {smart.thermal_throttling_level})",
            "let it cool down, and cool it better",
        )
    if smart.media_errors:
        yield warning(DRIVE, f"SMART counts {smart.media_errors} media errors")


def _check_drive_temperature(
    rig: Rig, state: DriveState, smart: SmartLog, works: bool
) -> Iterator[Check]:
    celsius = smart.composite_celsius
    limit = rig.drive.warning_celsius or state.warning_celsius
    if celsius is None:
        return
    text = f"it is at {celsius:.0f} °C"
    stop = rig.file.limits.celsius
    if works and stop is not None and celsius >= stop:
        yield trouble(DRIVE, f"{text}, the rig's limit is {stop:g} °C", "let it cool down")
    elif limit is None:
        yield warning(
            DRIVE,
            f"{text}; from what temperature on it throttles is not known",
            f"set {rig.drive_key}.warning_celsius",
        )
    elif celsius > limit - WARM_BY_CELSIUS:
        yield warning(
            DRIVE, f"{text} and warns at {limit:g} °C: it will throttle soon", "cool it better"
        )
    else:
        yield ok(DRIVE, f"{text}, warns at {limit:g} °C")


def check_power_state(
    rig: Rig, state: DriveState, phases: Sequence[Phase], machine: Machine
) -> Iterator[Check]:
    """Which power state the drive is in, and whether it has those and the limits of the plan."""
    wanted = sorted({phase.power_state for phase in phases if phase.power_state is not None})
    limits = any(phase.power_limit_watts is not None for phase in phases)
    if state.kind != "nvme" and not wanted and not limits and not state.has_power_limit:
        return
    known = {item.number for item in state.power_states}
    if known and (missing := [number for number in wanted if number not in known]):
        yield trouble(
            DRIVE,
            f"it has no power state {', '.join(map(str, missing))}",
            f"it has {', '.join(map(str, sorted(known)))}: change power_state in the plan",
        )
    if limits and not state.has_power_limit:
        yield trouble(
            DRIVE,
            "it takes no power limit (NVMe 2.3, feature 23h)",
            "leave power_limit_watts out of the plan, or sweep power_state",
        )
    control = DriveControl(machine, rig.drive)
    try:
        now = control.power_state()
        limit = power_limit_words(control.power_limit()) if state.has_power_limit else ""
    except LabctlError as error:
        yield (trouble if wanted or limits else warning)(DRIVE, str(error))
        return
    if now and not wanted:
        yield warning(
            DRIVE,
            f"it is in power state {now}, not 0",
            f"nvme set-feature {state.device} --feature-id=2 --value=0",
        )
    elif limit not in ("", "none") and not limits:
        yield warning(
            DRIVE,
            f"it has a power limit of {limit}, and holds back for it",
            f"nvme admin-passthru {state.smart_device or state.device} --opcode=9 --cdw10=0x23 "
            "--cdw13=0",
        )
    else:
        threshold = state.power_threshold
        more = (
            f"power limit {limit}" if limit else "",
            f"power threshold {threshold}" if threshold else "",
        )
        yield ok(DRIVE, ", ".join(filter(None, (f"power state {now}", *more))))


def check_leftovers(rig: Rig, machine: Machine) -> Iterator[Check]:
    """Whether the last run on this rig ended with settings changed. Raises LabctlError."""
    before = use_of(find_home(), rig)
    if before is None or before.process.alive or not Path(before.run).is_dir():
        return
    for control in controls_of(RunRecord(Path(before.run)), rig, machine):
        left = control.left_over()
        if left:
            yield warning(
                "drive",
                f"the run {before.run} ended and has left {left}",
                "the next run puts it back, and so does labctl run --resume",
            )
