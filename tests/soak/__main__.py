"""``make soak``: the daemon works jobs off on the simulated bench, with faults at random.

``LABCTL_SOAK_MINUTES`` (20) says how long, ``LABCTL_SOAK_SEED`` which faults. Meters fail, runs are
killed and go on, or are stopped for a while, and InfluxDB is never there. In the end the daemon's
memory, file descriptors, threads and children must be what they were in the beginning, its
processor time a small share, every job done, and the readings of the meter with a memory complete
against its own clock.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from instruments.simulated.bench import Bench
from labctl.record.reader import RunRecord, find_runs
from labctl.service.locks.rig_lock import rigs_in_use
from labctl.service.queue.job import JobState
from tests.bench.test_fio_phases import fios_below
from tests.faults.daemon_run import DaemonProcess, labctl, plan_file
from tests.soak.counts import CHANNEL, miscounted
from tests.soak.resources import Use, cpu_share, grown, medians

MINUTES = float(os.environ.get("LABCTL_SOAK_MINUTES", "20"))
SEED = int(os.environ.get("LABCTL_SOAK_SEED", "1"))
FAULTS = (
    ("i12", "silent"), ("i12", "disconnect"), ("i12", "memory_overflow"), ("i12", "overload"),
    ("v12", "nonsense"), ("v12", "disconnect"), ("i33", "overload"), ("i33", "silent"),
    ("v33", "hold"), ("thermocouple", "open_sensor"),
)  # fmt: skip
SINK = '\n[sinks.influxdb]\nurl = "http://127.0.0.1:9"\norg = "lab"\nbucket = "soak"\n'
"""Nobody listens on the discard port."""
ENDS_WITHIN_S = 300.0


def soak(folder: Path, minutes: float, rng: random.Random) -> list[str]:
    """Do it; what was wrong, in words."""
    uses: list[Use] = []
    killed, stops, faults = 0, 0, 0
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
                match rng.choices(("kill", "stop", "meter", "reload", ""), (20, 8, 35, 7, 30))[0]:
                    case "kill" if running:
                        running[0].process.signal(signal.SIGKILL)
                        killed += 1
                    case "stop" if running:
                        running[0].process.signal(signal.SIGSTOP)
                        time.sleep(rng.uniform(0.5, 3.0))
                        running[0].process.signal(signal.SIGCONT)
                        stops += 1
                    case "meter":
                        bench.inject(*rng.choice(FAULTS), rng.uniform(0.5, 3.0))
                        faults += 1
                    case "reload":
                        daemon.send(signal.SIGHUP)
            elapsed_s = time.monotonic() - began
            daemon.until(lambda: all(job.state.over for job in daemon.queue.jobs()), ENDS_WITHIN_S)
            jobs = daemon.queue.jobs()
            daemon.end()
    wrong = [f"job {job.id}: {job.reason}" for job in jobs if job.state is not JobState.DONE]
    wrong += [f"fio left: {pid}" for pid in fios_below(folder)]
    wrong += ["the daemon's log has a traceback"] * ("Traceback" in daemon.said())
    wrong += grown(uses, elapsed_s)
    show(uses, elapsed_s)
    runs = find_runs(home / "runs")
    readings = 0
    for path in runs:
        record = RunRecord(path)
        wrong += [f"{path.name}: {problem}" for problem in record.problems]
        wrong += [f"{path.name}: {words}" for words in miscounted(record)]
        readings += len(record.readings(CHANNEL))
    print(f"{elapsed_s / 60:.1f} min, {len(jobs)} jobs, {len(runs)} runs, {killed} kills")
    print(f"{faults} faults of meters, {stops} stops; {readings} readings of {CHANNEL} counted")
    return wrong


def show(uses: Sequence[Use], elapsed_s: float) -> None:
    """Print what the daemon used in the second third and in the last."""
    for name, (was, now) in medians(uses).items():
        print(f"{name:<16} {was:>14,.0f} {now:>14,.0f}")
    print(f"{'cpu share':<16} {cpu_share(uses, elapsed_s):>14.2%}")


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
