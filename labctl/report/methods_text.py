"""What the methods say of a run, as text of at most 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from labctl.analysis.frontier import Answer
from labctl.analysis.methods import MethodResults
from labctl.analysis.power_model import RailModel
from labctl.analysis.results import Estimate
from labctl.analysis.tracking import SteadyReport
from labctl.report.numbers import (
    NOTHING,
    prefixed,
    prefixed_with_uncertainty,
    scaled,
    significant,
    with_uncertainty,
)

WIDTH = 80

_TERMS = {
    "idle": ("idle", 1.0, "W"),
    "read": ("energy per read", 1e6, "µJ"),
    "write": ("energy per write", 1e6, "µJ"),
    "byte": ("energy per byte", 1e9, "nJ"),
}


def methods_text(found: MethodResults) -> str:
    """Every analysis that has something to say, under a heading each."""
    sections = (
        ("Headline averages", _averages(found)),
        ("Consistency (IOPS of each second, last part of the phase)", _consistency(found)),
        ("Steady state", _steady(found.steady)),
        ("Quality of service", _qos(found)),
        ("Efficiency knee", _knees(found)),
        ("Energy above idle", _marginals(found)),
        ("Power model", _models(found.models)),
        ("Most IOPS under the limit of watts", _answers(found.under_watts)),
        ("Least watts for the IOPS", _answers(found.for_iops)),
        ("Power states", _power_states(found)),
        ("Conditioned against fresh", _conditioned(found)),
        ("Idle", _idle(found)),
    )
    lines: list[str] = []
    for title, body in sections:
        inside = [part for line in body for part in _folded(line)]
        if inside:
            lines += ["", title, *inside]
    return "\n".join([found.run_id, *lines]) + "\n"


def _folded(line: str) -> list[str]:
    return textwrap.wrap(
        line, WIDTH, initial_indent="  ", subsequent_indent="      ", break_long_words=False
    )


def _averages(found: MethodResults) -> Iterator[str]:
    for one in found.averages:
        watts = f", {with_uncertainty(one.watts)} W" if one.watts else ""
        per = (
            f", {prefixed_with_uncertainty(one.iops_per_watt)} IOPS/W" if one.iops_per_watt else ""
        )
        yield f"{one.name}: {prefixed(one.iops)} IOPS{watts}{per}"


def _consistency(found: MethodResults) -> Iterator[str]:
    for item in found.consistencies:
        one = item.consistency
        spread = NOTHING if one.spread is None else f"{one.spread:.1%}"
        text = (
            f"{item.label}: mean {prefixed(one.mean)}, σ {prefixed(one.std)}, "
            f"σ/mean {one.relative_std:.1%}, min {prefixed(one.min)}, max {prefixed(one.max)}, "
            f"(max − min)/min {spread} over {one.seconds} s"
        )
        if one.dips is not None:
            every = ""
            if one.dips.period_s is not None:
                kind = "periodic, every" if one.dips.periodic else "about every"
                every = f", {kind} {significant(one.dips.period_s, 3)} s"
            text += (
                f"; {one.dips.count} dip{'s' if one.dips.count > 1 else ''} of "
                f"{significant(one.dips.duration_s, 3)} s, {one.dips.depth:.0%} deep{every}"
            )
        yield text


def _steady(report: SteadyReport | None) -> Iterator[str]:
    if report is None:
        return
    if report.reached_at is not None:
        yield f"reached: rounds {report.windows[0].rounds[0] + 1} to {report.reached_at + 1}"
    else:
        yield "not reached"
    for window in report.windows:
        verdict = window.verdict
        unit = "°C" if window.unit == "°C" else ""
        spread, line = (
            (f"{verdict.range:.2g} {unit}", f"{verdict.line:.2g} {unit}")
            if unit
            else (f"{verdict.range:.1%}", f"{verdict.line:.1%}")
        )
        values = ", ".join(significant(value, 4) for value in window.values)
        yield (
            f"{window.name}: {'steady' if verdict.steady else 'not steady'}, range {spread}, "
            f"line {line}, rounds {values}"
        )


def _qos(found: MethodResults) -> Iterator[str]:
    yield from (str(one) for one in found.verdicts)
    for item in found.slow_shares:
        parts = [
            f"{_percent(one.least_pct, one.most_pct)} over {one.over_ms} ms"
            for one in item.shares
            if one.most_pct
        ]
        if parts:
            yield f"{item.label}: {', '.join(parts)}"


def _percent(least: float, most: float) -> str:
    return f"{significant(most, 3)} %" if least == most else f"at most {significant(most, 2)} %"


def _knees(found: MethodResults) -> Iterator[str]:
    for one in found.knees:
        text = (
            f"{one.workload}: QD {one.queue_depth}, "
            f"{prefixed_with_uncertainty(one.iops_per_watt)} IOPS/W"
        )
        if not one.certain:
            others = ", ".join(str(depth) for depth in one.as_good if depth != one.queue_depth)
            text += f"; QD {others} cannot be told from it"
        yield text


def _marginals(found: MethodResults) -> Iterator[str]:
    for one in found.marginals:
        per_io = with_uncertainty(scaled(one.joules_per_io, 1e6))
        yield f"{one.label}: {per_io} µJ an I/O, {with_uncertainty(one.joules_per_gb)} J a GB"


def _models(models: Iterable[RailModel]) -> Iterator[str]:
    for model in models:
        terms = []
        for term in model.terms:
            name, factor, unit = _TERMS[term.name]
            terms.append(f"{name} {with_uncertainty(scaled(term.estimate, factor))} {unit}")
        worst = max(model.residuals, key=lambda one: abs(one.residual_watts))
        yield (
            f"{model.rail}: {', '.join(terms)}; largest residual "
            f"{significant(worst.residual_watts, 2)} W ({worst.label})"
        )
        for left_out, holders in model.inseparable.items():
            yield (
                f"{model.rail}: energy per {left_out} cannot be told from "
                f"{', '.join(holders)}: it is part of {'it' if len(holders) == 1 else 'them'}"
            )
        if not model.idle_known:
            yield f"{model.rail}: no idle phase: the idle watts are extrapolated"


def _answers(answers: Iterable[Answer]) -> Iterator[str]:
    for one in answers:
        model = "no answer"
        if one.iops is not None and one.watts is not None:
            model = f"{_iops(one.iops)} IOPS, {with_uncertainty(one.watts)} W"
        best = f"; measured: {one.measured.label}" if one.measured else ""
        yield f"{one.workload}: {model} ({one.why}){best}"


def _iops(iops: Estimate) -> str:
    return prefixed_with_uncertainty(iops) if iops.u else prefixed(iops.value)


def _power_states(found: MethodResults) -> Iterator[str]:
    for one in found.power_states:
        yield (
            f"{one.workload} in PS{one.power_state}: {prefixed(one.iops)} IOPS "
            f"({one.iops_part:.0%}), {with_uncertainty(one.watts)} W, "
            f"{prefixed_with_uncertainty(one.iops_per_watt)} IOPS/W"
        )


def _conditioned(found: MethodResults) -> Iterator[str]:
    for one in found.conditioned:
        yield (
            f"{one.workload}: {prefixed(one.fresh_iops)} fresh, "
            f"{prefixed(one.conditioned_iops)} conditioned ({one.iops_change:+.1%}); watts × "
            f"{with_uncertainty(one.watts_ratio)}"
        )


def _idle(found: MethodResults) -> Iterator[str]:
    for one in found.idle:
        spike = ""
        if one.spike_watts is not None:
            spike = f", a spike to at least {significant(one.spike_watts, 3)} W"
        yield f"{one.label}: {with_uncertainty(one.watts)} W{spike}"
    if found.idle:
        yield from (str(sight) for sight in found.idle[0].sight)
