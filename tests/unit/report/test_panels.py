"""Panels: every measured phase once, along the axis that its sweep varies."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labctl.config.sweeps import Sweep
from labctl.report.charts.small_multiples import PanelGrid
from labctl.report.panels import Panel, panels
from tests.unit.report_sample import DEPTHS, plan, qd_sweep, summary_of


def step_px(grid: PanelGrid, panel: Panel) -> float:
    """The pixels of one step of a panel's axis."""
    low, high = grid.x(panel).to_dict()["scale"]["domain"]
    return float(grid.width / (high - low))


def test_queue_depths_are_sorted_as_numbers_whatever_their_order_in_the_plan() -> None:
    sweep = Sweep(pattern=["randread"], queue_depth=[32, 2, 16, 1, 4, 8], duration_s=5)
    (panel,) = panels(summary_of(plan(sweep)).measured)
    assert [point.tick for point in panel.points] == [str(depth) for depth in DEPTHS]
    assert (panel.axis.name, panel.in_bytes) == ("queue_depth", False)


def test_a_mixed_sweep_at_one_depth_runs_along_its_read_share() -> None:
    sweep = Sweep(
        pattern=["randrw"], queue_depth=[3], read_pct=[100, 80, 60, 40, 20, 0], duration_s=5
    )
    (panel,) = panels(summary_of(plan(sweep)).measured)
    assert panel.title == "randrw 4k QD3"
    assert [point.name for point in panel.points][:2] == ["0% rd", "20% rd"]


def test_transfer_sizes_run_along_the_block_size_in_bytes() -> None:
    sweep = Sweep(
        pattern=["read", "write"],
        block_size=["512", "4k", "64m"],
        queue_depth=[4],
        duration_s=5,
    )
    found = panels(summary_of(plan(sweep)).measured)
    assert [panel.title for panel in found] == ["read QD4", "write QD4"]
    assert [point.tick for point in found[0].points] == ["512", "4k", "64m"]
    assert found[0].in_bytes


def test_the_same_workload_in_two_sweeps_is_told_apart_by_name() -> None:
    fresh = qd_sweep().model_copy(update={"name": "fresh"})
    worn = qd_sweep().model_copy(update={"name": "conditioned"})
    titles = [panel.title for panel in panels(summary_of(plan(fresh, worn)).measured)]
    assert titles == ["randread 4k (fresh)", "randread 4k (conditioned)"]


def test_a_repeated_point_stays_and_is_numbered() -> None:
    sweep = Sweep(pattern=["randread"], queue_depth=[1, 8, 1], duration_s=5)
    (panel,) = panels(summary_of(plan(sweep)).measured)
    assert [point.tick for point in panel.points] == ["1", "1 (2nd)", "8"]


@pytest.mark.parametrize(
    ("sweeps", "logarithmic"),
    [
        (([1, 4, 32], [4, 32]), True),
        (([1, 4, 32], [32, 32]), False),
        (([1, 8, 30, 32, 64, 256], [8, 256]), False),
        (([1, 2, 3, 4, 6, 8, 12, 16], [2, 16]), True),
        (([8, 32], [30, 256]), True),
        (([32], [32]), True),
    ],
)
def test_a_queue_depth_has_one_place_in_every_panel_with_room_for_a_bar(
    sweeps: tuple[list[int], ...], logarithmic: bool
) -> None:
    patterns = ["randread", "randwrite"]
    found = panels(
        summary_of(
            plan(
                *(
                    Sweep(name=one, pattern=[one], queue_depth=depths, duration_s=5)
                    for one, depths in zip(patterns, sweeps, strict=True)
                )
            )
        ).measured
    )
    places: dict[str, set[float]] = {}
    for panel in found:
        for point in panel.points:
            places.setdefault(point.tick, set()).add(point.place)
    assert all(len(one) == 1 for one in places.values()), places
    assert len(set(map(frozenset, places.values()))) == len(places)
    by_log2 = {str(depth): {round(math.log2(depth), 4)} for one in sweeps for depth in one}
    assert (places == by_log2) is logarithmic
    grid = PanelGrid.of(found)
    for panel in found:
        assert 2 * grid.half_bar * step_px(grid, panel) >= 9


@given(
    st.lists(st.sampled_from(["randread", "write", "randrw"]), min_size=1, max_size=3, unique=True),
    st.lists(st.sampled_from(["512", "4k", "64k", "1m"]), min_size=1, max_size=4, unique=True),
    st.lists(st.sampled_from([1, 3, 32]), min_size=1, max_size=3),
    st.lists(st.sampled_from([1, 4]), min_size=1, max_size=2, unique=True),
)
def test_every_measured_phase_stands_in_exactly_one_place(
    patterns: list[str], sizes: list[str], depths: list[int], jobs: list[int]
) -> None:
    mixed = {"read_pct": [70, 0]} if "randrw" in patterns else {}
    sweep = Sweep(
        pattern=patterns,
        block_size=sizes,
        queue_depth=depths,
        jobs=jobs,
        duration_s=1,
        **mixed,
    )
    measured = summary_of(plan(sweep)).measured
    found = panels(measured)
    indices = [point.result.phase.index for panel in found for point in panel.points]
    assert sorted(indices) == [item.phase.index for item in measured]
    for panel in found:
        ticks = [point.tick for point in panel.points]
        assert len(set(ticks)) == len(ticks)


def test_power_states_are_an_axis_and_not_the_same_point_again() -> None:
    sweep = Sweep(pattern=["randread"], queue_depth=[32], power_state=[0, 1, 2], duration_s=5)
    (panel,) = panels(summary_of(plan(sweep)).measured)
    assert panel.title == "randread 4k QD32"
    assert [point.tick for point in panel.points] == ["PS0", "PS1", "PS2"]
    deeper = Sweep(pattern=["randread"], queue_depth=[1, 32], power_state=[0, 2], duration_s=5)
    titles = [panel.title for panel in panels(summary_of(plan(deeper)).measured)]
    assert titles == ["randread 4k PS0", "randread 4k PS2"]
