"""``labctl watch``: the state of rigs on the whole screen, and its keys."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
import tty
from collections.abc import Callable, Iterator

from rich.console import Console, RenderableType
from rich.live import Live

from labctl.cli.overnight.watch_screen import ScreenState, local_screen, remote_screen
from labctl.cli.terminal.arguments import BrokerOption
from labctl.cli.terminal.console import Terminal
from labctl.errors import LabctlError
from labctl.service.data_dir import find_home
from labctl.service.queue.store import Queue
from labctl.service.status.broker_rigs import listen
from labctl.service.status.local_rigs import LocalStatus, StatusReader

REDRAW_EVERY_S = 0.5


def watch(broker: BrokerOption = None) -> None:
    """Show it on the whole screen until q; works over ssh."""
    console = Terminal()
    if not (console.is_terminal and sys.stdin.isatty()):
        raise LabctlError("labctl watch needs a terminal; labctl status prints once")
    state = ScreenState()
    if broker is not None:
        listener = listen(broker, state.errors)
        remote = listener.rigs
        try:
            _watch_loop(
                console,
                lambda: remote_screen(remote, state),
                lambda key: _remote_key(key, state, len(remote.rigs())),
                state,
            )
        finally:
            listener.close()
        return
    reader, queue = StatusReader(find_home()), Queue(find_home())
    newest: list[LocalStatus] = []

    def draw() -> RenderableType:
        newest[:] = [reader.status()]
        return local_screen(newest[0], state)

    def press(key: str) -> None:
        if newest:
            _local_key(key, state, newest[0], queue)

    _watch_loop(console, draw, press, state)


def _remote_key(key: str, state: ScreenState, rigs: int) -> None:
    if key == "q":
        state.over = True
    elif key == "a":
        state.chosen = 0
    elif key == "\t" and rigs:
        state.chosen += 1


def _local_key(key: str, state: ScreenState, status: LocalStatus, queue: Queue) -> None:
    state.note = ""
    rig = status.rigs[state.chosen % len(status.rigs)] if status.rigs else None
    if state.question:
        state.question = ""
        if key == "y":
            state.note = _result_of(
                lambda: queue.cancel(state.question_job), "its run is being stopped"
            )
        return
    _remote_key(key, state, len(status.rigs))
    if rig is None:
        return
    if key == "p":
        change = queue.resume if rig.paused else queue.pause
        result = "jobs begin again" if rig.paused else "no further job begins"
        state.note = _result_of(lambda: change(rig.name), f"{rig.name}: {result}")
    elif key == "c":
        if rig.running is None:
            state.note = "no job of the queue runs here; a run by hand ends with its own Ctrl-C"
        else:
            state.question_job = rig.running.id
            state.question = (
                f"cancel job {state.question_job} ({rig.running.plan})? y: yes, else no"
            )


def _result_of(action: Callable[[], object], done: str) -> str:
    try:
        action()
    except LabctlError as error:
        return str(error)
    return done


def _watch_loop(
    console: Console,
    draw: Callable[[], RenderableType],
    press: Callable[[str], None],
    state: ScreenState,
) -> None:
    with (
        _watch_keys() as key_within,
        Live(console=console, screen=True, auto_refresh=False) as display,
    ):
        while not state.over:
            display.update(draw(), refresh=True)
            key = key_within(REDRAW_EVERY_S)
            while key and not state.over:
                press(key)
                key = key_within(0.0)


@contextlib.contextmanager
def _watch_keys() -> Iterator[Callable[[float], str]]:
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
        return pressed.decode("ascii", "replace") if pressed else "q"  # the terminal was closed

    tty.setcbreak(descriptor)
    try:
        yield key_within
    finally:
        with contextlib.suppress(termios.error):  # the terminal may be gone
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
