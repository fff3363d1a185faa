"""``make chaos``: jobs of the daemon on the simulated bench, and everything that can go wrong.

Runs, daemon, database, broker and ssh are killed at random moments; processes are stopped, the disk
is full for a while, the wall clock is stepped, meters lose their cables. After each job: no event
is gone, a kill cost no channel more than 250 ms of readings (500 ms on a busy machine), no process
is left, the drive's settings are as before, the database equals the journal, and the numbers are
true and those of runs that nothing was done to. The exit code is 1 where something is not so.

``--spare daemon`` leaves the daemon alone: then its memory, descriptors, threads and children must
not grow and its share of a processor must be small. That is ``make soak``.
"""

from __future__ import annotations

import argparse
import random
import secrets
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from labctl.record.reader import find_runs
from labctl.service.locks.rig_lock import rigs_in_use
from labctl.service.queue.job import JobState
from tests.chaos.judging import Agreement, judge_run, not_shipped
from tests.chaos.place import Place
from tests.chaos.tables import kills_table
from tests.chaos.troubles import Trouble, make, possible
from tests.faults.daemon_run import labctl
from tests.faults.resumed_run import HeldUp
from tests.judge import page
from tests.soak.resources import Use, cpu_share, grown, medians

PLAN = """
name = "chaos"
idle_before_s = 2
idle_after_s = 2
[[sweeps]]
pattern = "randread"
queue_depth = [1, 32]
power_state = [0, 2]
duration_s = 4
"""
JOB_ENDS_WITHIN_S = 400.0
UNTROUBLED_EVERY = 8
"""Of so many jobs the first is left alone: the others are compared with it."""
BEGINS_WITHIN_S = 60.0
IN_A_RUN = 0.85
"""Share of the troubles that wait until a run is on."""
MOST_TROUBLES = 16
"""Of one job."""


class Chaos:
    """Job after job until the time is over or enough was killed."""

    def __init__(
        self, place: Place, rng: random.Random, spared: set[str], keep: Path | None
    ) -> None:
        """``keep``: where runs are put with which something is wrong."""
        self.place = place
        self.troubles: list[Trouble] = []
        self.agreement = Agreement()
        self.jobs, self.runs = 0, 0
        self.uses: list[Use] = []
        self._rng = rng
        self._spared = spared
        self._keep = keep
        self._plan = place.folder / "chaos.toml"
        self._plan.write_text(PLAN)

    @property
    def kills(self) -> int:
        return sum(one.killed for one in self.troubles)

    def job(self, late: HeldUp, most_kills: int) -> list[str]:
        """One job and its judgement; what is wrong, in words."""
        place = self.place
        bucket = "main" if "daemon" in self._spared else f"job-{self.jobs}"
        if place.influx is not None and bucket != "main":
            place.influx.make_bucket(bucket)
        remote = place.sshd is not None and self.jobs % 2 == 1 and "ssh" not in self._spared
        if place.daemon.process is None or "daemon" not in self._spared:
            place.write_rig(remote=remote, bucket=bucket)
            place.start_daemon_anew()
        before = place.power_state()
        labctl(place.home.path, "queue", "add", str(place.rig), str(self._plan), "--retries", "100")
        number = max(job.id for job in place.daemon.queue.jobs())
        left_alone = self.jobs % UNTROUBLED_EVERY == 0
        self.jobs += 1
        some = [] if left_alone else self._trouble(number, most_kills)
        over = self._until_over(number)
        self.troubles += some
        wrong, place.wrong = place.wrong, []
        job = place.daemon.queue.job(number)
        if not over or job.state is not JobState.DONE:
            wrong.append(f"job {number} is {job.state}: {job.reason}")
        while rigs_in_use(place.home) and any(use.job for use in rigs_in_use(place.home)):
            time.sleep(0.1)
        wrong += [f"the power state is {place.power_state()}"] * (place.power_state() != before)
        paths = find_runs(place.home.runs)
        for path in paths:
            wrong += judge_run(place, path, some, late, self.agreement)
        wrong += not_shipped(place, paths, bucket)
        self.runs += len(paths)
        for path in paths:
            if wrong and self._keep is not None:
                shutil.copytree(path, self._keep / path.name, dirs_exist_ok=True)
            shutil.rmtree(path)
        return wrong

    def _trouble(self, number: int, most_kills: int) -> list[Trouble]:
        some: list[Trouble] = []
        for _ in range(self._rng.randint(1, MOST_TROUBLES)):
            if self._rng.random() < IN_A_RUN:
                self._until_on(number)
            self._wait(self._rng.uniform(0.1, 4.0))
            if self.place.daemon.queue.job(number).state.over or self.kills >= most_kills:
                break
            weights = possible(self.place, self._spared)
            (what,) = self._rng.choices([*weights], [*weights.values()])
            some.append(make(self.place, what, self._rng))
            print(f"  job {number}: {some[-1]}", flush=True)
        return some

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._tick()

    def _until_on(self, number: int) -> None:
        """Wait until a run of the job is on, or the job is over."""
        deadline = time.monotonic() + BEGINS_WITHIN_S
        while time.monotonic() < deadline and self.place.run_on() is None:
            if self.place.daemon.queue.job(number).state.over:
                return
            self._tick()

    def _until_over(self, number: int) -> bool:
        deadline = time.monotonic() + JOB_ENDS_WITHIN_S
        while time.monotonic() < deadline:
            if self.place.daemon.queue.job(number).state.over:
                return True
            self._tick()
        return False

    def _tick(self) -> None:
        self.place.keep_daemon_up()
        process = self.place.daemon.process
        if "daemon" in self._spared and process is not None:
            self.uses.append(Use.of(process.pid))
        time.sleep(0.2)


def chaos(folder: Path, options: argparse.Namespace, seed: int) -> tuple[Chaos, list[str], float]:
    """Do it; what was wrong, in words, and how many minutes it took."""
    with Place.made(folder) as place, HeldUp() as late:
        print("\n".join(f"here is {words}" for words in place.missing()))
        done = Chaos(place, random.Random(seed), set(options.spare), options.keep)
        began = time.monotonic()
        wrong: list[str] = []
        while time.monotonic() < began + 60 * options.minutes and done.kills < options.kills:
            try:
                found = done.job(late, options.kills)
            except KeyboardInterrupt:
                break
            for words in found:
                print(f"WRONG: {words}", flush=True)
            wrong += found
            print(f"{done.jobs} jobs, {done.kills} kills, {len(wrong)} wrong", flush=True)
        elapsed_s = time.monotonic() - began
        wrong += grown(done.uses, elapsed_s) if done.uses else []
        for name, (was, now) in (medians(done.uses) if done.uses else {}).items():
            print(f"{name:<16} {was:>14,.0f} {now:>14,.0f}")
        if done.uses:
            print(f"{'cpu share':<16} {cpu_share(done.uses, elapsed_s):>14.2%}")
        place.daemon.end()
        wrong += [f"left in the end: {one}" for one in _left(place)]
        for word in ("Traceback", "unexpected"):
            wrong += [f"the daemon's log has {word}"] * (word in place.daemon.log())
        if wrong and options.keep is not None:
            options.keep.mkdir(parents=True, exist_ok=True)
            shutil.copy(place.daemon.log_file, options.keep / "daemon.log")
    return done, wrong, elapsed_s / 60


def _left(place: Place) -> list[str]:
    deadline = time.monotonic() + 60
    while (left := place.processes()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return [str(one) for one in left]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=20.0, help="how long (20)")
    parser.add_argument("--kills", type=int, default=1_000_000, help="or until so many kills")
    parser.add_argument("--seed", type=int, help="left out: another each time")
    parser.add_argument(
        "--spare", action="append", default=[], help="what is left alone; repeatable"
    )
    parser.add_argument("--page", action="store_true", help="renew the table of docs/trust.md")
    parser.add_argument("--keep", type=Path, help="keep the runs of what went wrong here")
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)  # what was done so far is printed
    seed = secrets.randbelow(10**6) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="labctl-chaos-") as name:
        folder = Path(name)
        done, wrong, minutes = chaos(folder, options, seed)
    lines = kills_table(done.troubles, done.agreement, wrong)
    heading = f"seed {seed}, {minutes:.0f} minutes: "
    heading += f"{done.jobs} jobs, {done.runs} runs, {done.kills} kills."
    print("\n".join([heading, *lines]))
    if options.page:
        page.renew("kills", [f"{page.day()}, {heading}", "", *lines], by="make chaos")
    print("chaos: " + ("FAILED" if wrong else "all well"))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
