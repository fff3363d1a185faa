"""The screens of ``labctl watch``: one rig's values, events and queue, or all rigs of a lab, cut to
the lines of the terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.rule import Rule
from rich.text import Text

from labctl.capture.meters.live_values import View
from labctl.cli.overnight.status import daemon_line
from labctl.cli.terminal.jobs_table import jobs_table, jobs_wait
from labctl.cli.terminal.lab_table import lab_lines
from labctl.cli.terminal.live_view import screen
from labctl.printable import printable
from labctl.record.events import Event
from labctl.record.phase import Phase
from labctl.service.queue.schedule import ExpectedTimes
from labctl.service.status.broker_rigs import RemoteRigs
from labctl.service.status.local_rigs import LocalStatus, RigStatus
from labctl.sinks.follow.event_points import event_point

EVENTS_SHOWN = 8
JOBS_SHOWN = 8
LINE_CELLS = 79
KEYS = "q quit   Tab next rig   p pause/resume the queue   c cancel the job"
REMOTE_KEYS = "q quit   Tab next rig   a all rigs"


@dataclass
class ScreenState:
    """State of the screen, changed by keys."""

    chosen: int = 0
    question: str = ""
    question_job: int = 0
    """Number of the job that ``question`` is about."""
    note: str = ""
    over: bool = False
    errors: list[str] = field(default_factory=list)


def local_screen(status: LocalStatus, state: ScreenState) -> RenderableType:
    """The screen of this machine's rigs."""
    top: list[RenderableType] = [Text(daemon_line(status), style="dim")]
    top += [Text(f"! {problem}", style="yellow") for problem in status.problems[:2]]
    footer = _footer(state, KEYS)
    if not status.rigs:
        top.append(Text("no rig is in use and nothing is queued: labctl queue add RIG PLAN"))
        return Group(*top, footer)
    rig = status.rigs[state.chosen % len(status.rigs)]
    top.append(_tabs([one.name for one in status.rigs], state))
    return _Fitted(
        Group(*top, *_now_on_screen(rig)),
        _events_on_screen(rig),
        _Jobs(rig, status.expected),
        footer,
    )


def remote_screen(remote: RemoteRigs, state: ScreenState) -> RenderableType:
    """The screen of the rigs of a broker: first all of them, then one after the other."""
    rigs, footer = remote.rigs(), _footer(state, REMOTE_KEYS)
    if not rigs:
        return Group(Text("no rig tells anything to this broker yet"), footer)
    number = state.chosen % (len(rigs) + 1) if len(rigs) > 1 else 1
    if number == 0:
        problems = [f"! {remote.problem}"] if remote.problem else []
        return _Lab([*problems, *lab_lines(rigs, time.time_ns(), LINE_CELLS)], footer)
    rig = rigs[number - 1]
    shown_state = rig.state.get("state", "idle") if rig.online else "offline"
    plan = rig.state.get("plan") or ""
    parts: list[RenderableType] = [
        _screen_line(f"{rig.name}  ({number} of {len(rigs)})", "reverse")
    ]
    waits = f"   {jobs_wait(rig.waiting)}" if rig.waiting else ""
    parts.append(_screen_line(f"{shown_state}  {plan}{waits}", "bold"))
    if rig.online:
        parts.append(_values_on_screen(rig.view(), time.time_ns()))
    parts.append(Rule("events", style="dim"))
    for event in list(rig.events)[-EVENTS_SHOWN:]:
        parts.append(
            _screen_line(f"{event.get('time', '')}  {event.get('title', event.get('kind', ''))}")
        )
    return Group(*parts, footer)


@dataclass(frozen=True)
class _Lab:
    """The rigs of a lab, as many as there are lines for: those that need somebody are first."""

    lines: Sequence[str]
    footer: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table, how many lines of it are left out, and the keys."""
        height = options.height or console.height
        taken = len(console.render_lines(self.footer, options.reset_height()))
        room = max(height - taken, 1)
        shown = self.lines if len(self.lines) <= room else self.lines[: room - 1]
        yield from (_screen_line(line) for line in shown)
        if len(shown) < len(self.lines):
            yield Text(f"and {len(self.lines) - len(shown)} more lines", style="dim")
        yield self.footer


def _now_on_screen(rig: RigStatus) -> Iterator[RenderableType]:
    title = rig.state
    if rig.running is not None:
        title += f"   job {rig.running.id}: {rig.running.plan}"
    elif rig.use is not None:
        title += f"   {rig.use.plan}, by hand (pid {rig.use.pid})"
    if rig.paused and rig.state != "paused":
        title += "   (paused: no further job begins)"
    yield Text(title, style="bold")
    if rig.view is not None and rig.run_view is not None:
        yield _values_on_screen(rig.view, rig.run_view.now_ns())


def _events_on_screen(rig: RigStatus) -> list[Text]:
    """The newest events of the run that is on, the newest last."""
    if rig.run_view is None:
        return []
    phases = {phase.index: phase for phase in rig.run_view.header.phases}
    return [_event_line(event, phases) for event in list(rig.run_view.events)[-EVENTS_SHOWN:]]


@dataclass(frozen=True)
class _Jobs:
    """The queue of a rig, cut to the lines that are free."""

    rig: RigStatus
    expected: Mapping[int, ExpectedTimes]

    @property
    def lines(self) -> int:
        """How many lines the whole queue takes."""
        waiting, running = len(self.rig.waiting), self.rig.running is not None
        more = waiting > JOBS_SHOWN
        return 1 + len(self.rig.last) + running + min(waiting, JOBS_SHOWN) + more

    def within(self, lines: int) -> RenderableType:
        """What runs and waits first; what is over where there is room."""
        rig = self.rig
        running = [] if rig.running is None else [rig.running]
        room = max(lines - 1 - len(running), 0)  # the titles take one
        most = min(room, JOBS_SHOWN)
        if len(rig.waiting) > most:
            most = min(max(room - 1, 0), JOBS_SHOWN)  # how many more there are takes one
        waiting, more = rig.waiting[:most], len(rig.waiting[most:])
        room -= len(waiting) + bool(more)
        over = rig.last[-room:] if room > 0 else ()
        jobs = [*over, *running, *waiting]
        parts: list[RenderableType] = []
        if jobs:
            parts.append(jobs_table(jobs, self.expected, a_line_each=True))
        if more:
            parts.append(Text(f"and {more} more", style="dim"))
        return Group(*parts) if parts else Text("nothing", style="dim")


@dataclass(frozen=True)
class _Fitted:
    """The screen of a rig, cut so that the keys are on the last line of any terminal."""

    top: RenderableType
    events: Sequence[Text]
    jobs: _Jobs
    footer: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Top and footer whole; the queue gets what the events leave, and at least half."""
        free = options.reset_height()
        height = options.height or console.height
        taken = len(console.render_lines(Group(self.top, self.footer), free))
        rules = 1 + bool(self.events)
        rest = max(height - taken - rules, 0)
        lines = min(self.jobs.lines, max(rest - len(self.events), rest // 2))
        shown = rest - lines
        yield self.top
        if self.events and shown > 0:
            yield Rule("events", style="dim")
            yield from self.events[-shown:]
        if lines > 0:
            yield Rule("queue", style="dim")
            queue = console.render_lines(self.jobs.within(lines), free, new_lines=True)
            for line in queue[:lines]:
                yield from line
        yield self.footer


def _values_on_screen(view: View, now_ns: int) -> RenderableType:
    if view.phase is None and not view.rails:
        return Text("between phases", style="dim")
    return screen(view, now_ns)


def _event_line(event: Event, phases: Mapping[int, Phase]) -> Text:
    stamp = time.strftime("%H:%M:%S", time.localtime(event.t_ns / 1e9))
    point = event_point(event, phases, {})
    words = ": ".join(str(point.fields[name]) for name in ("title", "text") if point.fields[name])
    style = {"warning": "yellow", "error": "red"}.get(point.tags["severity"], "dim")
    return _screen_line(f"{stamp}  {words}", style)


def _screen_line(content: str, style: str = "") -> Text:
    """One printable line, cut."""
    text = Text(printable(content), style=style)
    text.truncate(LINE_CELLS, overflow="ellipsis")
    return text


def _tabs(names: Sequence[str], state: ScreenState) -> Text:
    chosen = state.chosen % len(names)
    return Text("  ").join(
        Text(f" {name} ", style="reverse bold" if index == chosen else "dim")
        for index, name in enumerate(names)
    )


def _footer(state: ScreenState, keys: str) -> RenderableType:
    line = state.question or state.note or (state.errors[-1] if state.errors else "")
    return Group(Rule(style="dim"), Text(line, style="bold yellow"), Text(keys, style="dim"))
