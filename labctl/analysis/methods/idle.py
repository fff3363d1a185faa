"""Idle power, and whether the meters can resolve wake-ups of the drive.

A drive that idles wakes now and then for milliseconds. A meter that integrates longer than a spike
shows only what the spike adds to that mean, and one with dead time between integrations may miss
it altogether.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labctl.analysis.estimate import Estimate
from labctl.analysis.methods.efficiency import BYTES_PER_GB
from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.stats.uncertainty import ratio
from labctl.record.header import ChannelInfo, Header
from labctl.record.phase import Pattern
from labctl.rounded import rounded

SPIKE_SIGMAS = 5.0
"""Standard deviations above the mean from which a reading is a spike."""

WAKE_UP_S = 0.01
"""How long a drive is awake for a housekeeping spike: some ms (the meters must be as fast)."""


@dataclass(frozen=True, slots=True)
class SpikeVisibility:
    """What a rail's current meter can resolve of a spike.

    ``shortest_s`` is its integration time: a shorter spike only raises that mean.
    ``seen_share`` is the fraction of the time in which it integrates.
    """

    rail: str
    shortest_s: float
    seen_share: float

    @property
    def measurable(self) -> bool:
        """Whether the height of a wake-up of some 10 ms can be read from it."""
        return 0 < self.shortest_s <= WAKE_UP_S and self.seen_share > 0.5

    def __str__(self) -> str:
        if not self.shortest_s:
            return f"{self.rail}: the meter's integration time is not known: spikes not measurable"
        what = "measurable" if self.measurable else "not measurable"
        return (
            f"{self.rail}: wake-up spikes are {what} (each reading is a mean over "
            f"{rounded(self.shortest_s * 1e3)} ms, {self.seen_share:.0%} of the time is looked at)"
        )


@dataclass(frozen=True, slots=True)
class IdleResult:
    """One idle phase. ``spike_watts``: its highest reading, where it is above the others; a
    lower bound of the spike's true height unless it is ``measurable``."""

    phase_index: int
    label: str
    watts: Estimate | None
    lowest_watts: float | None
    highest_watts: float | None
    spike_watts: float | None
    sight: tuple[SpikeVisibility, ...]
    gb_per_watt: Estimate | None = None
    """Capacity per watt, 10⁹ bytes (SNIA Emerald's metric for ready idle); None where the size of
    a drive is not known."""
    stated_watts: float | None = None
    """The idle power (IDLP) that the drive states for the power state that the plan chose; None
    where it states none."""


def spike_visibility(header: Header) -> tuple[SpikeVisibility, ...]:
    """What each rail's current meter can resolve of a spike."""
    channels = {channel.name: channel for channel in header.channels}
    return tuple(
        _visibility_of(rail.name, channels[rail.current])
        for rail in header.rails
        if rail.current in channels
    )


def _visibility_of(rail: str, channel: ChannelInfo) -> SpikeVisibility:
    share = min(channel.aperture_s / channel.interval_s, 1.0) if channel.interval_s else 0.0
    return SpikeVisibility(rail, channel.aperture_s, share)


def idle_results(header: Header, results: Sequence[PhaseResult]) -> tuple[IdleResult, ...]:
    """Every idle phase of a run."""
    sight = spike_visibility(header)
    drives = tuple(header.drives.values()) or (header.drive,)
    sizes = [drive.size_bytes for drive in drives if drive.size_bytes]
    known = len(sizes) == len(drives)
    table = () if header.drive_state is None else header.drive_state.power_states
    stated: dict[int | None, float | None] = {state.number: state.idle_watts for state in table}
    capacity = Estimate(sum(sizes) / BYTES_PER_GB, 0.0) if known else None
    found = []
    for item in results:
        if item.phase.pattern is not Pattern.IDLE:
            continue
        series = item.watts_series
        spike = None
        if series is not None and series.max - series.mean > SPIKE_SIGMAS * series.std:
            spike = series.max
        found.append(
            IdleResult(
                phase_index=item.phase.index,
                label=item.phase.label,
                watts=item.watts,
                lowest_watts=series.min if series else None,
                highest_watts=series.max if series else None,
                spike_watts=spike,
                sight=sight,
                gb_per_watt=ratio(capacity, item.watts),
                stated_watts=stated.get(item.phase.power_state),
            )
        )
    return tuple(found)
