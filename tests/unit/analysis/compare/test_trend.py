"""Series of runs: what is compared with what, what meters may have done, and the gate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from labctl.analysis.compare.conditions import ConditionChange, changes_between
from labctl.analysis.compare.gate import Gate, GateLimit, GateVerdict, check_trend
from labctl.analysis.compare.series_table import RunOfSeries
from labctl.analysis.compare.trend import trend
from labctl.analysis.compare.trend_results import Trend, TrendSeries, TrendVerdict
from labctl.analysis.stats import series_changes
from labctl.analysis.stats.series_candidates import CandidateKind
from labctl.errors import ConfigurationError
from labctl.record.phase import Pattern, Phase, Role

DAY_NS = 86_400 * 10**9
SCATTER = 0.004
POINTS = tuple(f"randread 4k QD{depth}" for depth in (1, 2, 4, 8, 16, 32))


@pytest.fixture(autouse=True)
def _few_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series_changes, "ORDERS", 399)


def runs(n: int = 20, seed: int = 0, limit: float = 0.0005) -> list[RunOfSeries]:
    """Runs of a drive to which nothing happened, a day apart."""
    rng = np.random.default_rng(seed)
    return [
        RunOfSeries(
            run_id=f"run-{number:02d}", begin_ns=number * DAY_NS, rig="rig", plan="plan", scale=1.0,
            drive=("model", "S1"), phases=(), outcome="completed",
            conditions={"firmware": "1.0"}, instruments=("DMM 1",), zeros=(),
            values={
                (quantity, point): (
                    (index + 1.0) * float(np.exp(SCATTER * rng.standard_normal())),
                    SCATTER / 10, limit, limit / 100,
                )
                for quantity in ("watts", "iops")
                for index, point in enumerate(POINTS)
            },
            throttled=0, celsius=30.0, drive_ios=None,
        )
        for number in range(n)
    ]  # fmt: skip


def scaled(run: RunOfSeries, factor: float, quantity: str = "watts") -> RunOfSeries:
    values = {
        key: (value * factor, *rest) if key[0] == quantity else (value, *rest)
        for key, (value, *rest) in run.values.items()
    }
    return replace(run, values=values)  # type: ignore[arg-type]


def with_firmware(run: RunOfSeries, version: str) -> RunOfSeries:
    return replace(run, conditions={"firmware": version})


def changed(
    made: Sequence[RunOfSeries], at: int, factor: float, **conditions: str
) -> list[RunOfSeries]:
    """The same, with watts that are another part of themselves from run ``at`` on."""
    return [
        one
        if number < at
        else replace(scaled(one, factor), conditions={**one.conditions, **conditions})
        for number, one in enumerate(made)
    ]


def only(found: Trend) -> TrendSeries:
    (series,) = found.series
    return series


def gated(found: Trend, **worse_pct: float) -> Mapping[str, set[GateVerdict]]:
    limits = [GateLimit(quantity=name, worse_pct=pct) for name, pct in worse_pct.items()]
    result = check_trend(found, Gate(limits=limits))
    assert result.passed == (
        not {GateVerdict.BROKEN, GateVerdict.MISSING} & {one.verdict for one in result.checks}
    )
    return {
        name: {one.verdict for one in result.checks if one.quantity == name} for name in worse_pct
    }


def test_a_step_has_its_run_its_firmware_its_size_and_its_doubt() -> None:
    found = only(trend(changed(runs(), 12, 1.05, firmware="1.1")))
    (change,) = found.changes
    assert found.verdict is TrendVerdict.MOVED
    assert change.kind is CandidateKind.STEP
    assert change.run == 13
    assert change.run_id == "run-12"
    assert change.changed == (ConditionChange("firmware", "1.0", "1.1"),)
    assert {one.point for one in change.moved} == set(POINTS)
    for one in change.moved:
        assert one.quantity == "watts"
        assert one.worse
        assert one.change.covers(0.05)
        assert one.change.u < 0.01


def test_nothing_moved_and_what_would_be_told_is_said() -> None:
    found = only(trend(runs(seed=1)))
    assert found.verdict is TrendVerdict.NOTHING
    assert not found.changes
    for row in found.rows:
        assert row.scatter == pytest.approx(SCATTER, rel=0.5)
        assert row.tells is not None
        assert 0.005 < row.tells < 0.02


def test_versions_of_a_plan_drives_rigs_and_scales_are_series_of_their_own() -> None:
    made = runs(20)
    other = (Phase(0, Role.MEASURE, "sweep", Pattern.RANDREAD, 60.0),)
    mixed = [replace(one, phases=other) if number % 2 else one for number, one in enumerate(made)]
    found = trend(mixed).series
    assert [(one.plan_version, one.plan_versions, len(one.runs)) for one in found] == [
        (1, 2, 10), (2, 2, 10),
    ]  # fmt: skip
    for change in ({"rig": "two"}, {"drive": ("model", "S2")}, {"scale": 0.1}, {"plan": "two"}):
        parts = [replace(one, **change) for one in made[:5]] + made[5:]
        assert [len(one.runs) for one in trend(parts).series] == [15, 5]


@pytest.mark.parametrize("n", [1, 2, 7])
def test_too_few_runs_are_undecided(n: int) -> None:
    found = trend(changed(runs(n), 1, 1.5))
    assert only(found).verdict is TrendVerdict.TOO_FEW
    assert gated(found, watts=3.0) == {"watts": {GateVerdict.UNDECIDED}}


def test_no_runs_are_no_series_and_no_gate_passes() -> None:
    assert trend([]).series == ()
    with pytest.raises(ConfigurationError, match="no point with watts"):
        gated(trend([]), watts=3.0)


def test_a_run_that_is_there_twice_counts_once() -> None:
    made = runs()
    assert only(trend([*made, *made])) == only(trend(made))


def test_other_meters_explain_what_they_allow_and_no_more() -> None:
    def other_meters(factor: float) -> TrendSeries:
        made = changed(runs(limit=0.02), 10, factor)
        return only(trend([
            replace(one, instruments=("DMM 2",)) if number >= 10 else one
            for number, one in enumerate(made)
        ]))  # fmt: skip

    within = other_meters(1.02)
    assert within.verdict is TrendVerdict.NOTHING
    assert [change.real for change in within.changes] == [False]
    assert any("2 sets of instruments" in note for note in within.notes)
    beyond = other_meters(1.10)
    assert beyond.verdict is TrendVerdict.MOVED
    assert beyond.changes[0].moved[0].change.u > 0.02 * 2**0.5
    assert beyond.changes[0].moved[0].change.repeatability is not None


def test_the_limits_of_the_meters_do_not_widen_a_comparison_on_the_same_ones() -> None:
    fine = only(trend(changed(runs(limit=0.0), 12, 1.03))).changes[0].moved
    coarse = only(trend(changed(runs(limit=0.5), 12, 1.03))).changes[0].moved
    assert [one.change for one in coarse] == [one.change for one in fine]


def test_a_step_beside_a_change_of_meters_is_found_on_the_same_ones() -> None:
    made = changed(changed(runs(24, limit=0.02), 8, 1.02), 16, 1.03, firmware="1.1")
    found = only(trend([
        replace(one, instruments=("DMM 2",)) if number >= 8 else one
        for number, one in enumerate(made)
    ]))  # fmt: skip
    (real,) = [change for change in found.changes if change.real]
    assert real.run == 17
    assert all(one.change.u < 0.012 for one in real.moved)


def test_meters_that_do_not_say_who_they_are_count_with_their_limits() -> None:
    made = [replace(one, instruments=None) for one in changed(runs(limit=0.02), 12, 1.02)]
    found = only(trend(made))
    assert found.verdict is TrendVerdict.NOTHING
    assert any("did not say who it is" in note for note in found.notes)
    assert not gated(trend(made), watts=1.0)["watts"] & {GateVerdict.BROKEN}


def test_a_drift_of_watts_may_be_the_meters_one_of_iops_may_not() -> None:
    made = runs(30, limit=0.05)
    for number, one in enumerate(made):
        part = 1.0 + 0.04 * number / 29
        made[number] = scaled(scaled(one, part), part, "iops")
    found = only(trend(made))
    by_quantity = {one.quantity: one.by_meters for c in found.changes for one in c.moved}
    assert by_quantity == {"watts": True, "iops": False}


def test_a_clock_that_went_back_does_not_change_the_order_that_the_drive_counted() -> None:
    made = changed(runs(), 12, 1.05, firmware="1.1")
    made = [replace(one, drive_ios=1000 * number) for number, one in enumerate(made)]
    wrong = [replace(one, begin_ns=one.begin_ns - 400 * DAY_NS) if one.run_id > "run-15" else one
             for one in made]  # fmt: skip
    found = only(trend(wrong))
    assert [one.run_id for one in found.runs] == [one.run_id for one in made]
    assert found.changes[0].run == 13
    assert "clock" in found.notes[0]
    assert only(trend(made)).notes == ()


def test_all_clocks_at_one_moment_leave_the_order_of_the_names() -> None:
    made = [replace(one, begin_ns=0) for one in changed(runs(), 12, 1.05)]
    assert only(trend(made)).changes[0].run == 13


def test_firmwares_that_take_turns() -> None:
    made = [
        with_firmware(scaled(one, 1.04), "1.1") if number % 2 else one
        for number, one in enumerate(runs())
    ]
    (change,) = only(trend(made)).changes
    assert change.kind is CandidateKind.STATE
    assert change.state[0] == "firmware"


def test_the_newest_run_alone_is_out_of_line_and_cannot_be_told() -> None:
    made = runs()
    made[-1] = with_firmware(scaled(made[-1], 1.2), "1.1")
    found = trend(made)
    one = only(found).outliers[-1]
    assert one.newest
    assert one.changed == (ConditionChange("firmware", "1.0", "1.1"),)
    assert only(found).newest_state == 1
    assert gated(found, watts=3.0) == {"watts": {GateVerdict.UNDECIDED}}


def test_a_run_whose_condition_is_undone_in_the_next_names_it() -> None:
    made = runs()
    made[9] = replace(scaled(made[9], 1.2), conditions={"firmware": "1.0", "slot": "2"})
    (one,) = only(trend(made)).outliers
    assert [change.name for change in one.changed] == ["slot"]


def test_a_drive_that_began_warmer_is_told() -> None:
    rng = np.random.default_rng(3)
    made = [
        replace(one, celsius=30.0 + 9.0 * (number >= 12) + float(rng.normal()))
        for number, one in enumerate(changed(runs(), 12, 1.05))
    ]
    warmer = only(trend(made)).changes[0].warmer_kelvin
    assert warmer == pytest.approx(9.0, abs=1.5)


def test_values_that_are_far_too_coarse_are_left_out() -> None:
    made = runs()
    coarse = {key: (value * 1.3, 0.3, *rest) for key, (value, _, *rest) in made[5].values.items()}
    made[5] = replace(made[5], values=coarse)  # type: ignore[arg-type]
    found = only(trend(made))
    assert not found.outliers
    assert any("12 values are left out" in note for note in found.notes)


def test_points_that_few_runs_have_are_not_judged() -> None:
    made = runs()
    for number, one in enumerate(made[:15]):
        made[number] = replace(
            one, values={key: value for key, value in one.values.items() if key[1] != POINTS[0]}
        )
    found = only(trend(made))
    assert any("fewer than 8 runs" in note for note in found.notes)
    assert {row.scatter is None for row in found.rows if row.point == POINTS[0]} == {True}


def test_the_gate_holds_the_newest_level_against_the_first() -> None:
    worse = trend(changed(runs(), 12, 1.05, firmware="1.1"))
    assert gated(worse, watts=2.0, iops=2.0) == {
        "watts": {GateVerdict.BROKEN}, "iops": {GateVerdict.PASSED},
    }  # fmt: skip
    assert gated(worse, watts=10.0) == {"watts": {GateVerdict.PASSED}}
    assert gated(worse, iops=0.1) == {"iops": {GateVerdict.UNDECIDED}}
    back = trend(changed(changed(runs(30), 10, 1.05), 20, 1 / 1.05))
    assert GateVerdict.BROKEN not in gated(back, watts=2.0)["watts"]
    better = trend(changed(runs(), 12, 0.9))
    assert gated(better, watts=2.0) == {"watts": {GateVerdict.PASSED}}


def test_a_point_that_the_newest_run_does_not_have_fails() -> None:
    made = runs()
    made[-1] = replace(made[-1], values={})
    assert gated(trend(made), watts=3.0) == {"watts": {GateVerdict.MISSING}}


def test_the_text_of_a_rig_is_named_only_where_nothing_else_is() -> None:
    before = {"firmware": "1", "rig file": "a"}
    assert [one.name for one in changes_between(before, {"firmware": "2", "rig file": "b"})] == [
        "firmware"
    ]
    (one,) = changes_between(before, {"firmware": "1", "rig file": "b"})
    assert str(one) == "the rig file's text"
    (gone,) = changes_between({"fio": "fio-3.33"}, {})
    assert str(gone) == "fio fio-3.33 → not known"
