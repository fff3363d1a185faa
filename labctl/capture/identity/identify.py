"""Identity and state of the drive under test, gathered from everything its host has.

sysfs needs no rights and no tools; nvme-cli and smartctl add what only the drive itself knows. A
tool that is missing or not permitted leaves its own values out, and adds a line to ``problems``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from labctl.capture.host.machine import TIMED_OUT, Machine, run_tool
from labctl.capture.host.state import read_host
from labctl.capture.identity import nvme_pages, sysfs
from labctl.capture.identity.block_devices import BlockDevices, read_block_devices
from labctl.capture.identity.mounts import devices_below, read_mounts, read_own_mounts
from labctl.capture.identity.node import DrivePlace, find_place, is_missing_device
from labctl.capture.identity.nvme_cli import (
    CONTROLLER,
    EXTENDED_SMART,
    NAMESPACE,
    SMART,
    ask_feature,
    ask_nvme,
    nvme_failure,
    too_short,
)
from labctl.capture.identity.smartctl import SmartctlReport, parse_smartctl
from labctl.capture.identity.tool_output import failure, integer
from labctl.printable import printable
from labctl.record.drive_state import DriveState, PowerThreshold, SmartLog

_ASK_SMARTCTL = ("nvme", "sata", "scsi")
_POWER_THRESHOLD = "0x24"
_FEATURE_WITHIN_S = 15.0


def identify(machine: Machine, target: str, engine: str = "", smart_device: str = "") -> DriveState:
    """What the drive behind ``target`` is: a device, a partition, a file on it, or an address.

    ``smart_device`` is asked for SMART instead of a target that has none. Never raises for what it
    finds; the state's ``problems`` list what could not be found out.
    """
    state = _identify(machine, target, engine)
    if smart_device:
        kind = "nvme" if "nvme" in PurePosixPath(smart_device).name else "scsi"
        asked = _identify_by_asking(
            replace(state, device=smart_device, kind=kind, smart=None), machine
        )
        state = replace(asked, device=state.device, kind=state.kind, smart_device=smart_device)
    else:
        state = replace(state, smart_device=state.device if state.smart is not None else "")
    return replace(  # as in the record: a resumed run compares them
        state,
        model=printable(state.model),
        serial=printable(state.serial),
        firmware=printable(state.firmware),
    )


def _identify(machine: Machine, target: str, engine: str) -> DriveState:
    state = DriveState(target=target, host=read_host(machine, engine))
    if engine == "nbd" or target.startswith("nbd"):
        return replace(state, kind="nbd")
    place = find_place(target, machine)
    node = place.node
    blocks = read_block_devices(machine)
    if node is not None and node.is_device:
        name = blocks.numbers.get(node.number)
        if name is not None:
            return _identify_disk(state, name, blocks, machine)
        return replace(state, problems=(f"the kernel has no device {node.number} (any more)",))
    if is_missing_device(place, machine):
        return replace(state, problems=(f"there is no {target}; is the drive connected?",))
    if node is not None and not node.is_file:
        return replace(state, kind="other")
    return _identify_file(state, place, blocks, machine)


def _identify_file(
    state: DriveState, place: DrivePlace, blocks: BlockDevices, machine: Machine
) -> DriveState:
    """A file: the drive is that of its filesystem, where the filesystem is on one drive only."""
    if place.folder is None:
        return replace(state, problems=(f"there is no {state.target}",))
    folder = str(PurePosixPath(place.path).parent)
    below = devices_below(folder, read_own_mounts(machine), blocks, machine)
    drives = {name for name in below if blocks.kind_of(name) in ("nvme", "sata", "scsi", "virtio")}
    disks = sorted({blocks.disk_of(name) for name in drives})
    if len(disks) != 1:
        where = f"on {', '.join(disks)}" if disks else "on no drive that the kernel names"
        return replace(state, kind="file", findings=(f"{state.target} is a file {where}",))
    found = _identify_disk(state, disks[0], blocks, machine)
    note = f"{state.target} is a file on {disks[0]}: its filesystem is measured too"
    return replace(found, kind="file", findings=(note, *found.findings))


def _identify_disk(
    state: DriveState, name: str, blocks: BlockDevices, machine: Machine
) -> DriveState:
    disk = blocks.disk_of(name)
    kind = blocks.kind_of(disk)
    rotational = blocks.file(disk, "queue/rotational")
    names = sysfs.nvme_controller_of(disk, machine)
    folders = (f"/sys/class/nvme/{names}",) if names else (f"/sys/class/block/{disk}/device",)
    link = sysfs.read_link(names, machine) if names else None
    place = sysfs.read_place(names, machine) if names else sysfs.PciePlace()
    state = replace(
        state,
        device=f"/dev/{disk}",
        kind=kind,
        model=" ".join(blocks.file(disk, "device/model").split()),
        serial=blocks.serial_of(disk),
        firmware=blocks.file(disk, "device/firmware_rev", "device/rev"),
        size_bytes=blocks.size_bytes_of(disk),
        logical_block_bytes=integer(blocks.file(disk, "queue/logical_block_size")),
        physical_block_bytes=integer(blocks.file(disk, "queue/physical_block_size")),
        rotational=rotational == "1" if rotational else None,
        transport=blocks.file(disk, "device/transport") or _identified_transport(names, machine),
        namespace=integer(blocks.file(disk, "nsid")),
        link=link,
        pci_address=place.address,
        slot=place.slot,
        ports=place.ports,
        numa_node=place.numa_node,
        temperature_sensors=sysfs.read_sysfs_sensors(folders, machine),
        in_use=_identified_uses(disk, blocks, machine),
        findings=_identified_findings(
            disk, name, sysfs.slow_slot(link, place.ports) if link else ""
        ),
    )
    return _with_limits_of_sensors(_identify_by_asking(state, machine))


def _identified_transport(controller: str | None, machine: Machine) -> str:
    path = f"/sys/class/nvme/{controller}/transport"
    return machine.read_texts([path]).get(path, "").strip() if controller else ""


def _identified_findings(disk: str, name: str, slow: str) -> tuple[str, ...]:
    partition = f"the target is {name}, a partition of {disk}" if name != disk else ""
    return tuple(filter(None, (partition, slow)))


def _identified_uses(disk: str, blocks: BlockDevices, machine: Machine) -> tuple[str, ...]:
    own = (disk, *blocks.partitions_of(disk))
    found = [
        f"{mount.filesystem} mounted on {mount.point}"
        for mount in read_mounts(machine)
        if any(blocks.layers_of(on) & set(own) for on in mount.devices(blocks, machine))
    ]
    holders = (blocks.describe(holder) for name in own for holder in blocks.holders_of(name))
    return tuple(dict.fromkeys([*found, *(f"held by {holder}" for holder in holders)]))


@dataclass(frozen=True, slots=True)
class _Answers:
    """The answers of the tools; None where one did not answer, with its line in ``problems``."""

    controller: nvme_pages.Controller | None = None
    namespace: nvme_pages.Namespace | None = None
    smart: SmartLog | None = None
    report: SmartctlReport | None = None
    threshold: PowerThreshold | None = None
    problems: tuple[str, ...] = ()
    short: tuple[str, ...] = ()
    """Of each page that was too short its line, whatever another tool makes up for; else empty."""
    silent: bool = False
    """The drive hangs: no other tool is asked."""

    @property
    def complete(self) -> bool:
        """Whether smartctl need not be asked."""
        return None not in (self.controller, self.namespace, self.smart)


def _identify_by_asking(state: DriveState, machine: Machine) -> DriveState:
    if state.kind not in _ASK_SMARTCTL:
        return state
    answers = _Answers()
    if state.kind == "nvme":
        answers = _ask_nvme_cli(state.device, machine)
    if not answers.silent and not answers.complete:
        answers = _ask_smartctl(state.device, machine, answers)
    return _merge_identified_state(state, answers)


def _ask_nvme_cli(device: str, machine: Machine) -> _Answers:
    done = ask_nvme(machine, CONTROLLER, device)
    controller = nvme_pages.parse_id_ctrl(done.raw)
    if controller is None:
        return _Answers(
            problems=(nvme_failure(done, CONTROLLER),),
            short=(too_short(done, CONTROLLER),),
            # the next command would time out too
            silent=done.exit_code == TIMED_OUT,
        )
    of_namespace, of_smart = (ask_nvme(machine, page, device) for page in (NAMESPACE, SMART))
    namespace = nvme_pages.parse_id_ns(of_namespace.raw)
    smart = nvme_pages.parse_smart_log(of_smart.raw)
    problems = () if smart else (nvme_failure(of_smart, SMART),)
    short = [too_short(of_namespace, NAMESPACE), too_short(of_smart, SMART)]
    if smart is not None:
        extended = ask_nvme(machine, EXTENDED_SMART, device)
        smart = nvme_pages.with_extended_smart(smart, extended.raw)
        short.append(too_short(extended, EXTENDED_SMART))
    threshold = _ask_threshold(device, machine) if controller.has_power_measurement else None
    return _Answers(controller, namespace, smart, None, threshold, problems, tuple(short))


def _ask_threshold(device: str, machine: Machine) -> PowerThreshold | None:
    """The drive's power threshold; None where it does not tell."""
    name = sysfs.nvme_controller_of(PurePosixPath(device).name, machine)
    controller = f"/dev/{name}" if name else device
    field, _ = ask_feature(machine, _POWER_THRESHOLD, controller, _FEATURE_WITHIN_S)
    return None if field is None else nvme_pages.parse_power_threshold(field)


def _ask_smartctl(device: str, machine: Machine, answers: _Answers) -> _Answers:
    done = run_tool(machine, ["smartctl", "-j", "-x", device])
    report = parse_smartctl(done.stdout)
    if report is None:
        problem = failure("smartctl", "smartmontools", done, SMART.gives)
        # nothing is missing when nvme-cli has answered
        lost = () if answers.smart is not None else (problem,)
        return replace(answers, problems=(*answers.problems, *lost))
    if report.smart is None and answers.smart is not None:
        return answers
    smart = answers.smart or report.smart
    before = answers.problems if smart is None else ()
    return replace(answers, smart=smart, report=report, problems=(*before, *report.problems))


def _merge_identified_state(state: DriveState, answers: _Answers) -> DriveState:
    """The values of sysfs, completed by those of the tools."""
    controller = answers.controller or nvme_pages.Controller()
    namespace = answers.namespace or nvme_pages.Namespace()
    report = answers.report or SmartctlReport()
    return replace(
        state,
        # sysfs cuts the model of a SATA drive to 16 characters
        model=controller.model or report.model or state.model,
        serial=state.serial or controller.serial or report.serial,
        firmware=controller.firmware or report.firmware or state.firmware,
        size_bytes=state.size_bytes or report.size_bytes or controller.capacity_bytes,
        warning_celsius=controller.warning_celsius or report.warning_celsius,
        critical_celsius=controller.critical_celsius or report.critical_celsius,
        host_thermal_management=controller.host_thermal_management,
        min_thermal_celsius=controller.min_thermal_celsius,
        max_thermal_celsius=controller.max_thermal_celsius,
        power_states=controller.power_states or report.power_states,
        has_power_limit=controller.has_power_limit,
        has_power_measurement=controller.has_power_measurement,
        longest_measurement_minutes=controller.longest_measurement_minutes,
        power_threshold=answers.threshold,
        lba_formats=namespace.lba_formats or report.lba_formats,
        smart=answers.smart,
        problems=(
            *state.problems,
            *dict.fromkeys(filter(None, (*answers.short, *answers.problems))),
        ),
    )


def _with_limits_of_sensors(state: DriveState) -> DriveState:
    """hwmon shows WCTEMP and CCTEMP as the limits of the composite sensor, without root."""
    composite = [item for item in state.temperature_sensors if item.name in ("composite", "temp1")]
    if not composite:
        return state
    return replace(
        state,
        warning_celsius=state.warning_celsius or composite[0].max_celsius,
        critical_celsius=state.critical_celsius or composite[0].critical_celsius,
    )
