"""The knee, marginal energy, shares, averages, conditioned against fresh, idle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from labctl.analysis.estimate import Component, Estimate
from labctl.analysis.methods.conditioned import conditioned_against_fresh
from labctl.analysis.methods.efficiency import efficiency_knees, marginal_energies, rail_shares
from labctl.analysis.methods.headline_averages import low_depth_averages, mixed_averages
from labctl.analysis.methods.idle import idle_results, spike_visibility
from labctl.analysis.methods.power_states import power_state_table
from labctl.analysis.phase_result import PhaseResult, RailResult
from labctl.analysis.power.shared_errors import watts_ratio
from labctl.analysis.workload import by_workload, workload_name
from labctl.config.sweeps import Sweep
from labctl.record.phase import Pattern, Role
from tests.unit.report_sample import (
    DEPTHS,
    plan,
    qd_sweep,
    record_of,
    result_of,
    series,
    summary_of,
)

GAIN = 0.01


def rail(watts: float, apart: float) -> RailResult:
    """A rail with a gain error of 1 % (k = 1) and ``apart`` watts of other errors (k = 1)."""
    budget = (
        Component("scatter", "A", apart, ""),
        Component("current gain", "B", GAIN * watts, "", source="m gain", part="gain"),
    )
    u = 2 * (apart**2 + (GAIN * watts) ** 2) ** 0.5
    return RailResult(
        series(12.0), series(watts / 12), Estimate(watts, u), series(watts),
        Estimate(watts * 20, u * 20), budget, 1.0, 1.0,
    )  # fmt: skip


def point(depth: int, iops: float, watts: dict[str, float], apart: float = 0.001) -> PhaseResult:
    phase = summary_of(plan(qd_sweep())).measured[DEPTHS.index(depth)].phase
    rails = {name: rail(value, apart) for name, value in watts.items()}
    total = sum(watts.values())
    u = sum(one.watts.u for one in rails.values())
    one = result_of(phase, 0)
    return replace(
        one, rails=rails, watts=Estimate(total, u), iops=iops,
        iops_per_watt=Estimate(iops / total, iops / total * u / total),
    )  # fmt: skip


def test_gains_cancel_between_phases_of_one_run_where_shares_are_the_same() -> None:
    one = point(1, 1e5, {"12V": 8.0, "3.3V": 2.0})
    other = point(2, 1e5, {"12V": 4.0, "3.3V": 1.0})
    ratio = watts_ratio(one, other)
    assert ratio is not None
    assert ratio.value == pytest.approx(2.0)
    assert ratio.u / ratio.value < 0.001, "2 % of gain must be gone"


def test_gains_stay_as_far_as_the_shares_differ() -> None:
    """All on one rail against all on the other: nothing cancels."""
    ratio = watts_ratio(
        point(1, 1e5, {"12V": 8.0, "3.3V": 0.0}, 0.0), point(2, 1e5, {"12V": 0.0, "3.3V": 8.0}, 0.0)
    )
    assert ratio is not None
    # each rail's share differs by 1; a rail that measures 0 W has no gain error in that phase
    assert ratio.u / ratio.value == pytest.approx(2 * GAIN, rel=0.01)


def test_the_knee_names_every_depth_that_may_be_it() -> None:
    points = [
        point(1, 10e3, {"12V": 5.0}),
        point(8, 99.9e3, {"12V": 10.0}, 0.02),
        point(16, 100e3, {"12V": 10.0}, 0.02),
        point(32, 110e3, {"12V": 12.0}, 0.02),
    ]
    (knee,) = efficiency_knees(points)
    assert (knee.queue_depth, knee.as_good, knee.certain) == (16, (8, 16), False)
    sharp = [replace_apart(item, 1e-5) for item in points]
    assert efficiency_knees(sharp)[0].as_good == (16,)
    restless = [
        replace(one, watts=replace(one.watts, repeatability=0.5 * one.watts.value))
        for one in sharp
        if one.watts is not None
    ]
    assert len(efficiency_knees(restless)[0].as_good) > 1, "the next run may have another knee"


def replace_apart(item: PhaseResult, apart: float) -> PhaseResult:
    rails = {name: rail(one.watts.value, apart) for name, one in item.rails.items()}
    return replace(item, rails=rails)


def test_a_throttled_depth_is_no_knee() -> None:
    points = [
        point(1, 10e3, {"12V": 5.0}),
        point(8, 90e3, {"12V": 10.0}),
        replace(point(16, 900e3, {"12V": 10.0}), throttled_s=3.0),
    ]
    assert efficiency_knees(points)[0].queue_depth == 8
    assert efficiency_knees(points[:1]) == ()


def test_marginal_energy_by_hand() -> None:
    """6 W above idle at 100 k I/Os of 4096 B: 60 µJ an I/O, 14.65 J a GB."""
    one = replace(
        point(8, 100e3, {"12V": 10.0}),
        marginal_watts=Estimate(6.0, 0.06),
        bytes_per_s=409.6e6,
    )
    (found,) = marginal_energies([one])
    assert found.joules_per_io == Estimate(pytest.approx(60e-6), pytest.approx(0.6e-6))
    assert found.joules_per_gb is not None
    assert found.joules_per_gb.value == pytest.approx(14.648, abs=1e-3)


def test_shares_of_the_rails_add_up() -> None:
    shares = rail_shares([point(8, 1e5, {"12V": 9.0, "3.3V": 1.0})])
    assert [one.share.value for one in shares] == pytest.approx([0.9, 0.1])
    assert all(one.share.u > 0 for one in shares)


def test_headline_of_the_low_depths() -> None:
    run = summary_of(plan(qd_sweep()))
    (found,) = low_depth_averages(run.measured)
    low = run.measured[:3]
    assert found.iops == pytest.approx(sum(item.iops or 0 for item in low) / 3)
    assert found.watts is not None and found.iops_per_watt is not None
    assert found.watts.value == pytest.approx(
        sum(item.watts.value for item in low if item.watts) / 3
    )
    assert found.iops_per_watt.value == pytest.approx(found.iops / found.watts.value)
    assert low_depth_averages(run.measured[1:]) == (), "without QD 1 there is no headline"


def test_headline_of_the_six_mixes() -> None:
    sweep = Sweep(
        pattern=["randrw"], queue_depth=[3], read_pct=[100, 80, 60, 40, 20, 0], duration_s=5
    )
    run = summary_of(plan(sweep))
    (found,) = mixed_averages(run.measured)
    assert found.name == "randrw 4k QD3, mean of six mixes"
    assert found.iops == pytest.approx(sum(item.iops or 0 for item in run.measured) / 6)
    assert mixed_averages(run.measured[:5]) == ()


def renumbered(*groups: Sequence[PhaseResult]) -> list[PhaseResult]:
    flat = [item for group in groups for item in group]
    return [
        replace(item, phase=replace(item.phase, index=index)) for index, item in enumerate(flat)
    ]


def test_power_states_against_the_first() -> None:
    """25 W against 12 W mode: the same work in PS0 and PS1, something else in PS0 alone."""
    full = point(8, 400e3, {"12V": 20.0})
    held = point(8, 300e3, {"12V": 12.0})
    alone = point(16, 500e3, {"12V": 22.0})
    again = point(8, 1e3, {"12V": 1.0})
    results = renumbered([full, alone, held, again])
    assert power_state_table(results) == ()
    results = [
        replace(item, phase=replace(item.phase, power_state=state))
        for item, state in zip(results, (0, 0, 1, 1), strict=True)
    ]
    rows = power_state_table(results)
    assert [(row.power_state, row.phase_index) for row in rows] == [(0, 0), (1, 2)]
    assert rows[1].iops_part == pytest.approx(0.75)
    assert rows[1].watts_part is not None
    assert rows[1].watts_part.value == pytest.approx(0.6)
    assert rows[1].watts_part.u < 0.001, "the meters' gain is in both"


def test_work_on_another_span_is_other_work() -> None:
    """Peak random writes on 16 GB, and sustained ones on the whole drive."""
    peak, sustained = renumbered([point(32, 3e5, {"12V": 9.0})], [point(32, 2e4, {"12V": 9.0})])
    peak = replace(peak, phase=replace(peak.phase, span_bytes=16 << 30))
    assert workload_name(peak.phase) == "randread 4k QD32 span 16g"
    assert list(by_workload([peak, sustained])) == [
        "randread 4k QD32 span 16g",
        "randread 4k QD32",
    ]


def fill() -> PhaseResult:
    phase = summary_of(plan(qd_sweep("write"))).measured[0].phase
    return result_of(replace(phase, role=Role.PREPARE, fill_bytes=1 << 30), 0)


def test_conditioned_against_fresh() -> None:
    """The drives of the reviews: 2.0 M IOPS fresh, 1.8 M conditioned."""
    fresh = point(32, 2.0e6, {"12V": 20.0})
    worn = point(32, 1.8e6, {"12V": 21.0})
    only_after = point(8, 1e6, {"12V": 15.0})
    (pair,) = conditioned_against_fresh(renumbered([fresh], [fill()], [worn, only_after]))
    assert pair.iops_change == pytest.approx(-0.1)
    assert pair.watts_ratio is not None and pair.watts_ratio.value == pytest.approx(1.05)
    assert (pair.fresh_index, pair.conditioned_index) == (0, 2)
    assert conditioned_against_fresh([fresh, worn]) == ()


def test_idle_says_whether_spikes_could_be_seen(tmp_path: Path) -> None:
    summary = summary_of(plan(qd_sweep()))
    record = record_of(tmp_path, summary)
    first, second = spike_visibility(record.header)
    assert not first.measurable and first.shortest_s == 0.02
    assert "not measurable (each reading is a mean over 20 ms, 20% of the time" in str(first)
    assert second.rail == "3.3V"
    idle = summary.phases[0]
    assert idle.watts_series is not None
    quiet, _ = idle_results(record.header, summary.phases)
    assert quiet.spike_watts == pytest.approx(idle.watts_series.max), "20 % above at σ = 3 %"
    calm = replace(idle, watts_series=replace(idle.watts_series, max=idle.watts_series.mean * 1.1))
    assert idle_results(record.header, [calm])[0].spike_watts is None


def test_a_fast_meter_without_dead_time_sees_spikes(tmp_path: Path) -> None:
    record = record_of(tmp_path, summary_of(plan(qd_sweep())))
    fast = tuple(
        replace(one, aperture_s=0.0001, interval_s=0.0001) for one in record.header.channels
    )
    assert all(one.measurable for one in spike_visibility(replace(record.header, channels=fast)))
    unknown = tuple(replace(one, aperture_s=0.0) for one in record.header.channels)
    sight = spike_visibility(replace(record.header, channels=unknown))
    assert "integration time is not known" in str(sight[0])


def test_a_purge_before_the_fresh_work_does_not_condition_the_drive() -> None:
    fresh, worn = point(32, 2.0e6, {"12V": 20.0}), point(32, 1.8e6, {"12V": 21.0})
    purge = replace(fill(), phase=replace(fill().phase, pattern=Pattern.PURGE))
    (pair,) = conditioned_against_fresh(renumbered([purge], [fresh], [fill()], [worn]))
    assert pair.iops_change == pytest.approx(-0.1)
