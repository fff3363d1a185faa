from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from instruments.reading import Block, ClockPair
from labctl.errors import JournalError
from labctl.record import journal as journals
from labctl.record.header import ChannelInfo, DriveInfo, Header, RailInfo
from labctl.record.journal import Journal
from labctl.record.phase import Pattern, Phase, Role
from labctl.record.reader import RunRecord, find_runs
from labctl.record.timebase import Anchor, Timebase

PHASE = Phase(0, Role.MEASURE, "s", Pattern.RANDREAD, 5.0, 4096, 8, 1)


def header(run_id: str = "20260101T000000Z_rig_plan") -> Header:
    return Header(
        run_id=run_id,
        rig_name="rig",
        plan_name="plan",
        rig_text="name = 'rig'",
        plan_text="name = 'plan'",
        phases=(PHASE,),
        channels=(ChannelInfo("i12.voltage", "voltage", "V", clock="device"),),
        rails=(RailInfo("12V", 12.0, "v12.voltage", "i12.voltage", shunt_ohm=0.05),),
        temperatures={"composite": "drive.composite"},
        drive=DriveInfo(model="M", serial="S"),
        anchor=Anchor.take(),
        versions={"labctl": "0"},
    )


def block(values: list[float], begin: int = 0) -> Block:
    times = np.arange(begin, begin + len(values), dtype=np.int64)
    return Block("voltage", times, np.array(values))


def started(root: Path) -> Journal:
    return Journal(journals.create(root, header()), Timebase().now_ns)


def test_what_is_recorded_reads_back_the_same(tmp_path: Path) -> None:
    journal = started(tmp_path)
    journal.readings("i12", block([1.0, 2.5]))
    journal.readings("i12", block([3.5], begin=2))
    journal.clock_pairs("i12", (ClockPair("voltage", 10, 20, 3),))
    journal.event("phase_started", 5, index=0)
    journal.close()
    record = RunRecord(find_runs(tmp_path)[0])
    assert record.header == header(record.header.run_id).__class__.from_json(
        json.loads((record.path / "run.json").read_text())
    )
    assert record.header.phases == (PHASE,)
    assert record.readings("i12.voltage")["v"].tolist() == [1.0, 2.5, 3.5]
    assert record.readings("i12.voltage")["t"].tolist() == [0, 1, 2]
    assert record.clock_pairs("i12.voltage").tolist() == [(10, 20, 3)]
    assert [(e.t_ns, e.kind, e.data) for e in record.events] == [(5, "phase_started", {"index": 0})]
    assert record.problems == []
    assert record.readings("nothing.here").size == 0


def test_two_runs_of_the_same_second_get_two_directories(tmp_path: Path) -> None:
    first, second = (journals.create(tmp_path, header()) for _ in range(2))
    assert second.name == f"{first.name}-2"
    Journal(second, Timebase().now_ns).close()
    assert RunRecord(second).header.run_id == second.name


@given(st.integers(0, 2000))
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_journal_cut_at_any_byte_reads_back_to_there(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    root = tmp_path_factory.mktemp("cut")
    journal = started(root)
    for index in range(20):
        journal.event("phase_started", index, index=index, text="ü" * index)
    journal.readings("i12", block([float(n) for n in range(1, 51)]))
    journal.close()
    path = find_runs(root)[0]
    for name in ("journal.jsonl", "channels/i12.voltage"):
        file = path / name
        whole = file.read_bytes()
        file.write_bytes(whole[: min(cut, len(whole))])
    record = RunRecord(path)
    assert [event.t_ns for event in record.events] == list(range(len(record.events)))
    assert record.readings("i12.voltage")["v"].tolist() == [
        float(n) for n in range(1, min(cut // 16, 50) + 1)
    ]
    torn = cut < 800 and cut % 16 != 0
    assert any("i12.voltage" in problem for problem in record.problems) == torn


@pytest.mark.parametrize("zeros", [5, 16, 23, 4096])
def test_zeros_that_a_loss_of_power_leaves_at_the_end_are_no_readings(
    tmp_path: Path, zeros: int
) -> None:
    """A file system may have the new size of a file on disk, and not what was written to it."""
    journal = started(tmp_path)
    journal.readings("i12", block([1.0, 2.0, 0.0], begin=7))
    journal.clock_pairs("i12", (ClockPair("voltage", 10, 20, 3),))
    journal.event("phase_started", 5, index=0)
    journal.close()
    (path,) = find_runs(tmp_path)
    names = ("journal.jsonl", "channels/i12.voltage", "channels/i12.voltage.clock")
    whole = {name: (path / name).read_bytes() for name in names}
    for name in names:
        (path / name).write_bytes(whole[name] + bytes(zeros))
    record = RunRecord(path)
    assert len(record.events) == 1
    assert record.readings("i12.voltage")["t"].tolist() == [7, 8, 9]
    assert len(record.clock_pairs("i12.voltage")) == 1
    assert {problem.partition(": ")[0] for problem in record.problems} == set(names)
    assert journals.reopen(path) == dict.fromkeys(names, zeros)
    assert {name: (path / name).read_bytes() for name in names} == whole


def test_a_spoilt_line_in_the_middle_costs_only_itself(tmp_path: Path) -> None:
    journal = started(tmp_path)
    for index in range(3):
        journal.event("x", index)
    journal.close()
    path = find_runs(tmp_path)[0]
    lines = (path / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (path / "journal.jsonl").write_bytes(lines[0] + b"\xff\x00 nonsense\n" + lines[2])
    record = RunRecord(path)
    assert [event.t_ns for event in record.events] == [0, 2]
    assert record.problems == ["journal.jsonl: unreadable line 2 dropped"]


def test_an_event_that_was_reported_survives_a_kill(tmp_path: Path) -> None:
    """The kernel has it when ``event`` returns, whatever the writer's thread is doing."""
    journal = started(tmp_path)
    file = find_runs(tmp_path)[0] / "journal.jsonl"
    for number in range(20):
        journal.readings("i12", block([1.0]))
        line = journal.event("tick", number).to_line()
        assert file.read_text().endswith(line)
    journal.close()


def test_an_event_is_on_disk_when_flush_returns(tmp_path: Path) -> None:
    journal = started(tmp_path)
    journal.event("run_started", 1)
    journal.readings("i12", block([1.0]))
    journal.flush()
    record = RunRecord(find_runs(tmp_path)[0])
    assert record.events and record.readings("i12.voltage").size == 1
    journal.close()


def test_many_threads_lose_nothing(tmp_path: Path) -> None:
    journal = started(tmp_path)

    def write(name: str) -> None:
        for number in range(300):
            journal.readings(name, block([float(number)]))
            journal.event("tick", number, source=name)

    threads = [threading.Thread(target=write, args=(f"m{n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    journal.close()
    record = RunRecord(find_runs(tmp_path)[0])
    for number in range(6):
        assert record.readings(f"m{number}.voltage")["v"].tolist() == [float(n) for n in range(300)]
    assert len(record.events) == 1800


_WRITER = """
import sys, time
from pathlib import Path
import numpy as np
from instruments.reading import Block
from labctl.record.journal import Journal
from labctl.record.timebase import Timebase
timebase = Timebase()
journal = Journal(Path(sys.argv[1]), timebase.now_ns)
count = 0
while True:
    journal.readings("m", Block("voltage", np.array([timebase.now_ns()]), np.array([float(count)])))
    count += 1
    print(count, time.monotonic_ns(), flush=True)
    time.sleep(0.002)
"""


@pytest.mark.fault
def test_kill_9_loses_at_most_what_was_not_handed_over(tmp_path: Path) -> None:
    path = journals.create(tmp_path, header())
    with subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        written = [process.stdout.readline().strip() for _ in range(300)]
        process.send_signal(signal.SIGKILL)
        written += process.stdout.read().split("\n")
    record = RunRecord(path)
    kept = record.readings("m.voltage")["v"]
    assert kept.tolist() == [float(n) for n in range(len(kept))]
    last_ns = int(written[-2].split()[1])
    kept_ns = int(written[len(kept) - 1].split()[1])
    # 250 ms by design; the rest is leave for a busy machine
    assert last_ns - kept_ns < 1_000_000_000
    assert record.problems == []


@pytest.mark.fault
def test_a_full_disk_stops_with_one_message_and_keeps_whole_records(tmp_path: Path) -> None:
    """A limit on file size makes the kernel refuse a write half way, as a full disk does."""
    path = journals.create(tmp_path, header())
    program = (
        "import resource, signal, sys; from pathlib import Path\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "import numpy as np\n"
        "from instruments.reading import Block\n"
        "from labctl.record.journal import Journal\n"
        "from labctl.errors import JournalError\n"
        "reported = []\n"
        "journal = Journal(Path(sys.argv[1]), lambda: 0, reported.append)\n"
        "try:\n"
        "    for n in range(100):\n"
        "        journal.readings('m', Block('v', np.array([n]), np.array([float(n)])))\n"
        "        journal.flush()\n"
        "except JournalError as error:\n"
        "    assert reported == [str(error)], reported\n"
        "    print(error)\n"
        "journal.close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    assert "File too large" in done.stdout and "what was recorded stays" in done.stdout
    record = RunRecord(path)
    assert record.readings("m.v")["v"].tolist() == [float(n) for n in range(62)]
    assert record.problems == []


@pytest.mark.fault
@pytest.mark.parametrize("error", [OverflowError("too large"), MemoryError(), SystemExit(3)])
def test_whatever_ends_the_writer_is_reported_and_kept_and_piles_nothing_up(
    tmp_path: Path, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[str] = []
    ended = threading.Event()

    def failed(message: str) -> None:
        reported.append(message)
        ended.set()
        raise RuntimeError("Event loop is closed")

    def append(self: object, data: object) -> None:
        raise error

    journal = Journal(journals.create(tmp_path, header()), Timebase().now_ns, failed)
    with monkeypatch.context() as patched:
        patched.setattr(np, "empty", append)
        journal.readings("m", block([1.0]))
        assert ended.wait(30)
    assert type(error).__name__ in reported[0] and journal.failure == reported[0]
    for record in (
        lambda: journal.readings("m", block([2.0])),
        lambda: journal.clock_pairs("m", (ClockPair("voltage", 10, 20, 3),)),
        lambda: journal.event("phase_started"),
        journal.flush,
    ):
        with pytest.raises(JournalError, match=type(error).__name__):
            record()
    journal.event("run_ended", outcome="failed", reason=reported[0])
    journal.close()
    end = RunRecord(journal.path).end
    assert end is not None and end.data["reason"] == reported[0]
    assert len(reported) == 1


def test_the_names_of_a_run_and_its_files_are_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    runs = tmp_path / "runs"
    journal = started(runs)
    journal.readings("m", block([1.0]))
    journal.flush()
    journal.close()
    for folder in (runs, journal.path, journal.path / "channels"):
        assert folder.stat().st_ino in synced, folder


def test_a_journal_that_cannot_be_opened_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="No such file"):
        Journal(tmp_path / "gone", Timebase().now_ns)


def test_a_directory_that_is_no_run_is_reported(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="not a run"):
        RunRecord(tmp_path)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(JournalError, match="cannot be read"):
        RunRecord(tmp_path)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = journals.create(tmp_path, header())
    data = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(json.dumps({**data, "format": 99}))
    with pytest.raises(JournalError, match="update labctl"):
        RunRecord(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_one_message(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(JournalError, match="Permission denied"):
        journals.create(tmp_path / "runs", header())


def test_writing_costs_no_memory_that_grows(tmp_path: Path) -> None:
    journal = started(tmp_path)
    values = np.ones(10_000)
    times = np.arange(10_000, dtype=np.int64)
    for _ in range(50):
        journal.readings("m", Block("v", times, values))
    journal.flush()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(20):
        for _ in range(50):
            journal.readings("m", Block("v", times, values))
        journal.flush()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    journal.close()
    assert after - before < 40_000  # KiB; the 20 rounds brought 160 MB
