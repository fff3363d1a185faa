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
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from labctl.analysis.run.summary import summarise
from labctl.errors import ConfigurationError
from labctl.importing.clock import ClockRules
from labctl.importing.guess import guess
from labctl.importing.make_run import Labels, import_run
from labctl.importing.meter_channels import MeterFile
from labctl.importing.rails import Given
from labctl.importing.ready import ready_mappings
from labctl.importing.workload import read_workload
from labctl.record.phase import Pattern
from labctl.record.reader import RunRecord
from labctl.record.timebase import NS_PER_S
from tests.unit.importing.exported import BEGAN_MS, Bench, Clock, bench
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
    """Of a maker's files: phases inside their U, all phases, files that were refused, and those
    whose offset was inside its doubt."""

    inside: int = 0
    phases: int = 0
    files: int = 0
    refused: int = 0
    offsets: int = 0
    u_pct: list[float] = field(default_factory=list)
    """Of each phase, its U in % of its watts."""
    off_of_u: list[float] = field(default_factory=list)
    """Of each phase, how far it is off as a part of its U."""

    def add(self, other: Score) -> None:
        """Count another one's, too."""
        self.inside += other.inside
        self.phases += other.phases
        self.files += other.files
        self.refused += other.refused
        self.offsets += other.offsets
        self.u_pct += other.u_pct
        self.off_of_u += other.off_of_u

    def row(self, name: str) -> str:
        """It in a line."""
        counts = f"{name:<22} {self.files:>6} {self.refused:>8} {self.offsets:>11}"
        u, off = (np.median(one) if one else np.nan for one in (self.u_pct, self.off_of_u))
        return f"{counts} {self.phases:>7} {self.inside:>9} {u:>9.2f} {off:>8.2f}"

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
    readings = made.readings()
    file = write_as(maker, readings, folder / "recording.csv", clock)
    start = bool(rng.integers(4))
    fio = (
        made.write_fio(folder / "fio", start=start)
        if rng.integers(4)
        else made.write_stonewalled(folder / "all.json", start=start)
    )
    columns = {"volts": ("CH1",), "amps": ("CH2",)} if name == "rigol-scope" else {}
    found = guess(file, Given(accuracy_pct=100 * MOST_OFF, **columns))
    labels = Labels("judge", "sweep")
    works = read_workload([fio])
    try:
        run = import_run(
            works, [MeterFile(file, found.meter)], folder / "runs", labels, ClockRules()
        )
    except ConfigurationError as error:
        print(f"refused: {maker}, seed {seed}: {error}", file=sys.stderr)
        return Score(files=1, refused=1)
    (said,) = run.clocks
    t = readings[0]
    begin_s = works[0].begin_ns / NS_PER_S - BEGAN_MS / 1000
    doubt_s = said.u_s + works[0].boundary_u_ns / NS_PER_S
    length_s = float(np.ptp(clock.shown(t)))  # by the meter's clock
    ends = ((said.first_offset_s, t[0]), (said.last_offset_s + length_s, t[-1]))
    far_s = max(abs(at - (float(true_s) - begin_s)) for at, true_s in ends)
    if far_s > doubt_s:
        print(f"offset: {maker}, seed {seed}: {far_s:.3f} s off, ± {doubt_s:.3f} s stated",
              file=sys.stderr)  # fmt: skip
    score = Score(files=1, offsets=int(far_s <= doubt_s))
    for index, result in enumerate(summarise(RunRecord(run.path)).phases):
        if result.watts is not None:
            off = abs(result.watts.value - made.true_watts(index))
            u = result.watts.u
            score.add(
                Score(int(off <= u), 1, u_pct=[100 * u / result.watts.value], off_of_u=[off / u])
            )
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
    """Print the table; 1 if too few phases are inside their U, or offsets inside their doubt."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10, help="files of each maker")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    total = Score()
    print(
        f"{'written as':<22} {'files':>6} {'refused':>8} {'offset in ±':>11} {'phases':>7} "
        f"{'inside U':>9} {'median U%':>9} {'off / U':>8}"
    )
    scores = judge_all(asked.files, asked.seed)
    for maker, one in scores.items():
        total.add(one)
        print(one.row(maker))
    print(total.row("all"))
    print(f"{total.share:.1%} of the phases are inside their U")
    aligned = total.files - total.refused
    print(f"{total.offsets} of {aligned} offsets are inside their doubt")
    good = total.share >= LEAST_SHARE and total.offsets >= LEAST_SHARE * aligned
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
