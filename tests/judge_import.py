"""How often the truth is inside U of runs that were imported: ``make judge-import``.

The simulated drive does phases of which the joules are known. Its readings are written as the
programs of known makers write them, on clocks that are minutes off, drift, and are of a zone that
the file does not name; meters are off within what is stated. What fio says comes with and without
the begins of its jobs. Nothing of what is judged is shared with what writes the files.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from labctl.analysis.run.summary import summarise
from labctl.errors import ConfigurationError
from labctl.importing.clock import ClockRules
from labctl.importing.guess import guess
from labctl.importing.make_run import Labels, import_run
from labctl.importing.meter_channels import Source
from labctl.importing.rails import Given
from labctl.importing.ready import ready_mappings
from labctl.importing.workload import read_workload
from labctl.record.phase import Pattern
from labctl.record.reader import RunRecord
from tests.unit.importing.exported import Bench, Clock, bench
from tests.unit.importing.makers import MAKERS, write_as
from tests.unit.virtual_bench import Work

LEAST_SHARE = 0.95
MOST_OFF = 0.005
"""Of reading: what is stated of every meter, and the most that one is off."""

SWEEPS = (
    tuple(Work(Pattern.RANDREAD, 9.0, 4096, depth) for depth in (1, 2, 4, 8)),
    (
        Work(Pattern.RANDREAD, 9.0, 4096, 1),
        Work(Pattern.WRITE, 9.0, 131_072, 4, 0),
        Work(Pattern.IDLE, 4.0, 0, 0, 0),
        Work(Pattern.READ, 9.0, 131_072, 8),
        Work(Pattern.READ, 9.0, 131_072, 1),
    ),
)


@dataclass
class Score:
    """Of a maker's files: phases inside their U, all phases, and files that were refused."""

    inside: int = 0
    phases: int = 0
    files: int = 0
    refused: int = 0

    def add(self, other: Score) -> None:
        """Count another one's, too."""
        self.inside += other.inside
        self.phases += other.phases
        self.files += other.files
        self.refused += other.refused

    @property
    def share(self) -> float:
        """Of the phases, those inside; 1 of none."""
        return self.inside / self.phases if self.phases else 1.0


def judge(maker: str, base: Bench, seed: int, folder: Path) -> Score:
    """One file of a maker, imported: what of it was right."""
    rng = np.random.default_rng([seed, zlib.crc32(maker.encode())])
    name, _, most_hz = MAKERS[maker]
    whole = ready_mappings()[name].mean_over_interval  # as the program says of its rows
    made = Bench(
        base.driven,
        base.works,
        rate_hz=float(rng.choice([2.0, 10.0, min(most_hz, 500.0)])),
        gain=rng.uniform(-MOST_OFF, MOST_OFF) / 2,  # of volts and of amps: of watts, both
        noise=1e-3,
        seed=seed,
        duty=1.0 if whole else float(rng.choice([1.0, 0.2])),
    )
    zone_s = 3600 * float(rng.choice([0.0, 1.0, -5.5, 8.0])) if name == "keysight-daq" else 0.0
    clock = Clock(rng.uniform(-60, 60) + zone_s, rng.uniform(-80, 80))
    file = write_as(maker, made, folder / "recording.csv", clock)
    start = bool(rng.integers(4))
    fio = (
        made.write_fio(folder / "fio", start=start)
        if rng.integers(4)
        else made.write_stonewalled(folder / "all.json", start=start)
    )
    columns = {"volts": "CH1", "amps": "CH2"} if name == "rigol-scope" else {}
    found = guess(file, Given(accuracy_pct=100 * MOST_OFF, **columns))
    labels = Labels("judge", "sweep")
    try:
        run = import_run(
            read_workload([fio]), [Source(file, found.meter)], folder / "runs", labels, ClockRules()
        )
    except ConfigurationError as error:
        print(f"refused: {maker}, seed {seed}: {error}", file=sys.stderr)
        return Score(files=1, refused=1)
    score = Score(files=1)
    for index, result in enumerate(summarise(RunRecord(run.path)).phases):
        if result.watts is not None:
            off = abs(result.watts.value - made.true_watts(index))
            score.add(Score(inside=int(off <= result.watts.u), phases=1))
            if off > result.watts.u:
                print(f"outside: {maker}, seed {seed}, phase {index}: {off:.4f} W off, U "
                      f"{result.watts.u:.4f} W", file=sys.stderr)  # fmt: skip
    return score


def judge_all(files: int, seed: int) -> dict[str, Score]:
    """So many files of each maker."""
    drives = [bench(works, seed=seed + number) for number, works in enumerate(SWEEPS, 1)]
    scores = {maker: Score() for maker in MAKERS}
    for maker, score in scores.items():
        for number in range(files):
            with tempfile.TemporaryDirectory() as folder:
                base = drives[number % len(drives)]
                score.add(judge(maker, base, 1000 * seed + number, Path(folder)))
    return scores


def main() -> int:
    """Print the table; 1 if too few phases are inside their U."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10, help="files of each maker")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    total = Score()
    print(f"{'written as':<22} {'files':>6} {'refused':>8} {'phases':>7} {'inside U':>9}")
    scores = judge_all(asked.files, asked.seed)
    for maker, one in scores.items():
        total.add(one)
        print(f"{maker:<22} {one.files:>6} {one.refused:>8} {one.phases:>7} {one.inside:>9}")
    print(f"{'all':<22} {total.files:>6} {total.refused:>8} {total.phases:>7} {total.inside:>9}")
    print(f"{total.share:.1%} of the phases are inside their U")
    return 0 if total.share >= LEAST_SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
