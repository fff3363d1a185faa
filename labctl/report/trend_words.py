"""A trend in words: the same in the terminal, on the page and in the charts."""

from __future__ import annotations

from collections.abc import Iterator

from labctl.analysis.compare.series_table import WATCHED
from labctl.analysis.compare.trend_results import LevelChange, MovedPoint, OutOfLine, TrendSeries
from labctl.analysis.numbers import MINUS, decimals_of, significant, utc
from labctl.analysis.stats.series_candidates import CandidateKind

DAY = "%Y-%m-%d"


def title_of(series: TrendSeries) -> str:
    """Rig, plan and drive; which of several versions of the plan."""
    plan = series.plan + (f" at scale {series.scale:g}" if series.scale != 1 else "")
    if series.plan_versions > 1:
        plan += f" (version {series.plan_version} of {series.plan_versions})"
    drive = " ".join(filter(None, (series.drive_model, series.drive_serial)))
    return ", ".join(filter(None, (series.rig, plan, drive)))


def span_of(series: TrendSeries) -> str:
    """How many runs, and from when to when."""
    days = [utc(run.begin_ns, DAY) for run in series.runs]
    many = f"{len(days)} run{'s' if len(days) > 1 else ''}"
    return f"{many}, {days[0]} to {days[-1]}" if days[0] != days[-1] else f"{many}, {days[0]}"


def change_heading(change: LevelChange, series: TrendSeries) -> str:
    """What it was and when: ``step at run 16 of 30 (15 to 17), 2026-03-14``."""
    of = f"{change.run} of {len(series.runs)}"
    if change.kind is CandidateKind.DRIFT:
        text = f"drift from run 1 to {len(series.runs)}"
    elif change.kind is CandidateKind.STATE:
        text = f"in the runs with {change.state[0]} {change.state[1] or 'not known'}"
    else:
        text = f"step at run {of}"
        if change.first != change.last:
            text += f" (it may be {change.first} to {change.last})"
        text += f", {utc(change.begin_ns, DAY)}"
    if change.maybe:
        text += f"; or a {' or '.join(change.maybe)}"
    return text if change.real else f"{text}: no more than the meters allow"


def reasons_of(change: LevelChange) -> list[str]:
    """What was otherwise from there on, a line each."""
    lines = [str(one) for one in change.changed]
    if change.warmer_kelvin is not None:
        warmer = f"{abs(change.warmer_kelvin):.1f} K {_trend_warmth_word(change.warmer_kelvin)}"
        lines.append(f"the drive began {warmer}")
    if not lines and change.kind is CandidateKind.STEP:
        lines.append("nothing that the runs' headers hold changed there")
    return lines


def _trend_warmth_word(kelvin: float) -> str:
    return "warmer" if kelvin > 0 else "colder"


def percent(part: float, digits: int = 2) -> str:
    """A change as a person reads it: ``+3.1%``, ``−0.42%``."""
    return f"{'+' if part > 0 else ''}{significant(part * 100.0, digits)}%".replace("-", MINUS)


def trend_words_with_u(moved: MovedPoint) -> str:
    """``+4.0 ± 0.5%``, both to two digits of the doubt."""
    value, u = moved.change.value * 100.0, moved.change.u * 100.0
    places = max(decimals_of(u) or 0, 0)
    return f"{value:+.{places}f} ± {u:.{places}f}%".replace("-", MINUS)


def chance(p: float) -> str:
    """A chance as a person reads it."""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def by_quantity(change: LevelChange) -> Iterator[tuple[str, list[MovedPoint]]]:
    """The points of each quantity that moved, the largest change first."""
    for name in WATCHED:
        points = [one for one in change.moved if one.quantity == name]
        if points:
            yield name, points


def points_of(series: TrendSeries, quantity: str) -> int:
    """How many points of a quantity there are."""
    return sum(row.quantity == quantity for row in series.rows)


def outlier_text(one: OutOfLine, series: TrendSeries) -> str:
    """A run that is no part of the others, in a sentence."""
    first = one.points[0]
    text = (
        f"run {one.run} of {len(series.runs)} ({one.run_id}) is out of line at "
        f"{len(one.points)} of {len(series.rows)} values: {WATCHED[first.quantity].title} "
        f"{trend_words_with_u(first)} at {first.point}"
    )
    if one.changed:
        text += f"; {', '.join(map(str, one.changed))}"
    if one.throttled:
        text += "; the drive throttled in it"
    if one.newest:
        text += "; one run does not tell an outlier from a new level: run it again"
    return text
