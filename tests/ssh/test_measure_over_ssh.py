"""``labctl measure`` of a rig whose drive is in another machine, behind a real sshd: the program is
started there, and ended there with all that it has started, however labctl or the connection ends.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from instruments.simulated.bench import Bench, configure
from instruments.simulated.drive.ground_truth import GroundTruth
from labctl.errors import INTERRUPTED
from labctl.record.events import Outcome
from labctl.record.reader import RunRecord
from tests.bench.test_measure import WITHIN_S, Lab, alive, asleep, ended, summary_of, wait_for
from tests.ssh.sshd import HOST, Sshd

pytestmark = [pytest.mark.bench, pytest.mark.fault, pytest.mark.long, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with Bench(tmp_path_factory.mktemp("far") / "bench", configure(seed=7)) as running:
        local = running.rig.read_text()
        running.rig.write_text(local.replace('host = "local"', f'host = "{HOST}"'))
        yield running


@pytest.fixture
def lab(bench: Bench, tmp_path: Path, sshd: Sshd) -> Lab:
    return Lab(bench, tmp_path)


@pytest.fixture
def word() -> Iterator[str]:
    """For command lines that nobody else has; what bears it is killed at the end."""
    text = f"labctl-test-{secrets.token_hex(6)}"
    yield text
    for pid in alive(text):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def asleep_over_there(word: str) -> int:
    """How many processes were told to sleep, and through ``timeout``."""
    count = 0
    for pid in alive(word):
        with contextlib.suppress(OSError):
            count += Path(f"/proc/{pid}/cmdline").read_bytes().endswith(f"{word}\0".encode())
    return count


def test_it_runs_over_there_and_is_measured_as_one_here(lab: Lab, word: str) -> None:
    left_behind = f"timeout 900 {asleep(word)} & cd /; timeout 900 {asleep(word)} &"
    script = f"pwd; echo step $SSH_CONNECTION; {left_behind} sleep 5; echo step two"
    done = lab.measure("--idle", "0", "--marks", "^step", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    record, summary = summary_of(lab.newest)
    printed = record.fio_dir(record.header.phases[-1]) / "program.stdout"
    folder, first, second = printed.read_text().splitlines()
    assert Path(folder).parent.name.startswith("labctl-") and not Path(folder).parent.exists()
    assert first.startswith("step 127.0.0.1")
    assert [mark.text for mark in summary.marks] == [first, second]
    wait_for(lambda: not alive(word))
    assert ended(record)["exit_code"] == 0 and ended(record)["output_whole"]
    (program,) = summary.programs
    truth, anchor = GroundTruth(lab.bench.directory / "truth"), record.header.anchor
    times = [anchor.to_monotonic_ns(t_ns) for t_ns in (program.begin_ns, program.end_ns)]
    assert program.watts is not None
    assert program.watts.covers(sum(truth.mean_watts(*times).values()))


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (("sh", "-c", "echo why >&2; exit 3"), "exit code 3; its last words: why"),
        (("no-such-program",), "exit code 127; its last words: labctl: "),
        (("sh", "-c", "kill -9 $$"), "exit code 255"),
    ],
)
def test_one_that_fails_over_there_says_why(
    lab: Lab, command: tuple[str, ...], reason: str
) -> None:
    done = lab.measure("--idle", "0", "--", *command)
    assert done.returncode == 1
    assert reason in summary_of(lab.newest)[1].reason


def test_ctrl_c_here_ends_it_over_there(lab: Lab, word: str) -> None:
    with lab.measuring("--idle", "0", "--", "sh", "-c", f"{asleep(word)}; true") as process:
        wait_for(lambda: asleep_over_there(word) == 1)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=WITHIN_S)
        assert process.returncode == INTERRUPTED
    wait_for(lambda: not alive(word))
    assert ended(RunRecord(lab.newest))["outcome"] == Outcome.INTERRUPTED


def test_a_labctl_that_is_killed_takes_it_along(lab: Lab, word: str) -> None:
    script = f"cd /; timeout 900 {asleep(word)} & {asleep(word)}; true"
    with lab.measuring("--idle", "0", "--", "sh", "-c", script) as process:
        wait_for(lambda: asleep_over_there(word) == 3)
        process.kill()
        process.wait()
        wait_for(lambda: not alive(word))


def test_a_connection_that_is_cut_ends_it_and_it_is_not_begun_again(
    lab: Lab, sshd: Sshd, word: str
) -> None:
    script = f"cd /; timeout 900 {asleep(word)} & {asleep(word)}; true"
    with lab.measuring("--idle", "0", "--", "sh", "-c", script) as process:
        wait_for(lambda: asleep_over_there(word) == 3)
        sshd.signal_sessions(signal.SIGKILL)
        process.communicate(timeout=WITHIN_S)
        assert process.returncode == 1
        wait_for(lambda: not alive(word))
    record, summary = summary_of(lab.newest)
    assert "the connection to its host was lost" in summary.reason
    assert ended(record)["outcome"] == Outcome.FAILED
