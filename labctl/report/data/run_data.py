"""A run in Python: arrays of readings and tables of phases, with names that say their units.

``labctl.open_run(path)`` gives a ``RunData``. Everything is read when it is asked for and
nothing is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path

import numpy as np

from labctl.analysis.methods.method_results import MethodResults, methods_of
from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.power.rail_power import rail_readings
from labctl.analysis.readings.channel_series import (
    ChannelSeries,
    Floats,
    Ints,
    RailSeries,
    channel_series,
    host_channel_series,
    rail_series,
)
from labctl.analysis.readings.live_iops import live_iops
from labctl.analysis.readings.phase_spans import phase_spans
from labctl.analysis.run.drives import runs_of_drives
from labctl.analysis.run.summary import summarise
from labctl.analysis.run_summary import RunSummary
from labctl.errors import JournalError
from labctl.record.header import Header, RailInfo
from labctl.record.layout import CHANNELS_DIR
from labctl.record.reader import RunRecord
from labctl.report.data.result_files import Field, phase_rows

Table = dict[str, list[Field]]
"""Columns by name, all of one length: what pandas, polars and pyarrow take as it is."""


@dataclass(frozen=True, slots=True)
class Readings:
    """Readings of a channel: ``t_ns`` on the run's timebase (ns since 1970), ``values`` in
    ``unit``."""

    name: str
    unit: str
    t_ns: Ints
    values: Floats


@dataclass(frozen=True, slots=True)
class RailReadings:
    """A rail at the moments of its current readings, the voltage interpolated onto them.

    ``volts`` are at the drive, without what drops before it; ``amps`` are corrected for the
    temperature of a shunt. ``seconds`` is the time that each reading stands for: the mean power is
    the mean of ``watts`` weighted by it.
    """

    name: str
    t_ns: Ints
    volts: Floats
    amps: Floats
    seconds: Floats
    mean_watts: float | None
    """Mean power over time: of a phase what its summary has. None where there are too few readings,
    or readings stand for too little of the time."""

    @property
    def watts(self) -> Floats:
        """Volts × amps at each moment."""
        return self.volts * self.amps


class RunData:
    """One run directory. Raises JournalError when it is none."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.record = RunRecord(Path(path))

    @property
    def path(self) -> Path:
        """The run directory."""
        return self.record.path

    @property
    def header(self) -> Header:
        """Rig, plan, drive, channels, versions: what was known before the first phase."""
        return self.record.header

    @cached_property
    def summary(self) -> RunSummary:
        """The result of the analysis; computed at first use."""
        return summarise(self.record)

    @property
    def phases(self) -> tuple[PhaseResult, ...]:
        """Every phase with its results."""
        return self.summary.phases

    def methods(self) -> MethodResults:
        """Consistency, knees, power model and the other analyses of ``labctl analyse``."""
        return methods_of(self.record, self.summary)

    @cached_property
    def drives(self) -> dict[str, RunData]:
        """The run as each of several drives saw it, by its name; empty where there is one drive.

        A drive's readings are those of its own rails and sensors, and what fio did on it.
        """
        return {
            name: _RunDataOfDrive(one, self) for name, one in runs_of_drives(self.record).items()
        }

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of all channels that have readings, fio's own among them."""
        folder = self.path / CHANNELS_DIR
        names = (file.name for file in folder.iterdir()) if folder.is_dir() else ()
        return tuple(sorted(name for name in names if not name.endswith(".clock")))

    def channel(self, name: str, phase: PhaseResult | None = None) -> Readings:
        """Readings of a channel, of the whole run or of one phase.

        Raises JournalError when there is no such channel, or its clock cannot be mapped.
        """
        series = self._series(name)
        begin_ns, end_ns = _run_data_span(phase)
        t_ns, values = series.between(begin_ns, end_ns)
        return Readings(name, series.info.unit, t_ns, values)

    def _series(self, name: str) -> ChannelSeries:
        infos = {info.name: info for info in self.header.channels}
        try:
            if name in infos:
                return channel_series(self.record, infos[name])
        except ValueError as error:
            raise JournalError(f"{name}: {error}") from error
        if name not in self.channels:
            raise JournalError(f"no channel {name!r}; there are: {', '.join(self.channels)}")
        return host_channel_series(self.record, name)

    def rail(self, name: str, phase: PhaseResult | None = None) -> RailReadings:
        """Volts, amps and watts of a rail, of the whole run or of one phase.

        Of a phase they are the readings that its watts in the summary are made of, by the same
        code. Moments at which the voltage is not known are left out: it is not interpolated over
        gaps. Raises JournalError when there is no such rail.
        """
        infos = {info.name: info for info in self.header.rails}
        if name not in infos:
            raise JournalError(f"no rail {name!r}; there are: {', '.join(infos)}")
        rail = self._rail(infos[name])
        if phase is not None:
            return _run_data_readings(
                rail, phase.begin_ns, phase.end_ns, self._boundary_u_ns(phase)
            )
        if not len(rail.amps):
            return _run_data_readings(rail, 0, 1, 0)
        ends = rail.amps.clock.to_host_ns(np.array([rail.amps.stamps[0], rail.amps.stamps[-1]]))
        aperture_ns = round(rail.amps.info.aperture_s * 1e9)
        around = aperture_ns + round(rail.amps.doubt_ns(*ends.tolist()))
        whole = _run_data_readings(rail, int(ends[0]) - around, int(ends[1]) + around, 0)
        return self._as_in_phases(rail, whole)

    def _as_in_phases(self, rail: RailSeries, whole: RailReadings) -> RailReadings:
        """The readings of the whole run, each with the shunt of the phase that it lies in."""
        info = rail.info
        if not info.shunt_ohm or not info.shunt_ppm_per_kelvin:
            return whole
        amps = whole.amps.copy()
        for item in self.phases:
            own = _run_data_readings(rail, item.begin_ns, item.end_ns, self._boundary_u_ns(item))
            inside = (whole.t_ns >= item.begin_ns) & (whole.t_ns <= item.end_ns)
            places = np.flatnonzero(inside)
            first = np.searchsorted(whole.t_ns[places], own.t_ns[:1])
            if len(first) and amps[places[first[0]]]:
                amps[places] *= own.amps[0] / amps[places[first[0]]]
        return replace(whole, amps=amps)

    def _rail(self, info: RailInfo) -> RailSeries:
        names = [info.voltage, info.current]
        if info.shunt_temperature in {one.name for one in self.header.channels}:
            names.append(str(info.shunt_temperature))
        series = rail_series(info, {one: self._series(one) for one in names})
        assert series is not None
        return series

    def _boundary_u_ns(self, phase: PhaseResult) -> int:
        return next(
            (
                span.boundary_u_ns
                for span in phase_spans(self.record, phase.end_ns)
                if span.phase.index == phase.phase.index
            ),
            0,
        )

    def live_iops(self, phase: PhaseResult) -> tuple[Floats, Floats]:
        """Seconds since the phase began, and IOPS, as fio reported them each half second."""
        return live_iops(self.record, phase)

    def table(self, *, measured_only: bool = False) -> Table:
        """One row a phase, with the columns of ``phases.csv``; ``None`` where not measured."""
        rows = phase_rows(self.summary)
        if measured_only:
            rows = [row for row in rows if row["role"] == "measure"]
        return columns_of(rows)


class _RunDataOfDrive(RunData):
    """A run as one of its drives saw it."""

    def __init__(self, record: RunRecord, whole: RunData) -> None:
        self.record = record
        self._whole = whole

    @cached_property
    def summary(self) -> RunSummary:
        """The result of the analysis for this drive."""
        return self._whole.summary.drives[self.record.drive_name]

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of all channels of this drive."""
        return self.record.channel_names


def _run_data_readings(
    rail: RailSeries, begin_ns: int, end_ns: int, boundary_u_ns: int
) -> RailReadings:
    """The readings of a rail that its watts between two moments are made of."""
    part, stands_for, power = rail_readings(rail, begin_ns, end_ns, boundary_u_ns)
    return RailReadings(
        name=rail.info.name,
        t_ns=begin_ns + np.rint(part.t).astype(np.int64),
        volts=part.volts,
        amps=part.amps,
        seconds=stands_for * 1e-9,
        mean_watts=None if power is None else power.watts.mean,
    )


_BEGIN_NS, _END_NS = 0, 1 << 62


def _run_data_span(phase: PhaseResult | None) -> tuple[int, int]:
    return (_BEGIN_NS, _END_NS) if phase is None else (phase.begin_ns, phase.end_ns)


def columns_of(rows: Sequence[dict[str, Field]]) -> Table:
    """Rows as columns; a value that a row has not is None."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def open_run(path: str | PathLike[str]) -> RunData:
    """A run directory for reading; ``~`` is the home. Raises JournalError when it is none."""
    return RunData(Path(path).expanduser())
