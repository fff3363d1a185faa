"""The power envelope of a phase: the largest mean over windows of each length, with its U.

Only windows that the meters can carry: a length needs enough readings in it, and a window is no
window where readings are missing. What cannot be said is left out with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

from labctl.analysis.estimate import Component, Estimate
from labctl.analysis.phase_result import WindowMaximum, length_text
from labctl.analysis.power.blind_spots import FILLED
from labctl.analysis.power.mains_ripple import MAINS_RIPPLE, left_of_ripple
from labctl.analysis.power.reading_energy import Energy, EnergyOfAll, EnergyOfReadings
from labctl.analysis.power.sliding_maxima import WINDOWS_S, Maximum, Searched, WindowSearch
from labctl.analysis.readings.channel_series import ChannelSeries, Floats, RailSeries
from labctl.analysis.stats.uncertainty import (
    expanded_u,
    limit_component,
    scatter_of_phase,
)
from labctl.rounded import rounded

READINGS_THAT_FILL = 10
READINGS_THAT_SAMPLE = 100
"""Readings that a window needs where they integrate (nearly) all of the time, and where they leave
most of it out: then a window is a sample, and what lies between its readings is judged by how they
differ. The OCP test plan samples its windows 25 (100 µs) and 500 times (1 s)."""

NEARLY = 0.95
"""A meter that is some per cent slower than it says still counts as one that is not."""

MISSED = 1.0 - 0.9545
"""Chance that U misses, as of every U."""

GROWS = {
    "current floor": 0,
    "current zero": 0,
    "current resolution": 0,
    "burden": 2,
    "shunt self-heating": 2,
    "V and I inside one aperture": 2,
}
"""The power of (watts of the window / watts of the phase) by which a line of the phase's budget
grows; 1 for the others of them. Errors in amperes stay as they are."""

OF_THE_PHASE = frozenset({"scatter", "alignment", "not covered", "interpolation", "mains ripple"})
"""Lines that a window has of its own, or not at all."""


@dataclass(frozen=True, slots=True)
class Windows:
    """What a search through a phase found. ``why``: of lengths that were not searched, by seconds;
    times are since ``begin_ns``."""

    begin_ns: int
    searched: Searched
    why: dict[float, str]

    def scaled(self, factor: float) -> Windows:
        """The same of watts that are multiplied by a ``factor`` > 0."""
        return replace(self, searched=self.searched.scaled(factor))


@dataclass(frozen=True, slots=True)
class WindowReadings:
    """What is known of the readings of one rail or several, W (standard deviations).

    ``known``: the share that was not sampled; ``noise_watts``: of one reading, as far as the
    meters' own noise may have it; ``volts_watts``: what readings of V leave unknown of their mean
    over the phase, ``phase_s`` long; ``common_watts``: product of how far V and I go from one
    reading to the next. Both are 0 where V and I are read together.
    """

    known: float
    noise_watts: float
    volts_watts: float
    common_watts: float
    phase_s: float

    @classmethod
    def together(cls, rails: Sequence[WindowReadings]) -> WindowReadings:
        """Of the sum of rails."""
        return cls(
            min(rail.known for rail in rails),
            math.hypot(*(rail.noise_watts for rail in rails)),
            math.hypot(*(rail.volts_watts for rail in rails)),
            sum(rail.common_watts for rail in rails),
            rails[0].phase_s,
        )


class EnvelopeSearch:
    """Searches the rails of a phase, and their sum, while their watts come part by part."""

    def __init__(
        self,
        rails: Sequence[RailSeries],
        intervals_ns: Sequence[float],
        edges_ns: Sequence[float],
        expected: Sequence[int],
        span: tuple[int, int],
        whole: bool,
    ) -> None:
        """``intervals_ns``, ``expected``: of each rail; ``edges_ns``: how far from an end of the
        phase its first and its last reading are at most, if none is missing; ``span``: begin and
        end of the phase, ns; ``whole``: whether these are all rails."""
        self._begin_ns = span[0]
        length = float(span[1] - span[0])
        self._readings = [
            EnergyOfReadings(length, interval, rail.amps.info.dither, edge)
            for rail, interval, edge in zip(rails, intervals_ns, edges_ns, strict=True)
        ]
        self._why = [
            _not_searched(rail.amps, interval, length)
            for rail, interval in zip(rails, intervals_ns, strict=True)
        ]
        self._searches = [
            WindowSearch(_envelope_searched_ns(why), interval, count)
            for why, interval, count in zip(self._why, intervals_ns, expected, strict=True)
        ]
        self._all: tuple[EnergyOfAll, WindowSearch] | None = None
        self._why_all = {key: text for why in reversed(self._why) for key, text in why.items()}
        if whole and len(rails) > 1:
            grid = max(range(len(rails)), key=lambda number: expected[number])
            search = WindowSearch(
                _envelope_searched_ns(self._why_all), intervals_ns[grid], expected[grid]
            )
            self._all = EnergyOfAll(grid), search

    def add(self, parts: Sequence[tuple[Floats, Floats]]) -> None:
        """Take the next part of each rail: times since the phase began, ns, and watts."""
        self._add([one.add(*part) for one, part in zip(self._readings, parts, strict=True)])

    def _add(self, parts: Sequence[Energy | None]) -> None:
        for search, part in zip(self._searches, parts, strict=True):
            search.add(part)
        if self._all is not None:
            self._all[1].add(self._all[0].add(parts))

    def result(self) -> tuple[list[Windows], Windows | None]:
        """What was found of each rail and of all of them; None for all where a rail is missing."""
        self._add([one.ended() for one in self._readings])
        rails = [
            Windows(self._begin_ns, search.result(), why)
            for search, why in zip(self._searches, self._why, strict=True)
        ]
        if self._all is None:
            return rails, rails[0] if len(rails) == 1 else None
        return rails, Windows(self._begin_ns, self._all[1].result(), self._why_all)


def _envelope_searched_ns(why: dict[float, str]) -> list[float]:
    return [_envelope_window_ns(window_s) for window_s in WINDOWS_S if window_s not in why]


def _envelope_window_ns(window_s: float) -> float:
    return float(round(window_s * 1e9))


def _not_searched(amps: ChannelSeries, interval_ns: float, length_ns: float) -> dict[float, str]:
    """Why windows are too short for a meter, or too long for a phase."""
    found = {}
    for window_s in WINDOWS_S:
        slow = too_slow_for_envelope(window_s, interval_ns * 1e-9, amps.info.aperture_s)
        if slow:
            found[window_s] = f"{amps.info.name}: {slow}"
        elif _envelope_window_ns(window_s) > length_ns:
            found[window_s] = f"the phase lasts {rounded(length_ns * 1e-9)} s"
    return found


def too_slow_for_envelope(window_s: float, interval_s: float, aperture_s: float) -> str:
    """Why a meter is too slow for windows of this length; empty where it is not."""
    filled = aperture_s >= FILLED * interval_s
    needed = READINGS_THAT_FILL if filled else READINGS_THAT_SAMPLE
    slowest = max(interval_s, aperture_s)
    if window_s >= NEARLY * needed * slowest:
        return ""
    lasts = f"that lasts {length_text(aperture_s)}" if aperture_s else "of unknown length"
    share = "" if filled else f" {lasts}"
    return (
        f"a reading each {length_text(slowest)}{share} is too slow: "
        f"at least {needed} a window are needed"
    )


def envelope(
    windows: Windows | None,
    budgets: Sequence[Sequence[Component]],
    mean_watts: float,
    readings: WindowReadings,
    rails: Sequence[RailSeries],
) -> tuple[WindowMaximum, ...]:
    """The largest mean over windows of each length, with U. ``budgets``: of the phase's mean,
    one a rail."""
    if windows is None:
        return ()
    found = []
    for window_s in WINDOWS_S:
        window = _envelope_window_ns(window_s)
        searched = windows.searched
        best = searched.found.get(window)
        why = windows.why.get(window_s, "")
        if best is None:
            why = why or "readings are missing in every one of them"
            blocked = searched.blocked_s.get(window, 0.0)
            found.append(WindowMaximum(window_s, None, None, why, blocked))
            continue
        tried_s = searched.tried_s[window]
        lines = _envelope_budget_lines(best, tried_s, budgets, mean_watts, readings, rails)
        found.append(
            WindowMaximum(
                window_s,
                Estimate(best.watts, expanded_u(lines)),
                windows.begin_ns + round(best.begin_ns),
                "",
                searched.blocked_s[window],
            )
        )
    return tuple(found)


def _envelope_budget_lines(
    best: Maximum,
    tried_s: float,
    budgets: Sequence[Sequence[Component]],
    mean_watts: float,
    readings: WindowReadings,
    rails: Sequence[RailSeries],
) -> list[Component]:
    window_s = best.window_ns * 1e-9
    larger = abs(best.watts / mean_watts) if mean_watts else 1.0
    lines = [
        replace(line, watts=line.watts * larger ** GROWS.get(line.name, 1))
        for budget in budgets
        for line in budget
        if line.name not in OF_THE_PHASE
    ]
    scatter = scatter_of_phase(
        best.between, best.worth, max(round(best.worth), 2), readings.known, readings.noise_watts
    )
    lines.append(
        Component("scatter", "A", scatter.u * _of_many(tried_s / window_s) / 2.0, "", scatter.dof)
    )
    between = readings.volts_watts * math.sqrt(max(readings.phase_s / window_s, 1.0))
    between = math.hypot(between, readings.common_watts / math.sqrt(3.0)) * larger
    lines.append(Component("interpolation", "B", between, "", distribution="rectangular"))
    lines.append(limit_component("ends of the window", best.edges, ""))
    lines.append(limit_component("not covered", best.lost * best.reach, ""))
    lines.append(limit_component("windows between", best.coarse, ""))
    ripple = max(
        left_of_ripple(channel.info, window_s)
        for rail in rails
        for channel in (rail.volts, rail.amps)
    )
    lines.append(
        Component(
            "mains ripple",
            "B",
            MAINS_RIPPLE * abs(best.watts) * ripple / math.sqrt(2.0),
            "",
            distribution="U-shaped",
        )
    )
    return lines


def _of_many(windows: float) -> float:
    """The factor on u that covers all of so many independent windows at once (Bonferroni)."""
    return NormalDist().inv_cdf(1.0 - MISSED / (2.0 * max(windows, 1.0)))
