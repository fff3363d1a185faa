"""What the methods say of a run, as text of at most 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from rich.cells import cell_len

from labctl.analysis.estimate import Estimate
from labctl.analysis.methods.frontier import FrontierAnswer
from labctl.analysis.methods.method_results import MethodResults
from labctl.analysis.methods.power_model import RailModel
from labctl.analysis.methods.power_states import StateRow
from labctl.analysis.methods.replays import KERNEL, Busy, ReplayResult
from labctl.analysis.methods.soak import Recovery
from labctl.analysis.numbers import (
    NOTHING,
    prefixed,
    prefixed_with_uncertainty,
    scaled,
    significant,
    with_uncertainty,
)
from labctl.analysis.steady_state.tracking import SteadyReport
from labctl.report.panels import LARGE_BLOCK_BYTES
from labctl.rounded import rounded

WIDTH = 80
_FEWEST_SECONDS = 30
"""With fewer, no consistency is printed: it would be the scatter of a handful of numbers."""

_TERMS = {
    "idle": ("idle", 1.0, "W"),
    "read": ("energy per read", 1e6, "µJ"),
    "write": ("energy per write", 1e6, "µJ"),
    "byte": ("energy per byte", 1e9, "nJ"),
}


def methods_text(found: MethodResults) -> str:
    """Every analysis that has something to say, under a heading each; of several drives first
    that of all together, then that of each."""
    lines = [found.run_id, *_sections(found)]
    for name, one in found.drives.items():
        lines += ["", f"── {name} {'─' * max(0, WIDTH - 4 - cell_len(name))}", *_sections(one)]
    return "\n".join(lines) + "\n"


def _sections(found: MethodResults) -> list[str]:
    sections = (
        ("Headline averages", _headline_averages_text(found)),
        ("Consistency (IOPS of each second, last part of the phase)", _consistency_text(found)),
        ("Steady state", _steady_state_text(found.steady)),
        ("Quality of service", _qos_text(found)),
        ("Efficiency knee", _efficiency_knees_text(found)),
        ("Energy above idle", _energy_above_idle_text(found)),
        ("Power model", _power_models_text(found.models)),
        ("Most IOPS under the limit of watts", _frontier_answers_text(found.under_watts)),
        ("Least watts for the IOPS", _frontier_answers_text(found.for_iops)),
        ("Power states", _power_states(found)),
        ("Conditioned against fresh", _conditioned_text(found)),
        ("Thermal soak", _soaks_text(found)),
        ("Replay of traces", _replays_text(found)),
        ("Idle", _idle_text(found)),
    )
    lines: list[str] = []
    for title, body in sections:
        inside = [part for line in body for part in _folded_method_text(line)]
        if inside:
            lines += ["", title, *inside]
    return lines


def _folded_method_text(line: str) -> list[str]:
    return textwrap.wrap(
        line, WIDTH, initial_indent="  ", subsequent_indent="      ", break_long_words=False
    )


def _headline_averages_text(found: MethodResults) -> Iterator[str]:
    for one in found.averages:
        watts = f", {with_uncertainty(one.watts)} W" if one.watts else ""
        per = (
            f", {prefixed_with_uncertainty(one.iops_per_watt)} IOPS/W" if one.iops_per_watt else ""
        )
        rate = f"{prefixed(one.iops)} IOPS"
        if one.bytes_per_s >= LARGE_BLOCK_BYTES * one.iops:
            rate = f"{significant(one.bytes_per_s / 1e6)} MB/s, {rate}"
        yield f"{one.name}: {rate}{watts}{per}"


def _consistency_text(found: MethodResults) -> Iterator[str]:
    for item in found.consistencies:
        one = item.consistency
        if one.seconds < _FEWEST_SECONDS:
            continue
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


def _steady_state_text(reports: Iterable[SteadyReport]) -> Iterator[str]:
    for report in reports:
        yield from _steady_window_text(report)


def _steady_window_text(report: SteadyReport) -> Iterator[str]:
    of = f"{report.sweep}: " if report.sweep else ""
    if not report.windows:
        yield f"{of}not reached: fewer rounds than a window has"
        return
    first, last = report.windows[0].rounds[0] + 1, report.windows[0].rounds[-1] + 1
    if report.reached:
        yield f"{of}steady state in rounds {first} to {last}"
    else:
        yield f"{of}no steady state; the last rounds are {first} to {last}"
    for window in report.windows:
        verdict = window.verdict
        unit = "°C" if window.unit == "°C" else ""
        spread, line = (
            (f"{rounded(verdict.range, 2)} {unit}", f"{rounded(verdict.line, 2)} {unit}")
            if unit
            else (f"{verdict.range:.1%}", f"{verdict.line:.1%}")
        )
        values = ", ".join(significant(value, 4) for value in window.values)
        yield (
            f"{window.name}: {'steady' if verdict.steady else 'not steady'}, range {spread}, "
            f"line {line}, rounds {values}"
        )


def _qos_text(found: MethodResults) -> Iterator[str]:
    yield from (str(one) for one in found.verdicts)
    for item in found.slow_shares:
        parts = [
            f"{_method_percent_text(one.least_pct, one.most_pct)} took over {one.over_ms} ms"
            for one in item.shares
            if one.most_pct
        ]
        if parts:
            yield f"{item.label}: of its I/Os {', '.join(parts)}"


def _method_percent_text(least: float, most: float) -> str:
    return f"{significant(most, 3)} %" if least == most else f"at most {significant(most, 2)} %"


def _efficiency_knees_text(found: MethodResults) -> Iterator[str]:
    for one in found.knees:
        text = (
            f"{one.workload}: QD {one.queue_depth}, "
            f"{prefixed_with_uncertainty(one.iops_per_watt)} IOPS/W"
        )
        if not one.certain:
            others = ", ".join(str(depth) for depth in one.as_good if depth != one.queue_depth)
            text += f"; QD {others} cannot be told from it"
        yield text


def _energy_above_idle_text(found: MethodResults) -> Iterator[str]:
    for one in found.marginals:
        per_io = with_uncertainty(scaled(one.joules_per_io, 1e6))
        yield f"{one.label}: {per_io} µJ an I/O, {with_uncertainty(one.joules_per_gb)} J a GB"


def _power_models_text(models: Iterable[RailModel]) -> Iterator[str]:
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


def _frontier_answers_text(answers: Iterable[FrontierAnswer]) -> Iterator[str]:
    for one in answers:
        model = "no answer"
        if one.iops is not None and one.watts is not None:
            model = f"{_method_iops_text(one.iops)} IOPS, {with_uncertainty(one.watts)} W"
        best = f"; measured: {one.measured.label}" if one.measured else ""
        yield f"{one.workload}: {model} ({one.why}){best}"


def _method_iops_text(iops: Estimate) -> str:
    return prefixed_with_uncertainty(iops) if iops.u else prefixed(iops.value)


def _power_states(found: MethodResults) -> Iterator[str]:
    for one in found.power_states:
        yield (
            f"{one.workload}{_power_state_text(one)}: {prefixed(one.iops)} IOPS "
            f"({one.iops_part:.0%}), {with_uncertainty(one.watts)} W, "
            f"{prefixed_with_uncertainty(one.iops_per_watt)} IOPS/W"
        )


def _power_state_text(row: StateRow) -> str:
    state = "" if row.power_state is None else f" in PS{row.power_state}"
    limit = row.power_limit_watts
    return state if limit is None else f"{state}, at most {limit:g} W"


def _conditioned_text(found: MethodResults) -> Iterator[str]:
    for one in found.conditioned:
        yield (
            f"{one.workload}: {prefixed(one.fresh_iops)} fresh, "
            f"{prefixed(one.conditioned_iops)} conditioned ({one.iops_change:+.1%}); watts × "
            f"{with_uncertainty(one.watts_ratio)}"
        )


def _soaks_text(found: MethodResults) -> Iterator[str]:
    for one in found.soaks:
        rise = f"{one.begin_celsius:.0f} to {one.highest_celsius:.0f} °C ({one.sensor})"
        if one.steady_after_s is None:
            steadiness = (
                f"the temperature did not stand for {one.window_s:.0f} s in {one.duration_s:.0f} s"
            )
        else:
            steadiness = (
                f"it stood at {one.steady_celsius:.1f} °C after {one.steady_after_s:.0f} s "
                f"(for {one.window_s:.0f} s)"
            )
        yield f"{one.label}: {rise}; {steadiness}"
        held = one.throttled
        if held is None or one.throttled_after_s is None:
            yield "no thermal throttling was seen"
        else:
            at = "" if held.celsius is None else f" at {held.celsius:.0f} °C"
            watts = ""
            if held.watts_before is not None and held.watts_during is not None:
                watts = f", {significant(held.watts_before)} → {significant(held.watts_during)} W"
            yield (
                f"throttle point: after {one.throttled_after_s:.0f} s{at}: "
                f"{prefixed(held.iops_before)} → {prefixed(held.iops_during)} IOPS{watts}"
            )
        if one.recovery is not None:
            yield from _soak_recovery_text(one.recovery)


def _soak_recovery_text(one: Recovery) -> Iterator[str]:
    reached = "" if one.reached else f", not {one.wanted_celsius:.0f} °C as wanted"
    text = (
        f"recovery: {one.begin_celsius:.0f} → {one.end_celsius:.0f} °C in {one.seconds:.0f} s"
        f"{reached}"
    )
    if one.iops_part is not None:
        text += f"; the same work then has {one.iops_part:.0%} of its IOPS at first"
    yield text


def _replays_text(found: MethodResults) -> Iterator[str]:
    for one in found.replays:
        busy = "" if one.busy is None else f", disk busy {_replay_busy_text(one.busy)}"
        watts = f"; {with_uncertainty(one.watts)} W" if one.watts else ""
        joules = f", {with_uncertainty(one.joules_per_gb)} J a GB" if one.joules_per_gb else ""
        took = f"{one.duration_s:.1f} s"
        if one.is_off_pace:
            took += f" (the trace: {one.trace_s:.1f} s)"
        yield (
            f"{one.sweep}, {one.label}: {rounded(one.total_bytes * 1e-9)} GB in {took}, "
            f"{significant(one.mb_per_s, 3)} MB/s; {_replay_service_text(one)}{busy}{watts}{joules}"
        )
        if one.rate_part is not None:
            service = ""
            if one.service_part is not None:
                service = f"service time × {rounded(one.service_part)}, "
            yield f"{one.sweep} against the first: {service}data rate × {rounded(one.rate_part)}"


def _replay_service_text(one: ReplayResult) -> str:
    if one.service_mean_us is None:
        return "service times not known, this fio saw completions late"
    p999 = ""
    if one.service_p999_us is not None:
        p999 = f", 99.9 % {significant(one.service_p999_us, 3)} µs"
    return (
        f"service time mean {significant(one.service_mean_us, 3)} µs{p999}, max "
        f"{significant(one.service_max_us, 3)} µs"
    )


def _replay_busy_text(one: Busy) -> str:
    if one.source == KERNEL:
        return f"{one.part:.1%} of the time (the kernel's count)"
    return f"at most {one.part:.1%} of the time"


def _idle_text(found: MethodResults) -> Iterator[str]:
    for one in found.idle:
        spike = ""
        if one.spike_watts is not None:
            spike = f", a spike to at least {significant(one.spike_watts, 3)} W"
        capacity = f", {with_uncertainty(one.gb_per_watt)} GB/W" if one.gb_per_watt else ""
        stated = f", the drive states {rounded(one.stated_watts, 4)} W" if one.stated_watts else ""
        yield f"{one.label}: {with_uncertainty(one.watts)} W{stated}{capacity}{spike}"
    if found.idle:
        yield from (str(sight) for sight in found.idle[0].sight)
