"""``python -m tests.soak.busy_host KIND FIRST LAST [busy]``: throttling in real time, as a table.

The real fio on a simulated drive, about 80 s for each seed from FIRST to LAST (not included). KIND
is ``clean`` (a drive near its warning temperature that never throttles), ``hot`` (one that does) or
``uncounted`` (and does not count it). With ``busy``, programs that take all they get come and go
meanwhile, up to six at a time.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random

from instruments.simulated.bench import Bench, configure
from instruments.simulated.drive.ground_truth import GroundTruth
from labctl.analysis.run.summary import summarise
from labctl.record.reader import RunRecord, find_runs
from tests.bench.test_throttling import joined_levels

LABCTL = (sys.executable, "-m", "labctl.cli.main")
BURNER = (sys.executable, "-c", "while True: pass")
PHASES = (
    ("read", "128k", 16),
    ("randwrite", "4k", 32),
    ("randread", "4k", 32),
    ("write", "128k", 8),
    ("randread", "4k", 4),
)
PHASE_S = 16


def plan(random: Random) -> str:
    """Four of the phases, in any order."""
    chosen = random.sample(PHASES, 4)
    return 'name = "busy-host"\nidle_before_s = 2\nidle_after_s = 0\n' + "".join(
        f'[[sweeps]]\nname = "sweep {number}"\npattern = "{pattern}"\nblock_size = "{size}"\n'
        f"queue_depth = {depth}\nduration_s = {PHASE_S}\n"
        for number, (pattern, size, depth) in enumerate(chosen)
    )


def drive(kind: str, random: Random) -> dict[str, object]:
    """Parameters of the simulated drive."""
    if kind == "clean":
        return {
            "thermal.ambient_celsius": random.uniform(40, 60),
            "thermal.composite_joules_per_kelvin": 30.0,
            "thermal.case_joules_per_kelvin": 400.0,
            "throttle.light.enter_celsius": 200.0,
            "throttle.heavy.enter_celsius": 210.0,
        }
    return {
        "power.read_byte_nj": 6.0,
        "power.write_byte_nj": 6.0,
        "thermal.ambient_celsius": random.uniform(40, 52),
        "thermal.composite_joules_per_kelvin": 8.0,
        "thermal.case_joules_per_kelvin": 20.0,
        "throttle.light.leave_celsius": random.uniform(65, 68),
        "throttle.light.speed_share": random.uniform(0.3, 0.7),
        "throttle.counted": kind == "hot",
    }


@contextlib.contextmanager
def other_programs(random: Random) -> Iterator[None]:
    """Programs that take all they get come and go inside the ``with``."""
    over = threading.Event()

    def disturb() -> None:
        while not over.wait(random.uniform(4, 12)):
            burners = [subprocess.Popen(BURNER) for _ in range(random.choice([1, 2, 3, 4, 6]))]
            over.wait(random.uniform(1.5, 8))
            for burner in burners:
                burner.kill()
                burner.wait()

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def lines_of(kind: str, seed: int, busy: bool) -> Iterator[str]:
    """Carry out one run; each phase with what the drive did, and what was found in it."""
    random = Random(f"{kind} {seed}")
    with tempfile.TemporaryDirectory(prefix="labctl-busy-host-") as name:
        folder = Path(name)
        (folder / "plan.toml").write_text(plan(random))
        noise = other_programs(random) if busy else contextlib.nullcontext()
        with Bench(folder / "bench", configure(seed, drive(kind, random))) as bench, noise:
            words = ("run", bench.rig, folder / "plan.toml", "--runs", folder / "runs", "--json")
            subprocess.run([*LABCTL, *words], check=True, stdout=subprocess.DEVNULL)
        (path,) = find_runs(folder / "runs")
        record, truth = RunRecord(path), GroundTruth(folder / "bench" / "truth")
        summary, to_monotonic = summarise(record), record.header.anchor.to_monotonic_ns
    for item in summary.measured:
        begin_ns = to_monotonic(item.begin_ns)
        true = joined_levels(truth, begin_ns, to_monotonic(item.end_ns))
        spans = ", ".join(
            f"{(a - begin_ns) / 1e9:.1f} to {(b - begin_ns) / 1e9:.1f} s" for a, b in true
        )
        judged = item.throttling.verdict if item.throttling is not None else ""
        yield f"{kind} {seed} {item.phase.label}: throttled {spans or 'never'}; {judged}"
        for one in summary.throttling:
            if one.phase_index == item.phase.index:
                low, high = ((t - item.begin_ns) / 1e9 for t in (one.begin_ns, one.end_ns))
                yield f"    {one.cause} {low:.1f} to {high:.1f} s: {one.evidence}"


def main() -> int:
    """Carry out and print."""
    kind, first, last, *more = sys.argv[1:]
    for seed in range(int(first), int(last)):
        for line in lines_of(kind, seed, "busy" in more):
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
