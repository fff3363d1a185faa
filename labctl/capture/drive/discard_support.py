"""What the kernel and the drive promise of discarded blocks (TRIM, deallocate, unmap).

Kernel: Documentation/ABI/stable/sysfs-block, ``queue/discard_*``. NVMe base specification, Identify
Namespace, DLFEAT bits 2:0. ATA Command Set: IDENTIFY DEVICE words 69 (bits 14 and 5) and 169, as
smartctl and hdparm print them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from labctl.capture.host.machine import Machine, run_tool
from labctl.capture.identity.block_devices import BlockDevices
from labctl.capture.identity.nvme_cli import NAMESPACE, ask_nvme, nvme_failure
from labctl.capture.identity.nvme_pages import parse_id_ns
from labctl.capture.identity.tool_output import boolean, integer, json_object

_READ_BEHAVIOUR = 0b111
"""DLFEAT bits 2:0: 1 is zeros, 2 is FFh, 0 is not reported."""


class Promise(StrEnum):
    """What a read of a discarded block gives, as reported by the drive."""

    ZEROS = "zeros"
    ONES = "FFh"
    DETERMINISTIC = "always the same, which may be the old data"
    NOTHING = "nothing"
    UNKNOWN = "not known"


@dataclass(frozen=True, slots=True)
class Discard:
    """``max_bytes`` is 0 where the kernel has no way to discard. ``source``: of the promise; of one
    that is not known, why, as far as that was told."""

    max_bytes: int
    granularity_bytes: int
    promise: Promise
    source: str = ""


def read_discard(name: str, blocks: BlockDevices, machine: Machine) -> Discard:
    """What holds for the block device ``name``; the promise is that of the one drive below it."""
    folder = f"/sys/class/block/{blocks.disk_of(name)}/queue"
    paths = [f"{folder}/discard_max_bytes", f"{folder}/discard_granularity"]
    texts = machine.read_texts(paths)
    most, least = (integer(texts.get(path, "").strip()) or 0 for path in paths)
    below = {blocks.disk_of(one) for one in blocks.layers_of(name)}
    drives = sorted(one for one in below if blocks.kind_of(one) in ("nvme", "sata", "scsi"))
    if len(drives) != 1:
        return Discard(most, least, Promise.UNKNOWN)
    ask = _of_nvme if blocks.kind_of(drives[0]) == "nvme" else _of_ata
    promise, source = ask(f"/dev/{drives[0]}", machine)
    return Discard(most, least, promise, source)


def _of_nvme(device: str, machine: Machine) -> tuple[Promise, str]:
    done = ask_nvme(machine, NAMESPACE, device)
    namespace = parse_id_ns(done.raw)
    if namespace is None:
        return Promise.UNKNOWN, nvme_failure(done, NAMESPACE)
    features = namespace.deallocate_features
    kinds = {0: Promise.NOTHING, 1: Promise.ZEROS, 2: Promise.ONES}
    return kinds.get(features & _READ_BEHAVIOUR, Promise.UNKNOWN), f"DLFEAT {features:#x}"


def _of_ata(device: str, machine: Machine) -> tuple[Promise, str]:
    report = json_object(run_tool(machine, ["smartctl", "-j", "-i", device]).stdout) or {}
    trim = report.get("trim")  # smartmontools 7.3 on
    if isinstance(trim, dict) and boolean(trim.get("supported")) is not None:
        promise = _ata_promise(
            boolean(trim.get("supported")) is True,
            boolean(trim.get("deterministic")) is True,
            boolean(trim.get("zeroed")) is True,
        )
        return promise, "RZAT" if promise is Promise.ZEROS else "IDENTIFY DEVICE"
    printed = run_tool(machine, ["hdparm", "-I", device]).stdout.lower()
    if "trim" not in printed:
        return Promise.UNKNOWN, ""
    zeros = "deterministic read zeros after trim" in printed
    same = "deterministic read data after trim" in printed
    promise = _ata_promise("trim supported" in printed, zeros or same, zeros)
    return promise, "RZAT" if promise is Promise.ZEROS else "IDENTIFY DEVICE"


def _ata_promise(supported: bool, deterministic: bool, zeroed: bool) -> Promise:
    """RZAT needs DRAT (word 69: bit 5 counts only with bit 14)."""
    if not supported or not deterministic:
        return Promise.NOTHING
    return Promise.ZEROS if zeroed else Promise.DETERMINISTIC
