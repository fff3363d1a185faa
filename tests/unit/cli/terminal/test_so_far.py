"""What the live view shows of the points that are finished, and of the last minutes."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from labctl.capture.meters.live_values import LiveRail, View
from labctl.cli.run.run import stopping_text
from labctl.cli.terminal.live_view import screen
from labctl.cli.terminal.so_far import STEPS, SoFar, bar
from labctl.record.phase import Role
from labctl.record.timebase import NS_PER_S
from tests.unit.cli.terminal.test_live_view import PHASE, full_view


def seen(points: int, seconds_each: int = 10) -> tuple[SoFar, View]:
    so_far = SoFar()
    view = full_view()
    for index in range(points + 1):
        phase = replace(PHASE, index=index, queue_depth=2**index)
        amps = 0.25 * (index + 1)
        rails = {"12V": LiveRail(12.0, amps, 12.0 * amps)}
        view = replace(view, phase=phase, rails=rails)
        for second in range(seconds_each):
            so_far.add(view, (index * seconds_each + second) * NS_PER_S)
    return so_far, view


def drawn(so_far: SoFar, view: View) -> list[str]:
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    console.print(screen(view, 2 * NS_PER_S, so_far))
    return console.file.getvalue().rstrip("\n").split("\n")  # type: ignore[attr-defined]


def test_finished_points_have_watts_a_bar_and_iops_per_watt() -> None:
    so_far, view = seen(2)
    lines = drawn(so_far, view)
    assert "QD1" in lines[0] and "3.00 W" in lines[0] and "12,667 IOPS/W" in lines[0]
    assert "QD2" in lines[1] and "6.00 W" in lines[1] and bar(1.0) in lines[1]
    assert any("watts  " in line and "▁" in line for line in lines)
    assert all(len(line) <= 80 for line in lines)


def test_a_long_run_fits_24_lines() -> None:
    so_far, view = seen(40, seconds_each=60)
    lines = drawn(so_far, view)
    assert len(lines) <= 24 and all(len(line) <= 80 for line in lines)
    assert len(so_far.points) == 40
    power = so_far.power_line()
    assert power is not None and f"{STEPS * 5 // 60} min" in power.plain


def test_the_first_seconds_are_no_zero_minutes() -> None:
    power = seen(1, seconds_each=20)[0].power_line()
    assert power is not None and power.plain.endswith(" s") and " 0 " not in power.plain


def test_idling_and_preparing_are_no_points_and_nothing_shows_before_anything_is_known() -> None:
    so_far = SoFar()
    assert so_far.table() is None and so_far.power_line() is None
    for number, role in enumerate((Role.IDLE_BEFORE, Role.PREPARE)):
        view = replace(full_view(), phase=replace(PHASE, index=number, role=role), rails={})
        so_far.add(view, number * NS_PER_S)
    so_far.add(replace(full_view(), phase=None), 9 * NS_PER_S)
    assert so_far.points == []
    assert bar(0) == "" and len(bar(7.0)) == len(bar(1.0))


def test_after_ctrl_c_it_is_said_what_happens_how_long_and_how_to_go_on() -> None:
    from pathlib import Path

    text = stopping_text(Path("runs/r"))
    assert "what was recorded is kept" in text and "about 15 s" in text
    assert "labctl run --resume runs/r" in text and "kills" in text
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "--resume" not in stopping_text(None) and "fio" not in stopping_text(None)
