from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from labctl.analysis.steady_state.enough import Keeps
from labctl.capture.meters.acquisition import State
from labctl.capture.meters.live_values import LiveRail, View
from labctl.cli.terminal.live_view import moment_line, screen
from labctl.fio.status import LiveRates
from labctl.record.phase import Pattern, Phase, Role, Until
from labctl.record.point_end import PointNumber, PointState

PHASE = Phase(3, Role.MEASURE, "s", Pattern.RANDREAD, 6.0, 4096, 32, 1)


def shown(view: View, now_ns: int = 2_000_000_000, width: int = 80) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    console.print(screen(view, now_ns))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text.rstrip("\n").split("\n")


def full_view() -> View:
    return View(
        phase=PHASE,
        phases_total=11,
        ends_ns=60_000_000_000,
        rails={"12V": LiveRail(12.01, 0.5, 6.005), "3V3": LiveRail(3.3, 0.25, 0.825)},
        celsius={"composite": 55.5, "case": 40.0},
        host_watts={"bmc": 213.44, "plug": 240.0},
        rates=LiveRates(38_000.0, 155e6, 830.0),
        instruments={"v12": State.READING, "i12": State.LOST, "i33": State.READING},
        statuses={"i33.current": "overload"},
    )


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_moment_fits_the_terminal_line_by_line(width: int) -> None:
    lines = shown(full_view(), width=width)
    assert all(len(line) <= width for line in lines)


def test_everything_worth_seeing_is_there_each_on_its_own_line() -> None:
    lines = [line.strip() for line in shown(full_view())]
    assert lines[0].startswith("phase 4/11  randread 4k QD32  4 s left  (run: 0:58 left)")
    assert lines[1].startswith("━") and set(lines[1]) <= set("━╸╺ ")
    assert lines[2].split() == ["12V", "12.010", "V", "0.5000", "A", "6.005", "W"]
    assert lines[4].split() == ["total", "6.830", "W"]
    assert "38,000 IOPS" in lines[5] and "830 µs" in lines[5] and "composite 55.5 °C" in lines[5]
    assert lines[6] == "host   bmc 213.4 W   plug 240.0 W"
    assert "i12 lost" in lines[7] and "i33 overload" in lines[7] and "v12 ok" in lines[7]


def test_a_host_without_a_meter_has_no_line() -> None:
    assert not any("host" in line for line in shown(replace(full_view(), host_watts={})))


def test_a_point_says_how_well_it_is_known_and_all_that_keeps_it_going() -> None:
    state = PointState(
        PointNumber(0.41, 0.15, 0.38, 0.14), PointNumber(1.2, 0.0, 1.2, 0.5), tuple(Keeps)
    )
    view = replace(full_view(), phase=replace(PHASE, until=Until()), point=state)
    lines = shown(view)
    assert (
        lines[2] == "watts ±0.41 % (time's part 0.38 → 0.14)   IOPS ±1.2 % (time's part 1.2 → 0.5)"
    )
    assert lines[3].startswith("goes on: shortest time, no readings, ")
    said = " ".join(line.strip() for line in lines)
    assert ", ".join(keep.value for keep in Keeps) in said
    assert all(len(line) <= 80 for line in lines)
    done = shown(replace(view, point=replace(state, keeps=())))
    assert done[3].strip() == "good enough"


def test_a_log_gets_the_moment_in_one_line() -> None:
    line = moment_line(full_view())
    assert line.startswith("12V 6.005 W   3V3 0.825 W   38,000 IOPS   155.0 MB/s   composite 55.5")


def test_what_is_not_known_is_a_dash_and_the_total_is_never_a_partial_sum() -> None:
    view = View(phase=PHASE, phases_total=1, rails={
        "12V": LiveRail(12.0, None, None), "3V3": LiveRail(3.3, 0.25, 0.825),
    })  # fmt: skip
    lines = [line.strip() for line in shown(view)]
    assert lines[2].split() == ["12V", "12.000", "V", "–", "–"]
    assert lines[4].split() == ["total", "–"]


def test_before_the_first_phase_it_says_what_it_waits_for() -> None:
    assert "connecting to the meters" in shown(View())[0]


def test_a_purge_is_shown_without_the_hour_that_it_may_take() -> None:
    purge = Phase(0, Role.PREPARE, "purge", Pattern.PURGE, 3600.0, purge_method="auto")
    lines = [line.strip() for line in shown(View(phase=purge, phases_total=3))]
    assert lines[0] == "phase 1/3  purge (auto)" and not any("━" in line for line in lines)
    assert (purge.planned_s, PHASE.planned_s) == (0.0, 6.0)
