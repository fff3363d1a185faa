"""Under what a run was made: everything in its header that a later run may have otherwise.

What changed between two runs is named where a level changes between them. It is no proof that it is
the reason.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from labctl.analysis.numbers import significant
from labctl.record.calibration_used import day_of
from labctl.record.drive_state import DriveState
from labctl.record.header import ChannelInfo, Header, RailInfo

FIRMWARE = "firmware"
RIG_FILE = "rig file"


@dataclass(frozen=True, slots=True)
class ConditionChange:
    """What was otherwise in the runs before; empty texts where it was not known."""

    name: str
    before: str
    after: str

    def __str__(self) -> str:
        if self.name == RIG_FILE:
            return "the rig file's text"
        return f"{self.name} {self.before or 'not known'} → {self.after or 'not known'}"


def conditions_of(header: Header) -> dict[str, str]:
    """Name and value of each; the firmware first. What is not known is left out."""
    found: dict[str, str] = {}
    states = {f" of {name}": state for name, state in header.drive_states.items()}
    if header.drive_state is not None:
        states = {"": header.drive_state, **states}
    for whose, state in states.items():
        found |= {f"{name}{whose}": value for name, value in _of_drive(state).items()}
    if header.drive_state is not None:
        found |= _of_host(header.drive_state)
    for name in ("fio", "labctl", "kernel", "host_kernel"):
        found.setdefault(name.replace("_", " of ", 1), header.versions.get(name, ""))
    found |= {f"meter {name}": who for name, who in meters_of(header).items()}
    wired = {name for rail in header.rails for name in (rail.voltage, rail.current)}
    for channel in header.channels:
        if channel.name in wired:
            found[f"settings of {channel.name}"] = _channel_conditions(channel)
    for rail in header.rails:
        found[f"rail {rail.name}"] = _rail_conditions(rail)
    zeros = header.calibration.zeros if header.calibration else ()
    for zero in zeros:
        found[f"zero of {zero.channel}"] = f"{significant(zero.value)} of {day_of(zero.taken)}"
    found[RIG_FILE] = hashlib.sha256(header.rig_text.encode("utf-8", "replace")).hexdigest()[:8]
    return {name: value for name, value in found.items() if value}


def changes_between(
    before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[ConditionChange, ...]:
    """What is otherwise. The text of the rig file only where nothing else says what it was."""
    names = [name for name in dict.fromkeys([*before, *after]) if name != RIG_FILE]
    found = [
        ConditionChange(name, before.get(name, ""), after.get(name, ""))
        for name in (*names, RIG_FILE)
        if before.get(name) != after.get(name)
    ]
    return tuple(one for one in found if one.name != RIG_FILE or len(found) == 1)


def meters_of(header: Header) -> dict[str, str]:
    """The meters of the rails and what each said of itself; empty where it said nothing."""
    channels = [name for rail in header.rails for name in (rail.voltage, rail.current)]
    names = {channel.partition(".")[0] for channel in channels}
    return {name: header.identities.get(name, "") for name in sorted(names)}


def _of_drive(state: DriveState) -> dict[str, str]:
    link = state.link
    in_use = [one for one in state.lba_formats if one.in_use]
    return {
        FIRMWARE: state.firmware,
        "slot": state.slot or state.pci_address,
        "link": f"{link.speed_gt_s:g} GT/s x{link.width}" if link and link.speed_gt_s else "",
        "block format": " ".join(f"{one.data_bytes}+{one.metadata_bytes}" for one in in_use),
    }


def _of_host(state: DriveState) -> dict[str, str]:
    host = state.host
    return {
        "host": host.name,
        "processor": host.cpu_model,
        "governor": host.governor,
        "kernel": host.kernel,
        "fio": host.fio,
        "engine": host.engine,
    }


def _channel_conditions(channel: ChannelInfo) -> str:
    ranged = "" if channel.range is None else f"range {channel.range:g} {channel.unit}, "
    return f"{ranged}{channel.interval_s:g} s, aperture {channel.aperture_s:g} s"


def _rail_conditions(rail: RailInfo) -> str:
    """What decides how its watts follow from the readings."""
    parts = [f"{rail.voltage} × {rail.current}", f"volts at the {rail.volts_at}"]
    if rail.shunt_ohm is not None:
        parts.append(f"shunt {rail.shunt_ohm:g} Ω")
    if rail.burden_ohm:
        parts.append(f"burden {rail.burden_ohm:g} Ω")
    return ", ".join(parts)
