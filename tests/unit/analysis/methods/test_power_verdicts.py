"""Verdicts by limits of power: what passes, what fails, and what is not decided and why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labctl.analysis.estimate import Estimate
from labctl.analysis.methods.power_verdicts import Judgement, PowerCheck, PowerVerdict, judge
from labctl.analysis.phase_result import WindowMaximum
from labctl.analysis.run.summary import summarise
from labctl.analysis.run_summary import RunSummary
from labctl.errors import ConfigurationError, RunFailed
from labctl.record.drive_state import DriveState, PowerState
from labctl.record.power_limits import PowerLimits, built_in_limits, load_limits, parse_limits
from labctl.record.reader import RunRecord
from labctl.report.pages.verdicts import verdicts_page
from labctl.report.text.verdicts import judgement_text
from tests.unit import synthetic_run
from tests.unit.synthetic_run import IDLE, Bench, Load, Meter

PASS, UNDECIDED, FAIL = PowerVerdict.PASS, PowerVerdict.UNDECIDED, PowerVerdict.FAIL


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunRecord, RunSummary]:
    meters = {name: Meter(rate_hz=10.0, duty=0.99) for name in synthetic_run.CHANNELS}
    loads = [IDLE, Load(0.6, 0.5, duration_s=20.0, iops=1000)]
    path = tmp_path_factory.mktemp("runs")
    record = synthetic_run.build(path, Bench(loads=loads, meters=meters)).record
    return record, summarise(record)


def limits(**limit: Any) -> PowerLimits:
    return PowerLimits.model_validate({"name": "ours", "limits": [{"name": "one", **limit}]})


def with_second(summary: RunSummary, watts: float, u: float, **found: Any) -> RunSummary:
    """The run, the largest second of its work being this."""
    idle, work = summary.phases
    second = WindowMaximum(1.0, Estimate(watts, u), work.begin_ns + 5, **found)
    envelope = tuple(second if one.window_s == 1.0 else one for one in work.power_envelope)
    return replace(summary, phases=(idle, replace(work, power_envelope=envelope)))


def began_ns(summary: RunSummary) -> dict[int, int]:
    return {phase.phase.index: phase.begin_ns for phase in summary.phases}


def only(found: Judgement) -> PowerCheck:
    (check,) = found.checks
    return check


@pytest.mark.parametrize(
    ("watts", "verdict"),
    [(13.4, PASS), (13.5, PASS), (13.6, UNDECIDED), (14.4, UNDECIDED), (14.6, FAIL)],
)
def test_the_guard_band_is_as_wide_as_u(
    run: tuple[RunRecord, RunSummary], watts: float, verdict: PowerVerdict
) -> None:
    """14 W and U = 0.5 W: up to 13.5 W passes, above 14.5 W fails."""
    record, summary = run
    found = judge(record, with_second(summary, watts, 0.5), limits(over="1 s", max_watts=14.0))
    check = only(found)
    assert (check.verdict, found.verdict) == (verdict, verdict)
    assert found.passed == (verdict is not FAIL)
    assert judge(record, summary, limits(over="1 s", max_watts=1e3), strict=True).passed
    assert ("the limit is within ±0.5 W" in check.why) == (verdict is UNDECIDED)
    begin_ns = summary.phases[1].begin_ns + 5
    assert (check.begin_ns, check.end_ns) == (begin_ns, begin_ns + 10**9)


def test_missing_readings_leave_a_pass_undecided_and_no_failure(
    run: tuple[RunRecord, RunSummary],
) -> None:
    record, summary = run
    second = limits(over="1 s", max_watts=14.0)
    low = only(judge(record, with_second(summary, 10.0, 0.1, blocked_s=1.9), second))
    assert low.verdict is UNDECIDED
    assert "missing in windows that begin in 1.9 s of the phase (10.00%)" in low.why
    high = only(judge(record, with_second(summary, 15.0, 0.1, blocked_s=1.9), second))
    assert (high.verdict, high.why) == (FAIL, "")


@pytest.mark.parametrize("lost", [(0.0, 1.9), (9.0, 10.5), (18.1, 20.0)])
@pytest.mark.parametrize("rate_hz", [10.0, 2.0])
@pytest.mark.parametrize("over", ["1 s", "10 s", "phase"])
def test_a_phase_does_not_pass_with_readings_missing_at_its_begin_within_or_at_its_end(
    tmp_path: Path, over: str, rate_hz: float, lost: tuple[float, float]
) -> None:
    meters = {name: Meter(rate_hz=rate_hz, duty=0.99) for name in synthetic_run.CHANNELS}
    bench = Bench(loads=[IDLE, Load(0.6, 0.5, duration_s=20.0, iops=1000)], meters=meters)
    high = limits(over=over, max_watts=100.0, at="work")
    record = synthetic_run.build(tmp_path / "whole", bench).record
    whole = summarise(record)
    expected = UNDECIDED if (over, rate_hz) == ("1 s", 2.0) else PASS
    assert only(judge(record, whole, high)).verdict is expected
    begin_s = (whole.phases[1].begin_ns - synthetic_run.EPOCH_NS) / 1e9
    gap = (begin_s + lost[0], begin_s + lost[1])
    for name in ("v12.voltage", "i12.current"):
        meters[name] = replace(meters[name], lost=(gap,))
    record = synthetic_run.build(tmp_path / "cut", bench).record
    check = only(judge(record, summarise(record), high))
    assert check.verdict is UNDECIDED
    assert "missing" in check.why or "too slow" in check.why


def test_what_was_not_measured_is_undecided_with_its_reason(
    run: tuple[RunRecord, RunSummary],
) -> None:
    record, summary = run

    def why(**limit: Any) -> str:
        found = judge(record, summary, limits(**limit), strict=True)
        assert only(found).verdict is UNDECIDED and not found.passed
        return only(found).why

    assert "100 ms is too slow: at least 10 a window" in why(over="100 us", max_watts=20.0)
    assert why(over="15 min", max_watts=20.0) == "the phase lasts 20 s"
    idle, work = summary.phases
    without = replace(work, rails={"12V": work.rails["12V"]})
    lost = judge(
        record,
        replace(summary, phases=(idle, without)),
        limits(over="1 s", max_watts=20.0, rail="3V3"),
    )
    assert "the rail 3V3 has no watts" in only(lost).why
    note = "3V3: no watts, readings cover only 71% of the phase"
    gap = replace(without, watts=None, power_envelope=(), notes=("peaks", note))
    gapped = replace(summary, phases=(idle, gap))
    for limit in ({"over": "1 s"}, {"over": "phase"}, {"over": "1 s", "rail": "3V3"}):
        lost = judge(record, gapped, limits(max_watts=20.0, **limit))
        assert only(lost).why == note
    assert "lasts 20 s, of 900 s" in why(over="1 s", max_watts=200.0, min_duration_s=900)
    assert why(over="1 s", drive_says="max") == "the drive told no table of power states"
    # it fills the time, so that it need not be fast
    fast = limits(over="1 s", max_watts=200.0, interval_s=0.002)
    assert only(judge(record, summary, fast)).verdict is PASS
    channels = tuple(replace(one, aperture_s=0.02) for one in record.header.channels)
    record = RunRecord(record.path)
    record.header = replace(record.header, channels=channels)
    check = only(judge(record, summary, fast))
    assert "i12.current reads each 100 ms and integrates 20 ms of it; 2 ms is wanted" in check.why


def test_limits_of_the_drives_own_table(run: tuple[RunRecord, RunSummary]) -> None:
    record, summary = run
    states = (PowerState(0, 25.0, idle_watts=5.0), PowerState(1, 6.0))
    record = RunRecord(record.path)
    record.header = replace(record.header, drive_state=DriveState("drive", power_states=states))
    says = limits(over="1 s", drive_says="max", tolerance_pct=5)
    assert only(judge(record, summary, says)).why == (
        "in which power state the drive was is not known"
    )
    idle, work = summary.phases
    for state, verdict, allowed in ((0, PASS, 26.25), (1, FAIL, 6.3)):
        phase = replace(work, phase=replace(work.phase, power_state=state))
        check = only(judge(record, replace(summary, phases=(idle, phase)), says))
        assert (check.verdict, check.limit_watts) == (verdict, pytest.approx(allowed))
    of_idle = limits(over="phase", drive_says="idle", power_state=1)
    phase = replace(work, phase=replace(work.phase, power_state=1))
    check = only(judge(record, replace(summary, phases=(idle, phase)), of_idle))
    assert check.why == "the drive states no idle power of power state 1"


def test_idle_and_its_tolerance(run: tuple[RunRecord, RunSummary]) -> None:
    """Idle draws 12 V · 0.25 A + 3.3 V · 0.3 A = 3.99 W."""
    record, summary = run
    for most, verdict in ((3.9, PASS), (3.7, FAIL)):
        idle = limits(over="phase", at="idle", max_watts=most, tolerance_pct=5)
        check = only(judge(record, summary, idle))
        assert (check.phase, check.verdict) == ("idle before", verdict)


def test_limits_about_nothing_do_not_pass(run: tuple[RunRecord, RunSummary]) -> None:
    record, summary = run
    with pytest.raises(ConfigurationError, match="power state of any of them; the run has: idle"):
        judge(record, summary, limits(over="1 s", max_watts=5, power_state=3))
    both = PowerLimits.model_validate(
        {
            "name": "ours",
            "limits": [
                {"name": "all", "over": "1 s", "max_watts": 100},
                {"name": "state 3", "over": "1 s", "max_watts": 90, "power_state": 3},
            ],
        }
    )
    found = judge(record, summary, both)
    assert (found.verdict, found.unchecked) == (UNDECIDED, ("limits[1] (state 3)",))


def test_a_run_that_ended_before_its_first_phase_is_no_mistake_of_the_limits(
    run: tuple[RunRecord, RunSummary],
) -> None:
    record, summary = run
    with pytest.raises(RunFailed, match=r"nothing to judge: .* before a phase was measured"):
        judge(record, replace(summary, phases=()), limits(over="1 s", max_watts=5))


def test_a_misspelt_rail_or_pattern_is_refused_with_the_name_that_was_meant(
    run: tuple[RunRecord, RunSummary],
) -> None:
    """Beside a limit that is about something, and all of them at once."""
    record, summary = run
    label = summary.phases[1].phase.label
    slips = PowerLimits.model_validate(
        {
            "name": "ours",
            "limits": [
                {"name": "all", "over": "1 s", "max_watts": 100},
                {"name": "rail", "over": "1 s", "max_watts": 90, "rail": "12v"},
                {"name": "work", "over": "1 s", "max_watts": 80, "points": label[1:] + "*"},
                {"name": "far", "over": "1 s", "max_watts": 70, "points": "#*", "rail": "#"},
            ],
        }
    )
    with pytest.raises(ConfigurationError) as refused:
        judge(record, summary, slips)
    text = str(refused.value)
    assert "limits[1].rail" in text and "the run has no such rail: is '12V' meant?" in text
    assert "limits[2].points" in text and f"no phase of the run fits: is {label!r} meant?" in text
    assert "limits[3].rail" in text and "it has: 12V, 3V3" in text
    assert "limits[3].points" in text and f"it has: idle before; {label}" in text


@pytest.mark.parametrize("name", sorted(built_in_limits()))
def test_built_in_limits_judge_a_run(run: tuple[RunRecord, RunSummary], name: str) -> None:
    """They say what was read, and of what the limit was not confirmed."""
    record, summary = run
    chosen = load_limits(name)
    assert chosen.name == name and "Not read" in chosen.source
    found = judge(record, summary, chosen)
    assert found.verdict is UNDECIDED
    assert {check.limit for check in found.checks} == {
        *("maximum average power", "peak power", "idle power"),
    }


def test_one_of_several_drives_is_judged_by_its_own_rails_and_meters(
    run: tuple[RunRecord, RunSummary],
) -> None:
    """Of the left drive is 12 V, of the right one 3.3 V, and only its meter is too slow."""
    record, summary = run
    record = RunRecord(record.path)
    owner, duty = {"12V": "left", "3V3": "right"}, {"12V": 0.099, "3V3": 0.02}
    rails = tuple(replace(rail, drive=owner[rail.name]) for rail in record.header.rails)
    aperture_s = {rail.current: duty[rail.name] for rail in rails}
    channels = tuple(
        replace(one, aperture_s=aperture_s.get(one.name, one.aperture_s))
        for one in record.header.channels
    )
    record.header = replace(record.header, rails=rails, channels=channels)

    def part(drive: str) -> RunSummary:
        phases = [
            replace(one, rails={k: v for k, v in one.rails.items() if owner[k] == drive})
            for one in summary.phases
        ]
        return replace(summary, phases=tuple(phases))

    summary = replace(summary, drives={name: part(name) for name in ("left", "right")})
    on_rail = judge(record, summary, limits(over="1 s", max_watts=200.0, rail="12V"))
    assert [(one.drive, one.verdict) for one in on_rail.checks] == [("left", PASS)]
    of_all = judge(record, summary, limits(over="1 s", max_watts=200.0, interval_s=0.002))
    assert [(one.drive, one.verdict) for one in of_all.checks] == [
        ("left", PASS),
        ("right", UNDECIDED),
    ]


def test_the_text_says_why_it_is_undecided(run: tuple[RunRecord, RunSummary]) -> None:
    """The phase that came closest passes; another one was cut off."""
    record, summary = run
    idle, work = summary.phases
    low = replace(with_second(summary, 5.0, 0.1).phases[1], outcome="interrupted")
    summary = replace(summary, phases=(idle, work, low))
    found = judge(record, summary, limits(over="1 s", max_watts=200.0))
    assert [check.verdict for check in found.checks] == [PASS, UNDECIDED]
    assert "the phase is interrupted" in judgement_text(found, began_ns(summary))


def test_the_limits_of_two_rails_are_both_shown(run: tuple[RunRecord, RunSummary]) -> None:
    record, summary = run
    each = [
        {"name": "second", "over": "1 s", "max_watts": 50, "rail": rail} for rail in ("12V", "3V3")
    ]
    found = judge(record, summary, PowerLimits.model_validate({"name": "ours", "limits": each}))
    printed = judgement_text(found, began_ns(summary))
    assert "rail 12V" in printed and "rail 3V3" in printed


def test_text_and_page_say_it_all(run: tuple[RunRecord, RunSummary], tmp_path: Path) -> None:
    record, summary = run
    text = (
        'name = "rack"\nsource = "<b>ours</b>"\n[[limits]]\nname = "second"\nrule = "4.2"\n'
        'over = "1 s"\nmax_watts = 6\n[[limits]]\nname = "idle"\nover = "phase"\nat = "idle"\n'
        "max_watts = 5\n"
    )
    found = judge(record, summary, parse_limits(text, "rack.toml"))
    printed = judgement_text(found, began_ns(summary))
    assert max(map(len, printed.splitlines())) <= 80
    assert printed.startswith("FAIL: ") and "1 passed, 1 failed" in printed
    assert "second, 1 s: 9.0" in printed and "at most 6 W" in printed
    (second,) = (check for check in found.checks if check.limit == "second")
    assert second.begin_ns is not None
    at_s = (second.begin_ns - summary.phases[1].begin_ns) / 1e9
    assert f"randread 4k QD2, from {at_s:.3f} s on" in printed
    page = verdicts_page(record, summary, found)
    assert page.count("<figure") == 2 and "&lt;b&gt;ours" in page and "<b>ours" not in page
    assert "seconds since the window began" in page
