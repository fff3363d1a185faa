"""``make soak``: the daemon works jobs off on the simulated bench, with faults at random.

``LABCTL_SOAK_MINUTES`` (20) says how long, ``LABCTL_SOAK_SEED`` which faults. Meters fail, runs are
killed and go on, and InfluxDB is never there. In the end the daemon's memory, file descriptors and
threads must be what they were in the beginning, its processor time a small share, every job done,
and the readings of the meter with a memory complete against its own clock.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from instruments.simulated.bench import Bench
from labctl.record import RunRecord, find_runs
from labctl.service.job import JobState
from labctl.service.rig_lock import rigs_in_use
from tests.bench.test_fio_phases import fios_below
from tests.faults.daemon_run import DaemonProcess, labctl, plan_file
from tests.soak.counts import miscounted

MINUTES = float(os.environ.get("LABCTL_SOAK_MINUTES", "20"))
SEED = int(os.environ.get("LABCTL_SOAK_SEED", "1"))
FAULTS = (
    ("i12", "silent"), ("i12", "disconnect"), ("i12", "memory_overflow"), ("i12", "overload"),
    ("v12", "nonsense"), ("v12", "disconnect"), ("i33", "overload"), ("i33", "silent"),
    ("v33", "hold"), ("thermocouple", "open_sensor"),
)  # fmt: skip
SINK = '\n[sinks.influxdb]\nurl = "http://127.0.0.1:9"\norg = "lab"\nbucket = "soak"\n'
"""Nobody listens on the discard port."""
MOST_BYTES_GROWN = 8 << 20
MOST_MORE = 3
"""File descriptors and threads; a run that is on, or between jobs, makes a difference of some."""
MOST_CPU_SHARE = 0.10
ENDS_WITHIN_S = 300.0


@dataclass(frozen=True, slots=True)
class Use:
    """What a process uses at a moment."""

    resident_bytes: int
    descriptors: int
    threads: int
    cpu_s: float

    @classmethod
    def of(cls, pid: int) -> Use:
        """From procfs (proc(5): stat fields 14 and 15, statm field 2)."""
        proc = Path("/proc") / str(pid)
        fields = (proc / "stat").read_text().rpartition(")")[2].split()
        return cls(
            resident_bytes=int((proc / "statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE"),
            descriptors=len(list((proc / "fd").iterdir())),
            threads=int(fields[17]),
            cpu_s=(int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"),
        )


def soak(folder: Path, minutes: float, rng: random.Random) -> list[str]:
    """Do it; what was wrong, in words."""
    uses: list[Use] = []
    killed = 0
    with Bench(folder / "bench") as bench:
        rig = folder / "rig.toml"
        rig.write_text(bench.rig.read_text() + SINK)
        home = folder / "home"
        plan = plan_file(folder, seconds=4, depths="[1, 8, 32]")
        os.environ["LABCTL_INFLUX_TOKEN"] = "nobody asks for it"
        with DaemonProcess(home, rig) as daemon:
            assert daemon.process is not None
            deadline = time.monotonic() + 60 * minutes
            began = time.monotonic()
            while time.monotonic() < deadline:
                if all(job.state.over for job in daemon.queue.jobs()):
                    labctl(home, "queue", "add", str(rig), str(plan))
                time.sleep(rng.uniform(1.0, 6.0))
                uses.append(Use.of(daemon.process.pid))
                running = rigs_in_use(daemon.home)
                if running and rng.random() < 0.2:
                    running[0].process.signal(signal.SIGKILL)
                    killed += 1
                elif rng.random() < 0.4:
                    bench.inject(*rng.choice(FAULTS), rng.uniform(0.5, 3.0))
            elapsed_s = time.monotonic() - began
            daemon.until(lambda: all(job.state.over for job in daemon.queue.jobs()), ENDS_WITHIN_S)
            jobs = daemon.queue.jobs()
            daemon.end()
    wrong = [f"job {job.id}: {job.reason}" for job in jobs if job.state is not JobState.DONE]
    wrong += [f"fio left: {pid}" for pid in fios_below(folder)]
    wrong += ["the daemon's log has a traceback"] * ("Traceback" in daemon.said())
    wrong += grown(uses, elapsed_s)
    runs = find_runs(home / "runs")
    for path in runs:
        record = RunRecord(path)
        wrong += [f"{path.name}: {problem}" for problem in record.problems]
        wrong += [f"{path.name}: {words}" for words in miscounted(record)]
    print(f"{elapsed_s / 60:.1f} min, {len(jobs)} jobs, {len(runs)} runs, {killed} kills")
    return wrong


def grown(uses: list[Use], elapsed_s: float) -> list[str]:
    """What the last third uses more than the second; the first is for warming up."""
    third = len(uses) // 3
    before, after = uses[third : 2 * third], uses[2 * third :]
    limits = {
        "resident_bytes": MOST_BYTES_GROWN, "descriptors": MOST_MORE, "threads": MOST_MORE,
    }  # fmt: skip
    wrong = []
    for name, limit in limits.items():
        was, now = (statistics.median(getattr(use, name) for use in p) for p in (before, after))
        print(f"{name:<16} {was:>14,.0f} {now:>14,.0f}")
        if now - was > limit:
            wrong.append(f"{name} grew from {was:,.0f} to {now:,.0f}")
    share = (uses[-1].cpu_s - uses[0].cpu_s) / elapsed_s
    print(f"{'cpu share':<16} {share:>14.2%}")
    return wrong + ([f"the daemon takes {share:.0%} of a processor"] * (share > MOST_CPU_SHARE))


def main() -> int:
    """Soak for as long as asked; the exit code."""
    with tempfile.TemporaryDirectory(prefix="labctl-soak-") as folder:
        wrong = soak(Path(folder), MINUTES, random.Random(SEED))
    for words in wrong:
        print(words, file=sys.stderr)
    print("soak: " + ("FAILED" if wrong else "all well"))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
