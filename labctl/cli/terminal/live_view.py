"""The live view of a run: a few lines of 80 columns that stay in place, or plain lines where the
output is no terminal."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from labctl.capture.meters.acquisition import State
from labctl.capture.meters.live_values import View
from labctl.cli.terminal.printer import Printer
from labctl.cli.terminal.so_far import SoFar
from labctl.record.drive_state import counter_words
from labctl.record.events import Event, EventKind, Outcome
from labctl.record.point_end import PointEnd
from labctl.record.timebase import NS_PER_S

if TYPE_CHECKING:  # who shows no run need not load what runs one: 0.08 s of CPU
    from labctl.capture.run.run import Run

REDRAW_PER_S = 4
PRINT_EVERY_S = 15.0
_STATE_STYLE = {
    State.READING: "green",
    State.CONNECTING: "yellow",
    State.LOST: "bold red",
    State.STOPPED: "dim",
}


@contextlib.contextmanager
def showing(run: Run, console: Console, printer: Printer) -> Iterator[Callable[[Event], None]]:
    """Show a run while the block lasts; gives the function that takes its events. ``printer``
    prints them, and is closed with the block."""
    if not console.is_terminal:
        over = threading.Event()
        threading.Thread(target=_print_every, args=(run, console, over), daemon=True).start()
        try:
            yield lambda event: printer.do(partial(_print_plain, run, console, event))
        finally:
            over.set()
            printer.close()
        return
    so_far = SoFar()

    def drawn() -> RenderableType:
        view, now_ns = run.monitor.view(), run.timebase.now_ns()
        so_far.add(view, now_ns)
        return screen(view, now_ns, so_far)

    display = Live(
        get_renderable=drawn,
        console=console,
        refresh_per_second=REDRAW_PER_S,
        transient=True,
    )
    display.start()
    try:
        yield lambda event: printer.do(partial(_print_above, run, display.console, event))
    finally:
        printer.close()
        with contextlib.suppress(OSError):  # the terminal may be gone
            display.stop()


def screen(view: View, now_ns: int, so_far: SoFar | None = None) -> RenderableType:
    """The newest values, drawn for a terminal, above them what was measured so far."""
    lines: list[RenderableType] = [_phase_line(view, now_ns)]
    if view.phase is not None and view.phase.planned_s:
        done_s = (now_ns - view.phase_begin_ns) / NS_PER_S
        bar = ProgressBar(total=view.phase.planned_s, completed=done_s, width=60)
        lines.append(Padding(bar, (0, 0)))
    lines += point_lines(view)
    lines.append(_live_view_rails(view))
    lines.append(_live_view_work(view))
    if view.host_watts:
        lines.append(Text(host_line(view), "dim"))
    lines.append(_live_view_meters(view))
    if so_far is not None:
        above = so_far.table()
        lines = [line for line in (above, *lines, so_far.power_line()) if line is not None]
    return Group(*lines)


def _phase_line(view: View, now_ns: int) -> Text:
    if view.phase is None:
        return Text("connecting to the meters …", style="yellow")
    text = Text.assemble(
        (f"phase {view.phase.index + 1}/{view.phases_total}  ", "dim"),
        (view.phase.label, "bold"),
    )
    most = "" if view.phase.until is None else "≤ "
    if view.phase.planned_s:
        left_s = view.phase.planned_s - (now_ns - view.phase_begin_ns) / NS_PER_S
        text.append(f"  {most}{max(left_s, 0):.0f} s left", "dim")
    if view.ends_ns is not None:
        all_s = max((view.ends_ns - now_ns) / NS_PER_S, 0.0)
        text.append(f"  (run: {most}{_live_view_clock(all_s)} left)", "dim")
    return text


def point_lines(view: View, width: int = 80) -> list[Text]:
    """How well the numbers of the point are known, where its end depends on that, and all that
    keeps it going, in lines of ``width``."""
    if view.phase is None or view.phase.until is None or view.point is None:
        return []
    numbers = view.point.numbers(view.phase.until.settled) or "not known yet"
    keeps = ", ".join(view.point.keeps)
    why = f"goes on: {keeps}" if keeps else "good enough"
    lines = [
        Text(numbers),
        *(Text(line, "dim") for line in wrap(why, width, subsequent_indent=" " * 9)),
    ]
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return lines


def _live_view_clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _live_view_value(value: float | None, spec: str, unit: str) -> str:
    return "–" if value is None else f"{value:{spec}} {unit}"


def _live_view_rails(view: View) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(width=8)
    for _ in range(3):
        table.add_column(width=12, justify="right")
    for name, rail in view.rails.items():
        table.add_row(
            name,
            _live_view_value(rail.volts, ".3f", "V"),
            _live_view_value(rail.amps, ".4f", "A"),
            _live_view_value(rail.watts, ".3f", "W"),
        )
    if len(view.rails) > 1:
        table.add_row("total", "", "", _live_view_value(view.watts, ".3f", "W"), style="bold")
    return table


def _live_view_work(view: View) -> Text:
    parts = []
    if view.rates is not None:
        parts.append(f"{view.rates.iops:,.0f} IOPS")
        parts.append(f"{view.rates.bytes_per_s / 1e6:,.1f} MB/s")
        if view.rates.latency_mean_us is not None:
            parts.append(f"{view.rates.latency_mean_us:,.0f} µs")
    parts += [f"{sensor} {value:.1f} °C" for sensor, value in view.celsius.items()]
    return Text("   ".join(parts))


def host_line(view: View) -> str:
    """The watts of the drive's host, by its meters; empty where it has none."""
    parts = [f"{meter} {watts:.1f} W" for meter, watts in view.host_watts.items()]
    return "   ".join(["host", *parts]) if parts else ""


def _live_view_meters(view: View) -> Text:
    text = Text("meters  ", style="dim")
    for name, state in sorted(view.instruments.items()):
        shown = {State.READING: "ok"}.get(state, state.value)
        troubles = {
            status for channel, status in view.statuses.items() if channel.startswith(f"{name}.")
        }
        if state is State.READING and troubles:
            text.append(f"{name} {'/'.join(sorted(troubles))}  ", "bold yellow")
        else:
            text.append(f"{name} {shown}  ", _STATE_STYLE[state])
    return text


def _event_line(run: Run, event: Event) -> str:
    """An event as a line for a person; empty when it is not worth one."""
    data = event.data
    match event.kind:
        case EventKind.PHASE_STARTED:
            phase = run.phases[data["index"]]
            return f"phase {phase.index + 1}/{len(run.phases)} {phase.label}"
        case EventKind.PHASE_ENDED if data["outcome"] != Outcome.COMPLETED:
            return f"phase {data['index'] + 1} {data['outcome']}: {data['reason']}"
        case EventKind.PHASE_ENDED:
            seconds = (data["end_ns"] - data["begin_ns"]) / NS_PER_S
            end = PointEnd.from_json(data.get("point"))
            how = "" if end is None else f", {end.words}"
            return f"phase {data['index'] + 1} done in {seconds:.2f} s{how}"
        case EventKind.MARK:
            return f"mark: {data['text']}"
        case EventKind.INSTRUMENT_LOST:
            return f"meter lost: {data['instrument']}: {data['reason']}"
        case EventKind.INSTRUMENT_BACK:
            return f"meter back: {data['instrument']}"
        case EventKind.STATUS_BEGAN:
            return f"{data['channel']}: {data['status']} {data['detail']}".rstrip()
        case EventKind.WALL_CLOCK_STEP:
            return f"the wall clock was stepped by {data['seconds']} s (readings are not moved)"
        case EventKind.HELD_UP:
            return f"labctl stood still for {data['seconds']:.1f} s (meters may miss readings)"
        case EventKind.DRIVE_COUNTERS:
            moved = ", ".join(counter_words(name, a, b) for name, (a, b) in data["moved"].items())
            return f"thermal counters of {_drive_name(data)} moved: {moved}"
        case EventKind.DRIVE_SILENT:
            return f"{_drive_name(data)} does not tell its SMART: {data['reason']}"
        case EventKind.DRIVE_BACK:
            return f"{_drive_name(data)} tells its SMART again"
        case EventKind.HOST_LOST:
            return f"host lost: {data['reason']}"
        case EventKind.HOST_BACK:
            restarted = ", restarted" if data["rebooted"] else ""
            return f"host back after {data['gap_s']:.1f} s{restarted}"
        case EventKind.HOST_CLOCK_STEP:
            return f"the host's wall clock was set by {data['seconds']} s"
        case EventKind.GUARD_TRIPPED:
            return f"limit passed: {data['reason']} ({data['action']})"
        case EventKind.PAUSED:
            return f"paused until the drive is at {data['until_celsius']:g} °C"
        case EventKind.RESUMED:
            return "going on"
        case EventKind.STEADY_STATE:
            reached = "steady" if data["reached"] else "not steady"
            return f"{data['sweep']}: {reached} after round {data['round']}"
        case EventKind.TEMPERATURE_STEADY:
            reached = "stands" if data["reached"] else "does not stand yet"
            at = "" if data["celsius"] is None else f", at {data['celsius']:.1f} °C"
            return f"the temperature {reached}{at}"
        case EventKind.RUN_RESUMED:
            return f"run resumed after {data['gap_s']:.1f} s: {len(data['kept'])} phases are kept"
        case EventKind.RUN_ENDED:
            return f"run {data['outcome']}{': ' if data['reason'] else ''}{data['reason']}"
    return ""


def _drive_name(data: Mapping[str, Any]) -> str:
    return f"drive {data['drive']}" if data.get("drive") else "the drive"


def _live_view_stamp(event: Event) -> str:
    return time.strftime("%H:%M:%S", time.localtime(event.t_ns / NS_PER_S))


def moment_line(view: View) -> str:
    """The newest values in one line, for a log."""
    parts = [
        f"{name} {_live_view_value(rail.watts, '.3f', 'W')}" for name, rail in view.rails.items()
    ]
    if view.rates is not None:
        parts += [f"{view.rates.iops:,.0f} IOPS", f"{view.rates.bytes_per_s / 1e6:,.1f} MB/s"]
    parts += [f"{sensor} {value:.1f} °C" for sensor, value in view.celsius.items()]
    return "   ".join(parts)


def _print_every(run: Run, console: Console, over: threading.Event) -> None:
    """Without a terminal: print the newest values every ``PRINT_EVERY_S``."""
    while not over.wait(PRINT_EVERY_S):
        view = run.monitor.view()
        if view.phase is not None:
            now = "   ".join(line for line in (moment_line(view), host_line(view)) if line)
            _write_live_view_line(console, f"{time.strftime('%H:%M:%S')}    {now}")


def _write_live_view_line(console: Console, line: str) -> None:
    with contextlib.suppress(OSError):  # standard output may be closed
        console.print(line, soft_wrap=True)


def _print_plain(run: Run, console: Console, event: Event) -> None:
    line = _event_line(run, event)
    if line:
        _write_live_view_line(console, f"{_live_view_stamp(event)}  {line}")


def _print_above(run: Run, console: Console, event: Event) -> None:
    if event.kind in (EventKind.PHASE_STARTED, EventKind.RUN_ENDED):
        return  # the screen shows it
    line = _event_line(run, event)
    if line and not (
        event.kind == EventKind.PHASE_ENDED and event.data["outcome"] == Outcome.COMPLETED
    ):
        with contextlib.suppress(OSError):
            console.print(Text(f"{_live_view_stamp(event)}  {line}", style="yellow"))
