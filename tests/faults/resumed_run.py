"""A run that is killed and resumed as a person does it, and what must hold of it afterwards."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from instruments.simulated.drive.ground_truth import GroundTruth
from labctl.analysis.readings.channel_series import channel_series
from labctl.analysis.run.summary import summarise
from labctl.analysis.run_summary import RunSummary
from labctl.record.events import EventKind
from labctl.record.header import ChannelInfo
from labctl.record.layout import EVENTS_FILE
from labctl.record.reader import RunRecord, find_runs
from labctl.record.timebase import NS_PER_S
from tests.bench.test_fio_phases import fios_below

WITHIN_S = 300.0
"""For whatever must happen, on a machine that others keep busy."""
PLAN = """
name = "{name}"
idle_before_s = 2
idle_after_s = 3
{more}
[[sweeps]]
pattern = "randread"
queue_depth = {depths}
duration_s = {seconds}
"""


def plan_file(
    folder: Path, seconds: float = 2, depths: str = "[1, 8, 32]", more: str = "", name: str = "p"
) -> Path:
    file = folder / f"{name}.toml"
    file.write_text(PLAN.format(name=name, seconds=seconds, depths=depths, more=more))
    return file


def labctl(*words: str) -> list[str]:
    return [sys.executable, "-m", "labctl.cli.main", *words]


@dataclass
class Interruptible:
    """One run, begun and gone on with as often as it takes."""

    rig: Path
    plan: Path
    runs: Path
    process: subprocess.Popen[str] | None = None

    @property
    def path(self) -> Path:
        (path,) = find_runs(self.runs)
        return path

    @property
    def resume_words(self) -> list[str]:
        return ["run", str(self.rig), "--resume", str(self.path)]

    def go_on(self) -> subprocess.Popen[str]:
        """Begin it, or go on with it."""
        found = find_runs(self.runs)
        begin = ["run", str(self.rig), str(self.plan), "--runs", str(self.runs)]
        words = self.resume_words if found else begin
        self.process = subprocess.Popen(
            labctl(*words),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        return self.process

    def go_on_until_resumed(self, count: int) -> subprocess.Popen[str]:
        """Go on with it until that is recorded for the ``count``-th time; like the daemon, begin
        again where a busy machine did not let the meters connect in time."""
        for _ in range(20):
            process = self.go_on()
            while process.poll() is None:
                events = RunRecord(self.path).events
                if sum(event.kind == EventKind.RUN_RESUMED for event in events) >= count:
                    return process
                time.sleep(0.05)
            output, _ = process.communicate()
            away = "not connected yet" in output or "no answer" in output
            assert process.returncode == 1 and away, output
        raise AssertionError(f"it does not go on: {output}")

    def kill(self, number: signal.Signals = signal.SIGKILL) -> int:
        """Kill it; when that was, CLOCK_MONOTONIC in ns. No fio of it may be left."""
        assert self.process is not None
        killed_ns = time.monotonic_ns()
        self.process.send_signal(number)
        self.process.communicate(timeout=WITHIN_S)
        deadline = time.monotonic() + 30
        while fios_below(self.runs):
            assert time.monotonic() < deadline, "a fio is left"
            time.sleep(0.02)
        return killed_ns

    def until(self, kind: str, count: int = 1, index: int | None = None) -> None:
        """Wait until an event was recorded so often."""
        deadline = time.monotonic() + WITHIN_S
        while True:
            found = find_runs(self.runs)
            events = RunRecord(found[0]).events if found else ()
            same = [e for e in events if e.kind == kind and index in (None, e.data.get("index"))]
            if len(same) >= count:
                return
            assert self.process is not None
            over = self.process.poll() is not None or time.monotonic() > deadline
            assert not over, self.process.communicate(timeout=5)
            time.sleep(0.05)

    def finish(self) -> RunSummary:
        """Go on until it is completed."""
        output, _ = self.go_on().communicate(timeout=WITHIN_S)
        assert self.process is not None and self.process.returncode == 0, output
        return self.summary()

    def summary(self) -> RunSummary:
        """What its record says by now."""
        return summarise(RunRecord(self.path))


def events_file(path: Path) -> bytes:
    return (path / EVENTS_FILE).read_bytes()


def assert_completed_once(path: Path) -> None:
    """Every phase is completed exactly once, and the record is whole."""
    record = RunRecord(path)
    assert record.problems == []
    assert record.end is not None and record.end.data["outcome"] == "completed"
    completed = [
        event.data["index"]
        for event in record.events
        if event.kind == "phase_ended" and event.data["outcome"] == "completed"
    ]
    assert sorted(completed) == [phase.index for phase in record.header.phases]


def assert_times_ascend(path: Path) -> None:
    """On the timebase of the run no reading lies before the one recorded before it."""
    record = RunRecord(path)
    for info in record.header.channels:
        series = channel_series(record, info)
        assert series.problems == (), info.name
        host_ns = series.clock.to_host_ns(series.stamps)
        assert (host_ns[1:] > host_ns[:-1]).all(), info.name


def assert_true(record: RunRecord, summary: RunSummary, bench: Path, since_ns: int = 0) -> None:
    """Every phase (since a moment) has its watts, and they lie within their uncertainty of what the
    bench knows; twice it, for there are many phases and it is stated for 95 % of them.

    On a busy machine a meter may have had too few readings in a phase, and nowhere else a phase
    may be without watts.
    """
    truth, anchor = GroundTruth(bench / "truth"), record.anchor
    assert all(result.outcome == "completed" for result in summary.phases)
    judged = [result for result in summary.phases if result.begin_ns >= since_ns]
    for result in judged:
        if result.watts is None:
            assert starved(record, result.begin_ns, result.end_ns), result.phase.label
            continue
        begin_ns = anchor.to_monotonic_ns(result.begin_ns)
        end_ns = anchor.to_monotonic_ns(result.end_ns)
        true_watts = sum(truth.mean_watts(begin_ns, end_ns).values())
        assert abs(result.watts.value - true_watts) <= 2 * result.watts.u, result.phase.label
    assert any(result.watts is not None for result in judged), "no phase has watts"


def starved(record: RunRecord, begin_ns: int, end_ns: int) -> list[str]:
    """Channels of the rails that have too few readings between two moments for watts.

    Two must lie wholly inside, so four are enough wherever the edges fall; of more, four fifths.
    """
    rails = record.header.rails
    names = {name for rail in rails for name in (rail.voltage, rail.current)}
    found = []
    for name in sorted(names):
        info = record.channel(name)
        series = channel_series(record, info)
        host_ns = series.clock.to_host_ns(series.stamps)
        count = int(((host_ns >= begin_ns) & (host_ns <= end_ns)).sum())
        due = (end_ns - begin_ns) / NS_PER_S / info.interval_s
        if count < max(4, 0.85 * due):
            found.append(f"{name}: {count} of {due:.0f}")
    return found


def lost_before(path: Path, killed_ns: Sequence[int]) -> dict[str, dict[int, float]]:
    """For each channel, what each kill cost it: seconds from the moment at which the meter was done
    with the reading after the last one that is recorded, until the kill. Below 0: it was not.

    A meter's own pace is the median distance of its readings, which are of the middle of their
    window, or the longest one where their moments are drawn at random. Only of channels that had
    readings in the process that was killed, and of kills before the last phase was over: then the
    meters are stopped, and there is nothing to lose. What fio and the host tell has no pace of its
    own: they are asked again some time after they have answered.
    """
    record = RunRecord(path)
    begins = [
        event.t_ns
        for event in record.events
        if event.kind in ("run_started", EventKind.RUN_RESUMED)
    ]
    over_ns = max(event.t_ns for event in record.events if event.kind == "phase_ended")
    lost: dict[str, dict[int, float]] = {}
    for info in record.header.channels:
        if info.name.startswith(("fio.", "host.")):
            continue
        series = channel_series(record, info)
        host_ns = series.clock.to_host_ns(series.stamps)
        pace_ns = longest_pace_ns(info, host_ns)
        for kill_ns in killed_ns:
            kill = record.header.anchor.from_monotonic_ns(kill_ns)
            if kill > over_ns:
                continue
            begin = max(begin for begin in begins if begin < kill)
            inside = host_ns[(host_ns > begin) & (host_ns <= kill)]
            if len(inside):
                due_ns = int(inside[-1]) + pace_ns + info.aperture_s / 2 * NS_PER_S
                lost.setdefault(info.name, {})[kill_ns] = (kill - due_ns) / NS_PER_S
    return lost


def longest_pace_ns(info: ChannelInfo, host_ns: NDArray[np.int64]) -> float:
    """What lies between two readings of a channel at most: those that are asked for at a random
    moment of their interval may be nearly two intervals apart."""
    pace_ns = max(float(np.median(np.diff(host_ns))), info.interval_s * NS_PER_S)
    return pace_ns * (1 + info.dither)


class HeldUp:
    """How late this machine is: what a thread that only sleeps wakes too late.

    What was not scheduled cannot have been written: the machine's part in what a kill costs.
    """

    _STEP_S = 0.005

    def __init__(self) -> None:
        self._late: list[tuple[int, float]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> HeldUp:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.is_set():
            asleep_s = time.monotonic()
            self._over.wait(self._STEP_S)
            late_s = time.monotonic() - asleep_s - self._STEP_S
            if late_s > self._STEP_S:
                self._late.append((time.monotonic_ns(), late_s))

    def before(self, kill_ns: int) -> float:
        """Seconds by which it was late in the second before a kill, in sum."""
        return self.between(kill_ns - NS_PER_S, kill_ns)

    def between(self, begin_ns: int, end_ns: int) -> float:
        """The same between two moments, and what it woke up from just after them."""
        late_ns = NS_PER_S // 10
        return sum(s for at, s in self._late if begin_ns < at - late_ns <= end_ns)
