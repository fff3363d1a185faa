"""``labctl read``: live values of every channel of a rig, like a wall of meters."""

from __future__ import annotations

import json
import math
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import nullcontext
from typing import Annotated

import typer
from rich.live import Live
from rich.table import Table
from rich.text import Text

from labctl.capture.meters.acquisition import Acquisition, State
from labctl.capture.meters.live_channels import HISTORY_VALUES, LiveChannel, LiveChannels
from labctl.cli.terminal.arguments import JsonOption, RigArgument
from labctl.cli.terminal.console import Terminal
from labctl.cli.terminal.end_signal import EndSignal, ended_by
from labctl.cli.terminal.held_rig import held
from labctl.cli.terminal.sparkline import sparkline
from labctl.config.find_rig import find_rig
from labctl.config.rig import Rig
from labctl.record.timebase import Timebase

DIGITS = 6
_STATE_STYLE = {State.READING: "", State.CONNECTING: "yellow", State.LOST: "bold red"}


def read(
    rig: RigArgument,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between values.")] = 1.0,
    seconds: Annotated[float | None, typer.Option(min=0.0, help="Stop after so long.")] = None,
    json_output: JsonOption = False,
) -> int:
    """Show live values of every channel of a rig, until Ctrl-C."""
    # the exit code is 1 when an instrument could not be read
    found = find_rig(rig)
    with held(found, "labctl read"):
        return _read_and_show(found, every, seconds, json_output)


def _read_and_show(rig: Rig, every: float, seconds: float | None, json_output: bool) -> int:
    """Show them; the exit code."""
    timebase = Timebase()
    channels = LiveChannels(rig)
    instruments = rig.create_instruments(timebase.now_ns)
    acquisition = Acquisition(instruments, timebase.now_ns, channels)
    acquisition.start()
    try:
        # no exception: it would leave half a frame on the screen
        with ended_by(signal.SIGINT) as over:
            _show_read_values(channels, acquisition, timebase, every, seconds, json_output, over)
    except KeyboardInterrupt:
        pass
    finally:
        not_read = {
            name: owner.reason
            for name, owner in acquisition.owners.items()
            if owner.state is not State.READING
        }
        acquisition.stop()
    for name, reason in not_read.items():
        print(f"labctl: {name}: {reason}", file=sys.stderr)
    return int(bool(not_read))


def shown(value: float, unit: str) -> str:
    """A value with six digits and a prefix: ``12.0483 V``, ``250.012 mA``."""
    if value == 0 or unit == "°C":
        return f"{value:.{DIGITS}g} {unit}"
    power = min(max(math.floor(math.log10(abs(value)) / 3), -3), 2)
    prefix = {-3: "n", -2: "µ", -1: "m", 0: "", 1: "k", 2: "M"}[power]
    scaled = value / 1000.0**power
    decimals = max(DIGITS - 1 - math.floor(math.log10(abs(scaled))), 0)
    return f"{scaled:.{min(decimals, DIGITS)}f} {prefix}{unit}"


def _show_read_values(
    channels: LiveChannels,
    acquisition: Acquisition,
    timebase: Timebase,
    every_s: float,
    seconds: float | None,
    json_output: bool,
    over: EndSignal,
) -> None:
    """Show or print every ``every_s`` until ``over`` is asked for, or for ``seconds``."""
    console = Terminal()
    end = math.inf if seconds is None else time.monotonic() + seconds
    on_screen = console.is_terminal and not json_output
    with Live(console=console, auto_refresh=False) if on_screen else nullcontext() as display:
        while (left_s := end - time.monotonic()) > 0:
            if over.wait(min(every_s, left_s)):
                return
            _mark_lost(channels, acquisition)
            seen = channels.take()
            if display is not None:
                display.update(_read_values_table(seen), refresh=True)
            elif json_output:
                for line in _json_lines(seen, timebase.now_ns()):
                    print(line, flush=True)
            else:
                clock = time.strftime("%H:%M:%S")
                for name, live, _ in seen:
                    print(f"{clock}  {name:<24} {_value_text(live)}", flush=True)


def _mark_lost(channels: LiveChannels, acquisition: Acquisition) -> None:
    """Mark instruments that never connected: only their owner's state shows that."""
    for name, owner in acquisition.owners.items():
        if owner.state is State.LOST:
            channels.state(name, State.LOST, owner.reason)


def _value_text(live: LiveChannel) -> str:
    if live.state is not State.READING:
        return f"{live.state.value}: {live.reason}" if live.reason else live.state.value
    if live.status or live.value is None:
        return live.status or "–"
    return shown(live.value, live.channel.unit)


def _read_values_table(seen: list[tuple[str, LiveChannel, int]]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False, width=78)
    table.add_column(width=24, no_wrap=True, overflow="ellipsis")
    table.add_column(width=22, justify="right", no_wrap=True, overflow="ellipsis")
    table.add_column(width=HISTORY_VALUES + 2, no_wrap=True)
    for name, live, _ in seen:
        style = "yellow" if live.status else _STATE_STYLE.get(live.state, "dim")
        table.add_row(name, Text(_value_text(live), style=style), sparkline(live.history))
    return table


def _json_lines(seen: list[tuple[str, LiveChannel, int]], now_ns: int) -> Iterable[str]:
    for name, live, count in seen:
        yield json.dumps(
            {
                "t_ns": now_ns,
                "channel": name,
                "value": live.value if count else None,
                "unit": live.channel.unit,
                "readings": count,
                "status": live.status,
                "state": live.state.value,
                "reason": live.reason,
            }
        )
