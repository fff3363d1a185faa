"""The troubles of a chaos run, each done to a :class:`Place` at once, and what is noted of it."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from labctl.record.events import EventKind
from labctl.record.layout import EVENTS_FILE
from tests.chaos.place import Place, make_full, make_room
from tests.faults.daemon_run import events_of

GONE_WITHIN_S = 60.0
HANGS_S = 8.0
"""How long an ssh connection is silent at least: labctl gives it up after 6 s."""
METER_FAULTS = (
    ("i12", "silent"), ("i12", "disconnect"), ("i12", "memory_overflow"), ("i12", "overload"),
    ("v12", "nonsense"), ("v12", "disconnect"), ("i33", "overload"), ("i33", "disconnect"),
    ("v33", "disconnect"), ("v33", "hold"), ("thermocouple", "disconnect"),
    ("thermocouple", "open_sensor"),
)  # fmt: skip


@dataclass
class Trouble:
    """One trouble. Times are CLOCK_MONOTONIC, ns."""

    what: str
    killed: bool
    at_ns: int
    until_ns: int = 0
    run: Path | None = None
    """The run that was on."""
    when: str = "between runs"
    """``in a phase``, ``between phases``, ``while connecting`` or ``while reporting``."""
    events: bytes = b""
    """The whole lines of the run's journal right after it."""
    meter: str = ""
    detail: str = ""
    lost_s: dict[str, float] = field(default_factory=dict)
    """What it cost each channel."""
    resumed_s: float | None = None
    """From the kill until the run was resumed."""

    def __str__(self) -> str:
        run = self.run.name if self.run is not None else "no run"
        return f"{self.what} {self.detail} {self.when} ({run})"


def make(place: Place, what: str, rng: random.Random) -> Trouble:
    """Do it. What labctl had started and must end is gone afterwards, or it is noted as wrong."""
    use = place.run_on()
    run = Path(use.run) if use is not None and use.run else None
    trouble = Trouble(what, what.endswith("killed"), 0, run=run, when=_moment(run))
    dead: list[psutil.Process] = []
    if what == "run killed" and use is not None:
        dead = _family(use.pid)
    elif what == "daemon killed" and place.daemon.process is not None:
        dead = _family(place.daemon.process.pid)
    elif what.startswith("ssh"):
        dead = [one for one in place.processes() if "tmp-of-host" in _folder(one)]
    names = {one.pid: _words(one) for one in dead}
    trouble.at_ns = time.monotonic_ns()
    DO[what](place, rng, trouble)
    trouble.until_ns = time.monotonic_ns()
    left = _left(place, [one for one in dead if "fio" in names[one.pid].split()[:1]])
    if what == "ssh killed" and place.sshd is not None:
        _pass(place, HANGS_S if trouble.detail else 0.0)
        place.sshd.signal_sessions(signal.SIGCONT)  # a keeper ends when its connection does
    left += _left(place, dead)
    place.wrong += [f"{trouble}: {one.pid} is left: {names[one.pid]}" for one in left]
    if run is not None:
        trouble.events = _whole_lines(run)
    return trouble


def _left(place: Place, dead: list[psutil.Process]) -> list[psutil.Process]:
    """Those that are not gone within a minute. The daemon is kept up meanwhile."""
    deadline = time.monotonic() + GONE_WITHIN_S
    while (left := [one for one in dead if _works(one)]) and time.monotonic() < deadline:
        place.keep_daemon_up()
        time.sleep(0.2)
    return left


def possible(place: Place, spared: set[str]) -> dict[str, float]:
    """The troubles that can be done here, with their weights."""
    on = place.run_on() is not None
    weights = {
        "run killed": 24.0 * on,
        "daemon killed": 14.0 if on else 4.0,
        "database killed": 12.0 * (place.influx is not None),
        "broker killed": 12.0 * (place.broker is not None),
        "ssh killed": 24.0 * (on and _remote(place)),
        "ssh server killed": 8.0 * (on and _remote(place)),
        "run stopped": 4.0 * on,
        "daemon stopped": 2.0,
        "database stopped": 2.0 * (place.influx is not None),
        "meter": 8.0,
        "meters without power": 2.0,
        "wall clock stepped": 4.0 * (place.clock is not None),
        "disk full": 2.0 * (place.disk is not None),
        "rig read again": 1.0,
    }
    return {what: weight for what, weight in weights.items()
            if weight and what.split()[0] not in spared}  # fmt: skip


def _kill_run(place: Place, rng: random.Random, trouble: Trouble) -> None:
    use = place.run_on()
    if use is not None:
        use.process.signal(signal.SIGKILL)


def _kill_daemon(place: Place, rng: random.Random, trouble: Trouble) -> None:
    place.kill_daemon()
    time.sleep(rng.uniform(0.0, 3.0))


def _away(server: str) -> Callable[[Place, random.Random, Trouble], None]:
    """Kill a server, and start it again."""

    def away(place: Place, rng: random.Random, trouble: Trouble) -> None:
        one = getattr(place, server)
        one.kill()
        _pass(place, rng.uniform(0.2, 5.0))
        one.start()

    return away


def _cut_ssh(place: Place, rng: random.Random, trouble: Trouble) -> None:
    assert place.sshd is not None
    silent = rng.random() < 0.3  # nothing comes any more, not even a FIN
    trouble.detail = "silently" if silent else ""
    place.sshd.signal_sessions(signal.SIGSTOP if silent else signal.SIGKILL)


def _stop_sshd(place: Place, rng: random.Random, trouble: Trouble) -> None:
    assert place.sshd is not None
    place.sshd.stop()
    _pass(place, rng.uniform(0.2, 5.0))
    place.sshd.start()


def _stop(find: Callable[[Place], int | None]) -> Callable[[Place, random.Random, Trouble], None]:
    """Stop a process for a while."""

    def stop(place: Place, rng: random.Random, trouble: Trouble) -> None:
        pid = find(place)
        with contextlib.suppress(ProcessLookupError):
            if pid is not None:
                os.kill(pid, signal.SIGSTOP)
                time.sleep(rng.uniform(0.5, 3.0))
                os.kill(pid, signal.SIGCONT)

    return stop


def _run_pid(place: Place) -> int | None:
    use = place.run_on()
    return use.pid if use is not None else None


def _daemon_pid(place: Place) -> int | None:
    process = place.daemon.process
    return process.pid if process is not None and process.poll() is None else None


def _influx_pid(place: Place) -> int | None:
    process = place.influx.process if place.influx is not None else None
    return process.pid if process is not None else None


def _meter(place: Place, rng: random.Random, trouble: Trouble) -> None:
    trouble.meter, fault = rng.choice(METER_FAULTS)
    trouble.detail = f"{trouble.meter} {fault}"
    place.bench.inject(trouble.meter, fault, rng.uniform(0.5, 3.0))


def _no_power(place: Place, rng: random.Random, trouble: Trouble) -> None:
    from tests.faults.test_meters_in_turn import with_power, without_power

    trouble.meter = "all"
    without_power(place.bench)
    _pass(place, rng.uniform(0.5, 4.0))
    with_power(place.bench)


def _step_clock(place: Place, rng: random.Random, trouble: Trouble) -> None:
    assert place.clock is not None
    seconds = rng.choice((-3600.0, 3600.0, -20.0, 20.0, 0.9))
    trouble.detail = f"by {seconds:+g} s"
    place.clock.step(seconds)


def _fill_disk(place: Place, rng: random.Random, trouble: Trouble) -> None:
    assert place.disk is not None
    make_full(place.disk)
    _pass(place, rng.uniform(0.5, 4.0))
    make_room(place.disk)


def _read_again(place: Place, rng: random.Random, trouble: Trouble) -> None:
    if _daemon_pid(place) is not None:
        place.daemon.send(signal.SIGHUP)


DO: dict[str, Callable[[Place, random.Random, Trouble], None]] = {
    "run killed": _kill_run,
    "daemon killed": _kill_daemon,
    "database killed": _away("influx"),
    "broker killed": _away("broker"),
    "ssh killed": _cut_ssh,
    "ssh server killed": _stop_sshd,
    "run stopped": _stop(_run_pid),
    "daemon stopped": _stop(_daemon_pid),
    "database stopped": _stop(_influx_pid),
    "meter": _meter,
    "meters without power": _no_power,
    "wall clock stepped": _step_clock,
    "disk full": _fill_disk,
    "rig read again": _read_again,
}


def _pass(place: Place, seconds: float) -> None:
    """Let time pass, with the daemon kept up."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        place.keep_daemon_up()
        time.sleep(min(0.2, max(end - time.monotonic(), 0)))


def _remote(place: Place) -> bool:
    return place.sshd is not None and 'host = "local"' not in place.rig.read_text()


def _moment(run: Path | None) -> str:
    if run is None:
        return "between runs"
    kinds = [event["kind"] for event in events_of(run)]
    ends = [
        place
        for place, kind in enumerate(kinds)
        if kind in (EventKind.RUN_STARTED, EventKind.RUN_RESUMED)
    ]
    since = kinds[ends[-1] :] if ends else []
    if EventKind.RUN_ENDED in since:
        return "while reporting"
    phases = [kind for kind in since if kind in (EventKind.PHASE_STARTED, EventKind.PHASE_ENDED)]
    if not phases:
        return "while connecting"
    return "in a phase" if phases[-1] == EventKind.PHASE_STARTED else "between phases"


def _whole_lines(run: Path) -> bytes:
    with contextlib.suppress(OSError):
        data = (run / EVENTS_FILE).read_bytes()
        return data[: data.rfind(b"\n") + 1]
    return b""


def _family(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    return []


def _works(process: psutil.Process) -> bool:
    """Whether it is there. One that has ended is not, though its parent is stopped and does not
    know."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _folder(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        return process.cwd()
    return ""


def _words(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.NoSuchProcess):
        return " ".join(process.cmdline())[-300:]
    return "it has just ended"
