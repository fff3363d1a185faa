"""The header of a run: everything that is known before its first phase."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from labctl.capture.host.load import SAMPLE_EVERY_S
from labctl.capture.identity.sharing import what_they_share
from labctl.capture.run.run_rules import RunRules
from labctl.config.rig import Rig
from labctl.config.rig_file import FIO_INSTRUMENT
from labctl.fio.documents import DIRECTIONS
from labctl.record.calibration_used import UsedCalibration
from labctl.record.drive_state import DriveState
from labctl.record.header import ChannelInfo, DriveInfo, Header
from labctl.record.layout import HOST_STOLEN, HOST_WAITING
from labctl.record.phase import Phase
from labctl.record.timebase import Timebase

FIO_CHANNELS = (
    ("iops", "iops", "1/s"),
    ("bytes_per_s", "bytes_per_s", "B/s"),
    ("latency_mean_us", "latency", "µs"),
)
"""What fio's statuses give in each direction: channel, quantity, unit."""


def _fio_channels(phases: Sequence[Phase], drives: Iterable[str]) -> tuple[ChannelInfo, ...]:
    """Those of all drives together, and of each of several ``drives`` alone."""
    return tuple(
        ChannelInfo(
            name=f"{FIO_INSTRUMENT}.{prefix}{side}.{name}",
            quantity=quantity,
            unit=unit,
            interval_s=0.5,
        )
        for prefix in ("", *(f"{drive}." for drive in drives))
        for side in DIRECTIONS
        if any(side in phase.directions for phase in phases)
        for name, quantity, unit in FIO_CHANNELS
    )


_HOST_CHANNELS = tuple(
    ChannelInfo(name=name, quantity="share", unit="1", interval_s=SAMPLE_EVERY_S)
    for name in (HOST_WAITING, HOST_STOLEN)
)


def _drive_info(info: DriveInfo, state: DriveState) -> DriveInfo:
    """The drive as the rig names it; what the rig leaves out is as the drive reports it."""
    return replace(
        info,
        model=info.model or state.model,
        serial=info.serial or state.serial,
        size_bytes=info.size_bytes or state.size_bytes,
        warning_celsius=_first_known_for_header(info.warning_celsius, state.warning_celsius),
        critical_celsius=_first_known_for_header(info.critical_celsius, state.critical_celsius),
    )


def _first_known_for_header(value: float | None, otherwise: float | None) -> float | None:
    return otherwise if value is None else value


def make_header(
    rig: Rig,
    plan: RunRules,
    plan_text: str,
    phases: tuple[Phase, ...],
    timebase: Timebase,
    versions: Mapping[str, str],
    identities: Mapping[str, str],
    drive_states: Mapping[str, DriveState],
    calibration: UsedCalibration | None = None,
    job: str = "",
) -> Header:
    """The header of a run that begins now. ``drive_states`` by the drive's name in the rig;
    ``job``: the scheduler's, that it is of."""
    infos = {
        name: _drive_info(info, drive_states[name]) for name, info in rig.drive_infos().items()
    }
    several = bool(rig.file.drives)
    begun = np.datetime64(timebase.now_ns(), "ns").astype("datetime64[s]").item()
    return Header(
        run_id=f"{begun.strftime('%Y%m%dT%H%M%SZ')}_{rig.name}_{plan.name}",
        rig_name=rig.name,
        plan_name=plan.name,
        rig_text=rig.text,
        plan_text=plan_text,
        phases=phases,
        channels=(
            *rig.channel_infos,
            *_fio_channels(phases, rig.file.drives),
            *_HOST_CHANNELS,
        ),
        rails=rig.rail_infos(),
        temperatures=rig.temperatures,
        drive=DriveInfo.together([*infos.values()]) if several else infos[""],
        anchor=timebase.anchor,
        versions=dict(versions),
        identities=dict(identities),
        drive_state=what_they_share(drive_states) if several else drive_states[""],
        drives=infos if several else {},
        drive_states=dict(drive_states) if several else {},
        temperature_drives=rig.temperature_drives(),
        temperature_of=rig.temperature_of(),
        host_power=rig.host_power_infos(),
        calibration=calibration,
        job=job,
    )
