"""``labctl watch``: the whole screen, from what is on disk or told to a broker."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.rule import Rule
from rich.text import Text

from labctl.capture.monitor import View
from labctl.cli.live import screen
from labctl.cli.queueing import jobs_table
from labctl.cli.standing import daemon_line, listen
from labctl.errors import LabctlError
from labctl.phase import Phase
from labctl.record import Event
from labctl.service.home import find_home
from labctl.service.queue import Queue
from labctl.service.remote import RemoteRig
from labctl.service.status import Looker, RigStatus, Status
from labctl.sinks.event_points import event_point

REDRAW_EVERY_S = 0.5
EVENTS_SHOWN = 8
JOBS_SHOWN = 8
KEYS = "q quit   Tab next rig   p pause/resume the queue   c cancel the job"
REMOTE_KEYS = "q quit   Tab next rig"


@dataclass
class _Screen:
    """What was chosen with keys."""

    chosen: int = 0
    asks: str = ""
    note: str = ""
    over: bool = False
    errors: list[str] = field(default_factory=list)


def watch(broker: str | None) -> None:
    """Show it until q. Raises LabctlError without a terminal, or when a broker does not answer."""
    console = Console()
    if not (console.is_terminal and sys.stdin.isatty()):
        raise LabctlError("labctl watch needs a terminal; labctl status prints once")
    state = _Screen()
    if broker is not None:
        listener = listen(broker, state.errors)
        rigs = listener.rigs
        try:
            _loop(
                console,
                lambda: remote_screen(rigs.rigs(), state),
                lambda key: _remote_key(key, state, len(rigs.rigs())),
                state,
            )
        finally:
            listener.close()
        return
    looker, queue = Looker(find_home()), Queue(find_home())
    newest: list[Status] = []

    def draw() -> RenderableType:
        newest[:] = [looker.status()]
        return local_screen(newest[0], state)

    def press(key: str) -> None:
        if newest:
            _local_key(key, state, newest[0], queue)

    _loop(console, draw, press, state)


def local_screen(status: Status, state: _Screen) -> RenderableType:
    """The picture of this machine."""
    parts: list[RenderableType] = [Text(daemon_line(status), style="dim")]
    if not status.rigs:
        parts.append(Text("no rig is in use and nothing is queued: labctl queue add RIG PLAN"))
    else:
        rig = status.rigs[state.chosen % len(status.rigs)]
        parts.append(_tabs([one.name for one in status.rigs], state))
        parts += _rig_parts(rig, status)
    parts += [Text(f"! {problem}", style="yellow") for problem in status.problems[:2]]
    return Group(*parts, _footer(state, KEYS))


def remote_screen(rigs: Sequence[RemoteRig], state: _Screen) -> RenderableType:
    """The picture of the rigs that a broker knows."""
    if not rigs:
        return Group(Text("no rig tells anything to this broker yet"), _footer(state, REMOTE_KEYS))
    rig = rigs[state.chosen % len(rigs)]
    said = rig.state.get("state", "idle") if rig.online else "offline"
    plan = rig.state.get("plan") or ""
    parts: list[RenderableType] = [_tabs([one.name for one in rigs], state)]
    parts.append(Text(f"{said}  {plan}", style="bold"))
    if rig.online:
        parts.append(_picture(rig.view(), time.time_ns()))
    parts.append(Rule("events", style="dim"))
    for event in list(rig.events)[-EVENTS_SHOWN:]:
        parts.append(Text(f"{event.get('time', '')}  {event.get('title', event.get('kind', ''))}"))
    return Group(*parts, _footer(state, REMOTE_KEYS))


def _rig_parts(rig: RigStatus, status: Status) -> Iterator[RenderableType]:
    title = rig.state
    if rig.running is not None:
        title += f"   job {rig.running.id}: {rig.running.plan}"
    elif rig.use is not None:
        title += f"   {rig.use.plan}, by hand (pid {rig.use.pid})"
    if rig.paused and rig.state == "running":
        title += "   (paused: no further job begins)"
    yield Text(title, style="bold")
    if rig.view is not None and rig.look is not None:
        yield _picture(rig.view, rig.look.now_ns())
        yield Rule("events", style="dim")
        phases = {phase.index: phase for phase in rig.look.header.phases}
        for event in list(rig.look.events)[-EVENTS_SHOWN:]:
            yield _event_line(event, phases)
    yield Rule("queue", style="dim")
    jobs = [*rig.last, *((rig.running,) if rig.running else ()), *rig.waiting[:JOBS_SHOWN]]
    yield jobs_table(jobs, status.expected) if jobs else Text("nothing", style="dim")
    if len(rig.waiting) > JOBS_SHOWN:
        yield Text(f"and {len(rig.waiting) - JOBS_SHOWN} more", style="dim")


def _picture(view: View, now_ns: int) -> RenderableType:
    if view.phase is None and not view.rails:
        return Text("between phases", style="dim")
    return screen(view, now_ns)


def _event_line(event: Event, phases: Mapping[int, Phase]) -> Text:
    stamp = time.strftime("%H:%M:%S", time.localtime(event.t_ns / 1e9))
    point = event_point(event, phases, {})
    words = ": ".join(str(point.fields[name]) for name in ("title", "text") if point.fields[name])
    style = {"warning": "yellow", "error": "red"}.get(point.tags["severity"], "dim")
    text = Text(f"{stamp}  {words}", style=style)
    text.truncate(79, overflow="ellipsis")
    return text


def _tabs(names: Sequence[str], state: _Screen) -> Text:
    chosen = state.chosen % len(names)
    return Text("  ").join(
        Text(f" {name} ", style="reverse bold" if index == chosen else "dim")
        for index, name in enumerate(names)
    )


def _footer(state: _Screen, keys: str) -> RenderableType:
    line = state.asks or state.note or (state.errors[-1] if state.errors else "")
    return Group(Rule(style="dim"), Text(line, style="bold yellow"), Text(keys, style="dim"))


def _remote_key(key: str, state: _Screen, rigs: int) -> None:
    if key == "q":
        state.over = True
    elif key == "\t" and rigs:
        state.chosen = (state.chosen + 1) % rigs


def _local_key(key: str, state: _Screen, status: Status, queue: Queue) -> None:
    state.note = ""
    rig = status.rigs[state.chosen % len(status.rigs)] if status.rigs else None
    if state.asks:
        state.asks = ""
        running = None if rig is None else rig.running
        if key == "y" and running is not None:
            state.note = _tried(lambda: queue.cancel(running.id), "its run is being stopped")
        return
    _remote_key(key, state, len(status.rigs))
    if rig is None:
        return
    if key == "p":
        change = queue.resume if rig.paused else queue.pause
        said = "jobs begin again" if rig.paused else "no further job begins"
        state.note = _tried(lambda: change(rig.name), f"{rig.name}: {said}")
    elif key == "c":
        if rig.running is None:
            state.note = "no job of the queue runs here; a run by hand ends with its own Ctrl-C"
        else:
            state.asks = f"cancel job {rig.running.id} ({rig.running.plan})? y: yes, else no"


def _tried(action: Callable[[], object], done: str) -> str:
    try:
        action()
    except LabctlError as error:
        return str(error)
    return done


def _loop(
    console: Console,
    draw: Callable[[], RenderableType],
    press: Callable[[str], None],
    state: _Screen,
) -> None:
    with _keys() as key_within, Live(console=console, screen=True, auto_refresh=False) as display:
        while not state.over:
            display.update(draw(), refresh=True)
            key = key_within(REDRAW_EVERY_S)
            while key and not state.over:
                press(key)
                key = key_within(0.0)


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """Gives a function that waits for a key; the terminal is as before afterwards."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def key_within(seconds: float) -> str:
        ready, _, _ = select.select([descriptor], [], [], seconds)
        if not ready:
            return ""
        try:
            pressed = os.read(descriptor, 1)
        except OSError:
            pressed = b""
        return pressed.decode("ascii", "replace") if pressed else "q"  # the terminal is gone

    tty.setcbreak(descriptor)
    try:
        yield key_within
    finally:
        with contextlib.suppress(termios.error):  # the terminal may be gone
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
