"""The queue: durable, in order, safe under many clients, unmoved by hostile files."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import random
import signal
import sqlite3
import stat
import time
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labctl.errors import ConfigurationError
from labctl.service.data_dir import Home
from labctl.service.queue import store
from labctl.service.queue.job import (
    Attempt,
    AttemptOutcome,
    Job,
    JobState,
    WrongState,
    begun,
    ended,
)
from labctl.service.queue.new_jobs import parse_after
from labctl.service.queue.schedule import BETWEEN_JOBS_S, expected_schedule, may_begin
from labctl.service.queue.store import MOST_WAITING, NoSuchJob, Queue, QueueError, QueueFull

NOW_S = 1_700_000_000.0


def job(number: int, **values: Any) -> Job:
    known: dict[str, Any] = {
        "id": number,
        "rig": "bench",
        "plan": "short",
        "plan_text": 'name = "short"',
        "drive_target": "/dev/null",
        "added_s": NOW_S,
        "estimate_s": 100.0,
    }
    return Job(**{**known, **values})


@pytest.fixture
def queue(tmp_path: Path) -> Queue:
    return Queue(Home(tmp_path / "home"))


def attempt() -> Attempt:
    return Attempt(begun_s=NOW_S)


def numbers(queue: Queue, state: JobState = JobState.QUEUED) -> list[int]:
    return [item.id for item in queue.jobs() if item.state is state]


def test_a_pause_is_over_when_the_wall_clock_was_set_back_behind_its_beginning() -> None:
    failed = ended(begun(job(1, retries=1), attempt()), AttemptOutcome.FAILED, "no", NOW_S)
    assert not may_begin(failed, NOW_S + 1) and may_begin(failed, NOW_S + 60)
    assert may_begin(failed, NOW_S - 3600)
    assert not may_begin(job(2, after_s=NOW_S), NOW_S - 3600)


def test_jobs_are_taken_in_their_order_and_one_at_a_time_per_rig(queue: Queue) -> None:
    queue.add(job, 3)
    queue.add(lambda number: job(number, rig="other"))
    first = queue.claim("bench", attempt())
    assert first is not None and first.id == 1
    assert queue.claim("bench", attempt()) is None
    beside = queue.claim("other", attempt())
    assert beside is not None and beside.id == 4
    queue.end(1, AttemptOutcome.COMPLETED, "")
    second = queue.claim("bench", attempt())
    assert second is not None and second.id == 2


def test_a_moved_job_is_next_and_a_later_one_comes_last(queue: Queue) -> None:
    queue.add(job, 4)
    queue.move(3, 1)
    assert numbers(queue) == [3, 1, 2, 4]
    queue.move(1, 99)
    assert numbers(queue) == [3, 2, 4, 1]
    queue.add(job)
    assert numbers(queue) == [3, 2, 4, 1, 5]
    with pytest.raises(NoSuchJob):
        queue.move(77, 1)


def test_a_job_waits_for_its_time_and_lets_others_pass(queue: Queue) -> None:
    queue.add(lambda number: job(number, after_s=time.time() + 3600))
    queue.add(job)
    taken = queue.claim("bench", attempt())
    assert taken is not None and taken.id == 2


def test_a_paused_rig_begins_nothing_until_it_is_resumed(queue: Queue) -> None:
    queue.add(job)
    queue.pause("bench")
    assert queue.claim("bench", attempt()) is None
    queue.resume("bench")
    assert queue.claim("bench", attempt()) is not None


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".", "..", "a\0b", "x" * 200])
def test_a_rigs_name_cannot_leave_its_folder(queue: Queue, name: str) -> None:
    with pytest.raises(ValueError):
        queue.pause(name)


def test_a_failure_is_tried_again_as_often_as_asked_then_fails_for_good(queue: Queue) -> None:
    queue.add(lambda number: job(number, retries=1))
    queue.claim("bench", attempt())
    again = queue.end(1, AttemptOutcome.FAILED, "fio died")
    assert again.state is JobState.QUEUED and again.after_s is not None
    assert 20 < again.after_s - time.time() < 40
    assert queue.claim("bench", attempt()) is None  # not yet
    over = ended(begun(again, attempt()), AttemptOutcome.FAILED, "fio died again", NOW_S)
    assert over.state is JobState.FAILED and over.reason == "fio died again"
    assert [item.reason for item in over.attempts] == ["fio died", "fio died again"]


@pytest.mark.parametrize("outcome", [AttemptOutcome.ABORTED, AttemptOutcome.REFUSED])
def test_what_would_only_happen_again_is_not_tried_again(
    queue: Queue, outcome: AttemptOutcome
) -> None:
    queue.add(lambda number: job(number, retries=5))
    queue.claim("bench", attempt())
    assert queue.end(1, outcome, "too hot").state is JobState.FAILED


def test_an_interrupted_job_goes_on_until_it_no_longer_gets_anywhere(queue: Queue) -> None:
    queue.add(job)
    for round_ in range(200):  # progress: for ever
        queue.claim("bench", attempt())
        assert (
            queue.end(1, AttemptOutcome.INTERRUPTED, "killed", round_ + 1).state is JobState.QUEUED
        )
    for _ in range(100):  # not its fault: for ever
        queue.claim("bench", attempt())
        kept = queue.end(1, AttemptOutcome.INTERRUPTED, "killed", 200, blameless=True)
        assert kept.state is JobState.QUEUED and kept.after_s is None
    stuck, pauses_s = queue.job(1), []
    while stuck.state is JobState.QUEUED:
        stuck = ended(begun(stuck, attempt()), AttemptOutcome.INTERRUPTED, "killed", NOW_S, 200)
        pauses_s.append((stuck.after_s or NOW_S) - NOW_S)
    assert len(pauses_s) == 50
    assert pauses_s[:4] == [0, 2, 4, 8] and max(pauses_s) == 300
    assert "without progress" in stuck.reason


def test_cancelling_a_running_job_asks_and_a_completed_one_stays_done(queue: Queue) -> None:
    queue.add(job, 3)
    queue.claim("bench", attempt())
    assert queue.cancel(1).cancel_asked
    assert queue.end(1, AttemptOutcome.INTERRUPTED, "SIGTERM").state is JobState.CANCELLED
    assert queue.cancel(2).state is JobState.CANCELLED
    with pytest.raises(WrongState):
        queue.cancel(2)
    queue.claim("bench", attempt())
    queue.cancel(3)
    assert queue.end(3, AttemptOutcome.COMPLETED, "").state is JobState.DONE


def test_the_queue_is_bounded(queue: Queue) -> None:
    with pytest.raises(QueueFull):
        queue.add(job, MOST_WAITING + 1)
    assert queue.jobs() == []


def test_only_the_owner_can_read_it(queue: Queue, tmp_path: Path) -> None:
    queue.add(job)
    queue.move(1, 1)
    queue.pause("bench")
    for path in (tmp_path / "home").rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


def put(tmp_path: Path, number: int, text: object) -> None:
    """Write a row as somebody with another program would."""
    with closing(sqlite3.connect(tmp_path / "home" / "queue" / "jobs.sqlite")) as database:
        values = [number, "bench", "queued", text]
        database.execute("INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, NULL, ?)", values)
        database.commit()


def test_a_damaged_job_hides_no_other_and_its_number_is_not_used_again(
    queue: Queue, tmp_path: Path
) -> None:
    queue.add(job, 2)
    whole = queue.job(2).model_dump_json()
    for size in range(0, len(whole), 9):
        put(tmp_path, 2, whole[:size])
        assert [item.id for item in queue.jobs()] == [1]
        assert len(queue.problems) == 1 and "job 2 cannot be used" in queue.problems[0]
    put(tmp_path, 2, job(2, rig="other", state=JobState.RUNNING).model_dump_json())
    assert [item.id for item in queue.jobs()] == [1]
    assert [item.id for item in queue.move(1, 1)] == [1]
    with pytest.raises(QueueError, match="job 2 cannot be read"):
        queue.cancel(2)
    assert [item.id for item in queue.add(job)] == [3]
    taken = queue.claim("bench", attempt())
    assert taken is not None and taken.id == 1
    queue.end(1, AttemptOutcome.COMPLETED, "")
    passed_over = queue.claim("bench", attempt())
    assert passed_over is not None and passed_over.id == 3


def test_a_damaged_database_is_named_with_what_to_do(queue: Queue, tmp_path: Path) -> None:
    queue.add(job)
    file = tmp_path / "home" / "queue" / "jobs.sqlite"
    file.write_bytes(b"x" * len(file.read_bytes()))
    for call in (queue.jobs, queue.stamp, lambda: queue.add(job)):
        with pytest.raises(QueueError, match=r"jobs.sqlite\): it is damaged .*\.recover"):
            call()


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=400) | st.text(max_size=200) | st.none() | st.integers(0, 9))
def test_hostile_rows_are_problems_and_nothing_else(
    queue: Queue, tmp_path: Path, data: object
) -> None:
    put(tmp_path, 1, "" if data is None else data)
    assert queue.jobs() == [] and len(queue.problems) == 1


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=st.sampled_from(sorted(Job.model_fields)), value=_JSON)
def test_a_hostile_value_in_any_field_is_refused_or_is_that_job(
    queue: Queue, tmp_path: Path, key: str, value: object
) -> None:
    data = json.loads(job(1).model_dump_json())
    put(tmp_path, 1, json.dumps({**data, key: value}))
    for item in queue.jobs():
        assert item.id == 1
        assert "/" not in item.rig + item.plan + "".join(a.run or "" for a in item.attempts)
        assert Job.model_validate_json(item.model_dump_json()) == item


def test_jobs_of_an_older_version_are_taken_over_from_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "queue" / "jobs"
    folder.mkdir(parents=True)
    for number in (3, 7):
        (folder / f"{number:06d}.json").write_text(job(number).model_dump_json())
    (folder / "000008.json").write_text("{")
    os.mkfifo(folder / "000009.json")
    home = Home(tmp_path / "home")
    assert numbers(Queue(home)) == [3, 7]
    Queue(home).cancel(3)
    assert numbers(Queue(home)) == [7]
    assert [item.id for item in Queue(home).add(job)] == [8]


def test_several_jobs_are_added_all_or_none(queue: Queue) -> None:
    def make(number: int) -> Job:
        if number == 4:
            raise ConfigurationError([])
        return job(number)

    queue.add(job)
    before = queue.stamp()
    with pytest.raises(ConfigurationError):
        queue.add(make, 5)
    assert numbers(queue) == [1] and queue.stamp() == before
    assert [item.id for item in queue.add(job, 5)] == [2, 3, 4, 5, 6]
    assert queue.stamp() != before


def test_every_change_changes_the_stamp(queue: Queue) -> None:
    """However fast one comes after the other: no cancel is missed."""
    queue.add(job, 3)
    queue.claim("bench", attempt())
    seen = [queue.stamp()]
    for change in (
        lambda: queue.note(1, pid=7),
        lambda: queue.cancel(1),
        lambda: queue.move(3, 1),
        lambda: queue.pause("bench"),
        lambda: queue.resume("bench"),
        lambda: queue.end(1, AttemptOutcome.INTERRUPTED, ""),
    ):
        change()
        seen.append(queue.stamp())
    assert len(set(seen)) == len(seen)
    assert queue.claim("other", attempt()) is None
    assert queue.stamp() == seen[-1]


def test_ten_thousand_jobs_wait_and_no_more(queue: Queue) -> None:
    queue.add(job, MOST_WAITING)
    assert numbers(queue) == list(range(1, MOST_WAITING + 1))
    with pytest.raises(QueueFull, match="10000 are the most"):
        queue.add(job)
    taken = queue.claim("bench", attempt())
    assert taken is not None and taken.id == 1


def expected_one_by_one(jobs: list[Job], now_s: float) -> list[int]:
    """The order in which waiting jobs begin, as the queue itself would give them out."""
    waiting, at_s, order = list(jobs), now_s, []
    while waiting:
        at_s = max(at_s, min(item.after_s or 0.0 for item in waiting))
        following = next(item for item in waiting if (item.after_s or 0.0) <= at_s)
        waiting.remove(following)
        order.append(following.id)
        at_s += (following.estimate_s or 0.0) + BETWEEN_JOBS_S
    return order


@given(st.lists(st.none() | st.integers(0, 2000), max_size=30))
def test_jobs_are_expected_in_the_order_in_which_they_will_be_taken(
    after: list[int | None],
) -> None:
    jobs = [
        job(number, after_s=None if wait is None else NOW_S + wait)
        for number, wait in enumerate(after, 1)
    ]
    found = expected_schedule(jobs, NOW_S, ())
    begins = [(found[item.id].begin_s or 0.0, item.id) for item in jobs]
    assert [number for _, number in sorted(begins)] == expected_one_by_one(jobs, NOW_S)


def _client(home: Path, seed: int, count: int, out: Any) -> None:
    queue, rng = Queue(Home(home)), random.Random(seed)
    added, ended = [], []
    for _ in range(count):
        added += [item.id for item in queue.add(lambda number: job(number, tags=(f"c{seed}",)))]
        taken = queue.claim("bench", attempt())
        if taken is not None:
            queue.note(taken.id, pid=os.getpid())
            queue.end(taken.id, AttemptOutcome.COMPLETED, str(seed))
            ended.append(taken.id)
        if rng.random() < 0.3:
            waiting = numbers(queue)
            if waiting:
                with contextlib.suppress(NoSuchJob):  # somebody took it meanwhile
                    queue.move(rng.choice(waiting), rng.randint(1, 9))
    out.put((added, ended))


def test_many_clients_at_once_lose_nothing_and_do_nothing_twice(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    home, clients, count = tmp_path / "home", 6, 12
    processes = [
        context.Process(target=_client, args=(home, seed, count, out)) for seed in range(clients)
    ]
    for process in processes:
        process.start()
    results = [out.get(timeout=90) for _ in processes]
    for process in processes:
        process.join()
    added = sorted(number for part, _ in results for number in part)
    ended = [number for _, part in results for number in part]
    assert added == list(range(1, clients * count + 1))
    assert len(ended) == len(set(ended))
    queue = Queue(Home(home))
    assert numbers(queue, JobState.DONE) == sorted(ended)
    assert sorted(numbers(queue) + ended) == added
    assert queue.problems == ()


@pytest.mark.long
@pytest.mark.fault
def test_writers_killed_at_random_moments_leave_every_confirmed_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL hundreds of times: what was confirmed holds, everything can be read."""
    monkeypatch.setattr(store, "MOST_FINISHED", 1_000_000)
    home, rng = tmp_path / "home", random.Random(6)
    done: set[int] = set()
    added: set[int] = set()
    for _ in range(12):
        for _ in range(18):
            for line in _killed_writer(home, rng).splitlines():
                word, _, number = line.partition(" ")
                (done if word == "done" else added).add(int(number))
        queue = Queue(Home(home))
        states = {item.id: item.state for item in queue.jobs()}
        assert queue.problems == ()
        assert added <= set(states)
        assert len(states) % MOST_AT_ONCE == 0, "all of an order, or nothing of it"
        assert all(states[number] is JobState.DONE for number in done)
    assert len(added) >= 12 * 18
    assert sorted(states) == list(range(1, len(states) + 1))


MOST_AT_ONCE = 3


def _killed_writer(home: Path, rng: random.Random) -> str:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            queue = Queue(Home(home))
            while True:
                for one in queue.add(job, MOST_AT_ONCE):
                    os.write(writing, f"added {one.id}\n".encode())
                taken = queue.claim("bench", attempt())
                if taken is not None:
                    queue.end(taken.id, AttemptOutcome.COMPLETED, "")
                    os.write(writing, f"done {taken.id}\n".encode())
                else:
                    for left in queue.jobs():
                        if left.state is JobState.RUNNING:
                            queue.end(left.id, AttemptOutcome.INTERRUPTED, "killed")
        except BaseException:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as file:
        first = file.readline()
        time.sleep(rng.uniform(0.0, 0.03))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return first + file.read()


def test_begin_and_end_of_each_job_follow_from_the_one_before(queue: Queue) -> None:
    jobs = [
        job(1, state=JobState.RUNNING, attempts=(Attempt(begun_s=NOW_S - 40),)),
        job(2, after_s=NOW_S + 1000),
        job(3),
        job(4, rig="other", estimate_s=None),
        job(5, rig="other"),
        job(6, rig="still"),
    ]
    found = expected_schedule(jobs, NOW_S, {"still"})
    assert (found[1].begin_s, found[1].end_s) == (NOW_S - 40, NOW_S + 60)
    assert found[3].begin_s == NOW_S + 60  # passes the one that waits for its time
    assert found[2].begin_s == NOW_S + 1000
    assert found[4].begin_s == NOW_S and found[4].end_s is None
    assert found[5].begin_s is None
    assert found[6].begin_s is None
    later = expected_schedule([job(1), job(2)], NOW_S, ())
    assert later[2].begin_s == NOW_S + 100 + BETWEEN_JOBS_S


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("22:00", "2026-11-21 22:00"),
        ("08:00", "2026-11-22 08:00"),
        ("2026-12-01 06:30", "2026-12-01 06:30"),
        ("+2h30m", "2026-11-21 14:30"),
        ("45m", "2026-11-21 12:45"),
    ],
)
def test_times_as_people_say_them(text: str, wanted: str) -> None:
    now = datetime(2026, 11, 21, 12, 0).astimezone()
    assert parse_after(text, now) == datetime.fromisoformat(wanted).astimezone().timestamp()


@pytest.mark.parametrize("text", ["", "25:00", "tomorrow", "+", "h", "99999999-01-01"])
def test_what_is_no_time_is_refused_with_what_would_be(text: str) -> None:
    with pytest.raises(ConfigurationError, match="22:00"):
        parse_after(text, datetime(2026, 11, 21, 12, 0).astimezone())
