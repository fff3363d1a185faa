"""``labctl read``: live values of every channel of a rig, like a wall of meters."""

from __future__ import annotations

import json
import math
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from instruments.reading import BESIDE_VALUES, Batch, Channel
from labctl.capture.meters.acquisition import Acquisition, State
from labctl.cli.terminal.arguments import JsonOption, RigArgument
from labctl.config.find_rig import find_rig
from labctl.config.rig import Rig
from labctl.record.timebase import Timebase

SPARKS = "▁▂▃▄▅▆▇█"
HISTORY = 24
DIGITS = 6
_STATE_STYLE = {State.READING: "", State.CONNECTING: "yellow", State.LOST: "bold red"}


@dataclass(slots=True)
class Needle:
    """One channel on the wall. ``value`` is the mean since the last look; None: no reading."""

    channel: Channel
    state: State = State.CONNECTING
    reason: str = ""
    value: float | None = None
    status: str = ""
    total: float = 0.0
    count: int = 0
    history: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY))


class Wall:
    """Takes what the owner threads read; ``look`` gives the means since the look before."""

    def __init__(self, rig: Rig) -> None:
        self._lock = threading.Lock()
        self._needles = {
            f"{name}.{channel.name}": Needle(channel)
            for name, channels in rig.channels.items()
            for channel in channels
        }

    def batch(self, instrument: str, batch: Batch) -> None:
        """Readings came in (called by owner threads)."""
        with self._lock:
            for reading in batch.statuses:
                if reading.status not in BESIDE_VALUES:
                    needle = self._needles[f"{instrument}.{reading.channel}"]
                    needle.status, needle.value = reading.status.value, None
            for block in batch.blocks:
                if len(block):
                    needle = self._needles[f"{instrument}.{block.channel}"]
                    needle.total += float(block.values.sum())
                    needle.count += len(block)
                    needle.status = ""

    def state(self, instrument: str, state: State, reason: str) -> None:
        """An instrument came or went (called by owner threads)."""
        with self._lock:
            for name, needle in self._needles.items():
                if name.partition(".")[0] == instrument:
                    needle.state, needle.reason = state, reason
                    if state is not State.READING:
                        needle.value = None

    def look(self) -> list[tuple[str, Needle, int]]:
        """Each channel by name, with the number of readings since the last look."""
        with self._lock:
            seen = []
            for name, needle in self._needles.items():
                count = needle.count
                if count:
                    needle.value = needle.total / count
                    needle.history.append(needle.value)
                needle.total, needle.count = 0.0, 0
                seen.append((name, needle, count))
            return seen


def sparkline(values: Iterable[float]) -> str:
    """The values as bars between their least and their greatest."""
    found = list(values)
    if not found:
        return ""
    low, high = min(found), max(found)
    if high == low:
        return SPARKS[0] * len(found)
    top = len(SPARKS) - 1
    return "".join(SPARKS[round((value - low) / (high - low) * top)] for value in found)


def shown(value: float, unit: str) -> str:
    """A value with six digits and a prefix: ``12.0483 V``, ``250.012 mA``."""
    if value == 0 or unit == "°C":
        return f"{value:.{DIGITS}g} {unit}"
    power = min(max(math.floor(math.log10(abs(value)) / 3), -3), 2)
    prefix = {-3: "n", -2: "µ", -1: "m", 0: "", 1: "k", 2: "M"}[power]
    scaled = value / 1000.0**power
    decimals = max(DIGITS - 1 - math.floor(math.log10(abs(scaled))), 0)
    return f"{scaled:.{min(decimals, DIGITS)}f} {prefix}{unit}"


def show_rig(
    rig_name: str, every_s: float, seconds: float | None, json_output: bool, console: Console
) -> int:
    """Read a rig until Ctrl-C, or for ``seconds``; the exit code.

    0: every instrument was read; 1: one of them could not be. Raises ConfigurationError.
    """
    rig = find_rig(rig_name)
    timebase = Timebase()
    wall = Wall(rig)
    group = Acquisition(rig.create_instruments(timebase.now_ns), timebase.now_ns, wall)
    group.start()
    try:
        with _ctrl_c() as over:
            _show(wall, group, timebase, every_s, seconds, json_output, console, over)
    except KeyboardInterrupt:
        pass
    finally:
        never_read = [
            name for name, owner in group.owners.items() if owner.state is not State.READING
        ]
        group.stop()
    for name in never_read:
        print(f"labctl: {name}: {group.owners[name].reason}", file=sys.stderr)
    return int(bool(never_read))


def _show(
    wall: Wall,
    group: Acquisition,
    timebase: Timebase,
    every_s: float,
    seconds: float | None,
    json_output: bool,
    console: Console,
    over: threading.Event,
) -> None:
    end = math.inf if seconds is None else time.monotonic() + seconds
    with (
        Live(console=console, auto_refresh=False)
        if _on_screen(console, json_output)
        else (_Nothing()) as live
    ):
        while (left_s := end - time.monotonic()) > 0:
            if over.wait(min(every_s, left_s)):
                return
            _connected_first(wall, group)
            seen = wall.look()
            if live is not None:
                live.update(_table(seen), refresh=True)
            elif json_output:
                for line in _json_lines(seen, timebase.now_ns()):
                    print(line, flush=True)
            else:
                clock = time.strftime("%H:%M:%S")
                for name, needle, _ in seen:
                    print(f"{clock}  {name:<24} {_words(needle)}", flush=True)


@contextmanager
def _ctrl_c() -> Iterator[threading.Event]:
    """Is set by Ctrl-C, which then cuts no frame in two: half a frame would stay on the screen."""
    over = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: over.set())
    try:
        yield over
    finally:
        signal.signal(signal.SIGINT, before)


class _Nothing:
    """No screen: lines are printed instead."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def _on_screen(console: Console, json_output: bool) -> bool:
    return console.is_terminal and not json_output


def _connected_first(wall: Wall, group: Acquisition) -> None:
    """An instrument that never connected tells it only through its owner."""
    for name, owner in group.owners.items():
        if owner.state is State.LOST:
            wall.state(name, State.LOST, owner.reason)


def _words(needle: Needle) -> str:
    if needle.state is not State.READING:
        return f"{needle.state.value}: {needle.reason}" if needle.reason else needle.state.value
    if needle.status or needle.value is None:
        return needle.status or "–"
    return shown(needle.value, needle.channel.unit)


def _table(seen: list[tuple[str, Needle, int]]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False, width=78)
    table.add_column(width=24, no_wrap=True, overflow="ellipsis")
    table.add_column(width=22, justify="right", no_wrap=True, overflow="ellipsis")
    table.add_column(width=HISTORY + 2, no_wrap=True)
    for name, needle, _ in seen:
        style = "yellow" if needle.status else _STATE_STYLE.get(needle.state, "dim")
        table.add_row(name, Text(_words(needle), style=style), sparkline(needle.history))
    return table


def _json_lines(seen: list[tuple[str, Needle, int]], now_ns: int) -> Iterable[str]:
    for name, needle, count in seen:
        yield json.dumps(
            {
                "t_ns": now_ns,
                "channel": name,
                "value": needle.value if count else None,
                "unit": needle.channel.unit,
                "readings": count,
                "status": needle.status,
                "state": needle.state.value,
                "reason": needle.reason,
            }
        )


def read_command(
    rig: RigArgument,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between looks.")] = 1.0,
    seconds: Annotated[float | None, typer.Option(help="Stop after so long.")] = None,
    json_output: JsonOption = False,
) -> None:
    """Show live values of every channel of a rig, until Ctrl-C."""
    from labctl.cli.terminal.console import Terminal

    raise typer.Exit(show_rig(rig, every, seconds, json_output, Terminal()))
