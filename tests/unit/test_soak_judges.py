"""What ``make soak`` judges by: a leak or a lost reading fails it, and noise does not."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from labctl.analysis.readings.clock_fit import EPOCH_NS
from labctl.record.events import Event, EventKind
from tests.soak.counts import CHANNEL, miscounted_of
from tests.soak.resources import Use, grown

SAMPLES, EVERY_S = 300, 4.0
INTERVAL_S, APERTURE_S = 0.011, 0.004


def flat(seed: int = 1) -> list[Use]:
    """Twenty minutes of a daemon that begins and ends jobs, and warms up."""
    rng = random.Random(seed)
    return [
        Use(
            resident_bytes=(60 << 20) + min(number, 50) * 200_000 + rng.randrange(1 << 20),
            descriptors=20 + rng.randrange(4),
            threads=6 + rng.randrange(3),
            children=1 + rng.randrange(2),
            cpu_s=number * EVERY_S * 0.01,
        )
        for number in range(SAMPLES)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_a_daemon_that_only_works_is_flat(seed: int) -> None:
    assert grown(flat(seed), SAMPLES * EVERY_S) == []


@pytest.mark.parametrize(
    ("name", "each_sample"),
    [("resident_bytes", 120_000), ("descriptors", 0.06), ("threads", 0.06), ("children", 0.05)],
)
def test_a_leak_is_reported(name: str, each_sample: float) -> None:
    """A descriptor for every job of a minute, or 1.8 MB a minute."""
    leaking = [
        replace(use, **{name: getattr(use, name) + int(number * each_sample)})
        for number, use in enumerate(flat())
    ]
    (line,) = grown(leaking, SAMPLES * EVERY_S)
    assert line.startswith(f"{name} grew from")


def test_a_busy_daemon_is_reported() -> None:
    busy = [replace(use, cpu_s=number * EVERY_S * 0.2) for number, use in enumerate(flat())]
    assert "20% of a processor" in " ".join(grown(busy, SAMPLES * EVERY_S))


def test_what_a_process_uses_is_read_of_itself() -> None:
    before = Use.of(os.getpid())
    kept = [os.open("/dev/null", os.O_RDONLY) for _ in range(5)]
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    after = Use.of(os.getpid())
    assert after.descriptors >= before.descriptors + 5
    assert after.children == before.children + 1
    child.communicate(b"\n")
    assert Use.of(os.getpid()).children == before.children
    for descriptor in kept:
        os.close(descriptor)


def stamps(
    numbers: range | list[int], epoch: int = 0
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    s = np.array(numbers) * INTERVAL_S + APERTURE_S / 2
    return np.rint(s * 1e9).astype(np.int64) + epoch * EPOCH_NS


def judged(taken: np.ndarray[tuple[int], np.dtype[np.int64]], *events: Event) -> list[str]:
    return miscounted_of(taken, INTERVAL_S, APERTURE_S, events)


def status(count: int) -> Event:
    return Event(1, "status", {"channel": CHANNEL, "status": "overload", "count": count})


def test_every_reading_of_two_epochs_adds_up() -> None:
    assert judged(np.concatenate([stamps(range(500)), stamps(range(40, 90), epoch=1)])) == []


def test_a_missing_reading_is_reported_unless_an_event_counts_it() -> None:
    hole = stamps([*range(100), *range(103, 200)])
    assert judged(hole) == [f"3 readings of {CHANNEL} are missing, 0 are counted"]
    assert judged(hole, status(2)) == [f"3 readings of {CHANNEL} are missing, 2 are counted"]
    assert judged(hole, status(3)) == []


def test_a_reading_that_is_there_twice_is_reported() -> None:
    assert judged(stamps([0, 1, 2, 2, 3])) == [f"1 readings of {CHANNEL} are there twice"]


def test_only_a_status_that_was_on_at_the_kill_excuses_its_count() -> None:
    hole = stamps([*range(100), *range(103, 200)])
    began = Event(1, "status_began", {"channel": CHANNEL})
    resumed = Event(2, EventKind.RUN_RESUMED, {})
    assert judged(hole, began, resumed) == []
    assert judged(hole, resumed, began) != []
