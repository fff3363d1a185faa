"""The truth is inside U in at least 95 of 100 phases."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from labctl.errors import ConfigurationError
from labctl.record.phase import Pattern
from tests.unit.importing.exported import (
    Bench,
    Clock,
    Dialect,
    bench,
    iso,
)
from tests.unit.importing.made_runs import (
    HEADING,
    imported,
    inside,
)
from tests.unit.virtual_bench import Work


@pytest.fixture(scope="module")
def known() -> tuple[Bench, Bench]:
    """Phases that are long enough for a meter with a reading a second."""
    reads = tuple(Work(Pattern.RANDREAD, 9.0, 4096, depth) for depth in (1, 2, 4, 8))
    mixed = (
        Work(Pattern.RANDREAD, 9.0, 4096, 1),
        Work(Pattern.WRITE, 9.0, 131_072, 4, 0),
        Work(Pattern.IDLE, 4.0, 0, 0, 0),
        Work(Pattern.READ, 9.0, 131_072, 8),
        Work(Pattern.READ, 9.0, 131_072, 1),
    )
    return bench(reads), bench(mixed, seed=2)


@pytest.mark.parametrize("rate_hz", [10.0, pytest.param(100.0, marks=pytest.mark.long)])
def test_phases_that_hang_on_one_end_are_as_sure_as_those_with_a_start(
    tmp_path: Path, rate_hz: float
) -> None:
    """Six jobs that waited for each other: what is unknown of the end and of the gaps is common to
    those before, and the steps of the watts tell it."""
    depths = (1, 32, 1, 32, 1, 32)
    works = tuple(Work(Pattern.RANDREAD, 4.0, 4096, depth) for depth in depths)
    made = bench(works, rate_hz=rate_hz)
    file = made.write_csv(tmp_path / "psu.csv", Clock(ahead_s=3.4))
    wide = {}
    for start in (True, False):
        fio = made.write_stonewalled(tmp_path / f"{start}.json", start=start)
        found, summary = imported(file, fio, tmp_path / "runs")
        assert all(inside(made, summary)) and all(found.clocks[0].confirmed)
        wide[start] = [one.watts.u for one in summary.phases if one.watts is not None]
        runtimes = [one.duration_s for one in found.works]
        assert runtimes == pytest.approx([4.0] * 6, abs=0.02)
    assert max(np.divide(wide[False], wide[True])) < 1.5


@pytest.mark.long
@pytest.mark.parametrize("rate_hz", [1.0, 10.0, 100.0])
def test_the_truth_is_inside_u_in_95_of_100_phases(
    known: tuple[Bench, Bench], tmp_path: Path, rate_hz: float
) -> None:
    """Shifted and drifting clocks, of known and unknown zones, meters with errors within what they
    state, and fios with and without a start."""
    rng = np.random.default_rng(7)
    good: list[bool] = []
    offsets: list[bool] = []
    refused: list[str] = []
    for number in range(20):
        base = known[number % 2]
        made = Bench(
            base.driven, base.works, rate_hz, rng.uniform(-0.005, 0.005), 1e-3, number,
            float(rng.choice([1.0, 0.2])),
        )  # fmt: skip
        clock = Clock(ahead_s=rng.uniform(-60, 60), drift_ppm=rng.uniform(-80, 80))
        zone_h = float(rng.choice([-5.5, 0, 1, 8])) if number % 3 else 0.0
        heading = "Timestamp," + HEADING
        dialect = Dialect(header=heading, time=iso(zone_h)) if number % 3 else Dialect()
        folder = tmp_path / f"{number}"
        folder.mkdir()
        file = made.write_csv(folder / "psu.csv", clock, dialect)
        start = bool(number % 4)
        alone = number % 5
        fio = (
            made.write_fio(folder / "fio", start=start)
            if alone
            else made.write_stonewalled(folder / "all.json", start=start)
        )
        try:
            found, summary = imported(file, fio, folder / "runs")
        except ConfigurationError as error:
            refused.append(f"{number}: {error}")
            continue
        one = found.clocks[0]
        # the meter says when its windows end, and without a start fio's phases are known to this
        late_s = 0.5 / rate_hz + (0.0 if start else 0.15 if alone else 0.6)
        apart_s = one.offset_s + 3600 * zone_h + clock.ahead_s
        offsets.append(abs(apart_s) <= one.u_s + late_s + 80e-6 * 60)
        good += inside(made, summary)
    print(
        f"{rate_hz:g} readings/s: truth inside U in {sum(good)} of {len(good)} phases, offset "
        f"inside its doubt in {sum(offsets)} of {len(offsets)}; refused: {refused}"
    )
    assert sum(good) >= 0.95 * len(good)
    assert sum(offsets) >= 0.95 * len(offsets)
    assert len(refused) <= 5
