"""The queue on a disk that is full, freed again, or read-only."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from labctl.service.data_dir import Home
from labctl.service.queue.job import AttemptOutcome, JobState
from labctl.service.queue.store import Queue, QueueError
from tests.unit.service.queue.test_store import attempt, job, numbers

pytestmark = pytest.mark.fault


def fill(folder: Path) -> Path:
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
    return ballast


def test_on_a_full_disk_nothing_is_half_done_and_it_goes_on_when_there_is_room(
    small_disk: Path,
) -> None:
    queue = Queue(Home(small_disk / "home"))
    queue.add(job, 2)
    assert queue.claim("bench", attempt()) is not None
    ballast = fill(small_disk)
    with pytest.raises(QueueError, match="No space left"):
        queue.add(job)
    with pytest.raises(QueueError, match="No space left"):
        queue.end(1, AttemptOutcome.COMPLETED, "")
    with pytest.raises(QueueError):
        queue.move(2, 1)
    assert queue.job(1).state is JobState.RUNNING and numbers(queue) == [2]
    assert queue.problems == ()
    ballast.unlink()
    assert queue.end(1, AttemptOutcome.COMPLETED, "").state is JobState.DONE
    assert [item.id for item in queue.add(job)] == [3]


def test_on_a_read_only_disk_the_queue_can_be_seen_and_not_changed(small_disk: Path) -> None:
    queue = Queue(Home(small_disk / "home"))
    queue.add(job)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    reopened = Queue(Home(small_disk / "home"))
    assert numbers(reopened) == [1]
    with pytest.raises(QueueError, match="Read-only"):
        reopened.cancel(1)
