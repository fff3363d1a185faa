"""``labctl measure`` and ``labctl mark`` on a simulated rig of known truth: the program that works,
fails, hangs, is killed, leaves others behind, or is stopped; also where labctl itself is killed."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from instruments.simulated.bench import Bench, configure
from instruments.simulated.drive.ground_truth import GroundTruth
from labctl.analysis.run.stretch import stretch_of
from labctl.analysis.run.summary import summarise
from labctl.analysis.run_summary import Mark, RunSummary
from labctl.cli.main import INTERRUPTED
from labctl.record.events import EventKind, Outcome
from labctl.record.layout import EVENTS_FILE
from labctl.record.phase import Pattern
from labctl.record.reader import RunRecord, find_runs
from tests.json_schemas import validate

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

LABCTL = (sys.executable, "-m", "labctl.cli.main")
WITHIN_S = 60.0


@dataclass(frozen=True)
class Lab:
    bench: Bench
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "LABCTL_HOME": str(self.folder / "home")}

    def command(self, *words: str) -> list[str]:
        return [*LABCTL, "measure", str(self.bench.rig), *words]

    def run(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            words, cwd=self.folder, env=self.environment, timeout=240,
            capture_output=True, check=False,
        )  # fmt: skip

    def measure(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        return self.run(*self.command(*words))

    @contextlib.contextmanager
    def measuring(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """It runs, and its program has begun."""
        before = self.runs()
        process = subprocess.Popen(
            self.command(*words), cwd=self.folder, env=self.environment,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            wait_for(lambda: len(self.runs()) > len(before))
            journal = self.newest / EVENTS_FILE
            wait_for(lambda: journal.exists() and '"phase_started"' in journal.read_text())
            yield process
        finally:
            process.kill()
            process.wait()

    def runs(self) -> list[Path]:
        return find_runs(self.folder / "home" / "runs")

    @property
    def newest(self) -> Path:
        return self.runs()[-1]


def wait_for(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def alive(sign: str) -> list[int]:
    """The processes whose command line has ``sign``."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and sign.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def asleep(sign: str) -> str:
    """Shell that sleeps for long, in a process whose command line has ``sign``."""
    return f"{sys.executable} -c 'import time; time.sleep(900)' {sign}"


@pytest.fixture
def sign() -> Iterator[str]:
    """A word for command lines that nobody else has; what bears it is killed at the end."""
    word = f"labctl-test-{secrets.token_hex(6)}"
    yield word
    for pid in alive(word):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("measure")
    with Bench(folder / "bench", configure(seed=7)) as bench:
        yield Lab(bench, folder)


def summary_of(run: Path) -> tuple[RunRecord, RunSummary]:
    record = RunRecord(run)
    return record, summarise(record)


def ended(record: RunRecord) -> dict[str, Any]:
    """What the record says of the end of its program."""
    (event,) = [
        one
        for one in record.events
        if one.kind == EventKind.PHASE_ENDED
        and record.header.phases[one.data["index"]].pattern is Pattern.PROGRAM
    ]
    return event.data


def reads_from(bench: Bench, seconds: int) -> str:
    """A program that works on the drive: an fio of its own, which labctl knows nothing of."""
    uri = next(word for word in bench.rig.read_text().split('"') if word.startswith("nbd+unix"))
    return (
        f"fio --name=own --ioengine=nbd --uri='{uri}' --rw=randread --bs=4k --iodepth=32 "
        f"--time_based --runtime={seconds} --size=100m >/dev/null"
    )


def test_the_truth_lies_within_the_uncertainty_of_a_program_and_of_its_parts(lab: Lab) -> None:
    work = reads_from(lab.bench, 4)
    script = rf"""echo "step one"; sleep 3; echo "step 'two\""; {work}; echo "step three é" """
    done = lab.measure(
        "--idle", "3", "--name", "my job", "--marks", "^step", "--", "sh", "-c", script
    )
    assert done.returncode == 0, done.stderr
    record, summary = summary_of(lab.newest)
    (program,) = summary.programs
    assert program.phase.label == "my job"
    assert program.outcome == Outcome.COMPLETED
    assert [mark.text for mark in summary.marks] == ["step one", "step 'two\"", "step three é"]
    truth, anchor = GroundTruth(lab.bench.directory / "truth"), record.header.anchor

    def true_watts(begin_ns: int, end_ns: int) -> float:
        times = anchor.to_monotonic_ns(begin_ns), anchor.to_monotonic_ns(end_ns)
        return sum(truth.mean_watts(*times).values())

    assert program.watts is not None and program.joules is not None
    assert program.marginal_watts is not None
    whole = true_watts(program.begin_ns, program.end_ns)
    assert program.watts.covers(whole)
    assert program.joules.covers(whole * program.duration_s)
    times = [mark.t_ns for mark in summary.marks]
    rest, busy = (stretch_of(record, summary, *pair) for pair in itertools.pairwise(times))
    for part in (rest, busy):
        assert part.watts is not None and part.joules is not None
        assert part.watts.covers(true_watts(part.begin_ns, part.end_ns))
        assert part.joules.covers(true_watts(part.begin_ns, part.end_ns) * part.duration_s)
    assert rest.watts is not None and busy.watts is not None
    assert busy.watts.value > rest.watts.value + 0.5
    assert b"my job" in done.stdout
    assert b"step three" in done.stdout
    page = (lab.newest / "report.html").read_text()
    assert "my job" in page
    assert page.count("step one") >= 2  # in the command and among the marks


@pytest.mark.long
def test_a_stretch_is_named_by_marks_seconds_and_the_clock(lab: Lab) -> None:
    script = "echo a1; sleep 3; echo b2; sleep 1"
    assert (
        lab.measure("--idle", "0", "--marks", "[ab][12]", "--", "sh", "-c", script).returncode == 0
    )
    run = str(lab.newest)
    first, second = summary_of(lab.newest)[1].marks
    found = lab.run(*LABCTL, "analyse", run, "--from", "a1", "--to", "mark:b2", "--json")
    reported = json.loads(found.stdout)
    validate("stretch", reported)
    assert (reported["begin_ns"], reported["end_ns"]) == (first.t_ns, second.t_ns)
    assert reported["joules"]["u"] > 0
    printed = lab.run(*LABCTL, "analyse", run, "--from", "a1", "--to", "b2").stdout.decode()
    assert "J ± U" in printed
    assert all(len(line) <= 80 for line in printed.splitlines()), printed
    for option, begin, end in (
        ("--to", "b2", "a1"),
        ("--from", "nothing", "b2"),
        ("--to", "0", "1h"),
        ("--from", "25:00:00", "b2"),
    ):
        refused = lab.run(*LABCTL, "analyse", run, "--from", begin, "--to", end)
        assert refused.returncode == 2, refused.stdout
        assert f"command line: {option} = " in refused.stderr.decode()


def test_a_program_that_fails_is_reported_with_its_code_and_its_last_words(lab: Lab) -> None:
    script = "sleep 2; printf 'bad \\377 bytes\\n\\033[31mred' >&2; exit 3"
    done = lab.measure("--idle", "0", "--", "sh", "-c", script)
    assert done.returncode == 1
    record, summary = summary_of(lab.newest)
    assert summary.outcome == Outcome.FAILED
    assert "exit code 3" in summary.reason
    assert "red" in summary.reason
    assert ended(record)["exit_code"] == 3
    assert b"\x1b" not in done.stdout + done.stderr
    folder = record.fio_dir(record.header.phases[-1])
    assert (folder / "program.stderr").read_bytes() == b"bad \xff bytes\n\x1b[31mred"
    (program,) = summary.programs
    assert program.watts is not None  # what it drew until then is known


def test_what_cannot_be_started_is_refused_before_anything_is_recorded(lab: Lab) -> None:
    before = lab.runs()
    done = lab.measure("--marks", "(", "--", "no-such-program", "--at-all")
    assert done.returncode == 2
    assert b"no-such-program" in done.stderr
    assert b"--marks" in done.stderr
    assert lab.runs() == before


@pytest.mark.long
def test_a_limit_ends_a_program_that_hangs_with_all_that_it_has_started(
    lab: Lab, sign: str
) -> None:
    script = f"{asleep(sign)} & {asleep(sign)}"
    done = lab.measure("--idle", "0", "--limit", "3", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert not alive(sign)
    record, summary = summary_of(lab.newest)
    (program,) = summary.programs
    assert 3.0 <= program.duration_s < 3.0 + WITHIN_S
    assert any("its limit" in note for note in program.notes)
    assert ended(record)["outcome"] == Outcome.COMPLETED


@pytest.mark.parametrize("through", [pytest.param("", marks=pytest.mark.long), "timeout 900 "])
def test_nothing_that_a_killed_program_left_behind_goes_on(
    lab: Lab, sign: str, through: str
) -> None:
    script = f"({through}{asleep(sign)} > /dev/null 2>&1 &); sleep 1; kill -9 $$"
    done = lab.measure("--idle", "0", "--", "sh", "-c", script)
    assert done.returncode == 1
    assert ended(RunRecord(lab.newest))["exit_code"] == -signal.SIGKILL
    wait_for(lambda: not alive(sign))


@pytest.mark.parametrize("more", [(), pytest.param(("--json",), marks=pytest.mark.long)])
def test_an_output_that_nobody_reads_stops_no_recording(lab: Lab, more: tuple[str, ...]) -> None:
    script = "yes $(printf %0500d 1) | head -c 4000000; sleep 2"
    with lab.measuring("--idle", "0", *more, "--", "sh", "-c", script) as process:
        wait_for(lambda: '"run_ended"' in (lab.newest / EVENTS_FILE).read_text())
        stdout, stderr = process.communicate(timeout=WITHIN_S)
        assert process.returncode == 0
    assert "lines not shown" in (stderr if more else stdout).decode()
    record = RunRecord(lab.newest)
    kept = record.fio_dir(record.header.phases[-1]) / "program.stdout"
    assert kept.stat().st_size == 4_000_000


def test_a_mark_is_set_from_elsewhere_and_ctrl_c_ends_the_program(lab: Lab, sign: str) -> None:
    with lab.measuring("--idle", "0", "--", "sh", "-c", f"{asleep(sign)}; true") as process:
        marked = lab.run(*LABCTL, "mark", "the cache is", '"cold"')
        assert marked.returncode == 0, marked.stderr
        assert b'the cache is "cold"' in marked.stdout
        again = lab.run(*LABCTL, "mark", "again", "--run", str(lab.newest))
        assert again.returncode == 0, again.stderr
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=WITHIN_S)
        assert process.returncode == INTERRUPTED
    assert not alive(sign)
    record, summary = summary_of(lab.newest)
    assert summary.outcome == Outcome.ABORTED
    assert [(mark.text, mark.source) for mark in summary.marks] == [
        ('the cache is "cold"', "person"), ("again", "person"),
    ]  # fmt: skip
    (program,) = summary.programs
    assert all(program.begin_ns < mark.t_ns < program.end_ns for mark in summary.marks)
    assert ended(record)["outcome"] == Outcome.INTERRUPTED
    late = lab.run(*LABCTL, "mark", "too late")
    assert late.returncode == 2
    assert b"nothing runs" in late.stderr


def test_a_labctl_that_is_killed_takes_its_program_along(lab: Lab, sign: str) -> None:
    script = f"{asleep(sign)} & {asleep(sign)}; true"
    with lab.measuring("--idle", "0", "--", "sh", "-c", script) as process:
        # as an argument of its own: that of labctl and of sh is in the script, too
        wait_for(lambda: len(alive(f"\0{sign}\0")) == 2)
        process.kill()
        process.wait()
    wait_for(lambda: not alive(sign))
    refused = lab.run(*LABCTL, "run", str(lab.bench.rig), "--resume", str(lab.newest))
    assert refused.returncode == 2
    assert b"labctl measure" in refused.stderr


def test_json_is_all_that_is_on_standard_output(lab: Lab) -> None:
    done = lab.measure("--idle", "0", "--json", "--", "sh", "-c", "sleep 2; echo printed")
    reported = json.loads(done.stdout)
    validate("run", reported)
    assert reported["outcome"] == "completed"
    assert reported["summary"]["phases"][0]["phase"]["command"] == "sh -c 'sleep 2; echo printed'"
    assert b"printed" in done.stderr


def test_marks_are_plain_data_of_a_summary(lab: Lab) -> None:
    assert lab.measure("--idle", "0", "--marks", "x", "--", "echo", "x y").returncode == 0
    (mark,) = summary_of(lab.newest)[1].marks
    assert mark == Mark(mark.t_ns, "x y", "output")
