"""Traces in a plan: what they ask of a drive, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from labctl.analysis.run.problems import reaps_late
from labctl.capture.identity.node import DrivePlace, Node
from labctl.capture.identity.opened_target import OpenedTarget
from labctl.capture.phases.fio_job import busy_ms_of, job_file
from labctl.config.plan import load_plan, parse_plan
from labctl.config.rig_file import Drive
from labctl.errors import ConfigurationError
from labctl.fio.results import FioResult
from labctl.record.json_values import known
from labctl.record.phase import Pattern, Phase, Replay, Role
from labctl.trace.chunks import TraceError
from labctl.trace.replay import demand_of, write_log

NODE = Node(0o060660, "259:0", 6, 0, 310)
DEVICE = DrivePlace("/dev/nvme0n1", NODE, None)
LOG = """fio version 3 iolog
0 drive add
0 drive open
0 drive read 0 4096
1000000 drive write 8192 4096
2000000 drive read 1048576 8192
2000000 drive close
"""
PLAN = """
name = "replay"
[[sweeps]]
replay = "trace.log"
queue_depth = [1, 32]
{more}
"""


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    (tmp_path / "trace.log").write_text(LOG)
    file = tmp_path / "plan.toml"
    file.write_text(PLAN.format(more=""))
    return file


def test_a_trace_beside_the_plan_becomes_phases_of_its_length_and_mix(plan_file: Path) -> None:
    phases = load_plan(str(plan_file))[0].expand(1 << 30)[1:-1]
    assert [phase.label for phase in phases] == [
        "replay trace.log QD1 67% read", "replay trace.log QD32 67% read",
    ]  # fmt: skip
    one = phases[1]
    assert one.duration_s == pytest.approx(2.0)
    assert one.writes and one.directions == ("read", "write")
    assert not one.fills and not one.timed
    assert known(Phase, one.to_json()) == one
    assert len({phase.slug for phase in phases}) == 2


def test_a_trace_larger_than_the_drive_is_refused_or_wrapped(
    plan_file: Path, tmp_path: Path
) -> None:
    with pytest.raises(TraceError, match=r"needs a drive of 1056768 bytes.*replay_wrap = true"):
        load_plan(str(plan_file))[0].expand(1 << 20)
    plan_file.write_text(PLAN.format(more="replay_wrap = true"))
    phase = load_plan(str(plan_file))[0].expand(1 << 20)[1]
    assert phase.replay is not None
    done = write_log(phase.replay, tmp_path / "replay.log", 1 << 20)
    assert (done.ios, done.wrapped) == (3, 1)


def test_one_write_among_many_reads_still_makes_a_plan_that_writes(tmp_path: Path) -> None:
    lines = [f"{n} d read {4096 * n} 4096" for n in range(1000)]
    text = "\n".join(["fio version 3 iolog", "0 d add", "0 d open", *lines, "9 d write 0 4096"])
    (tmp_path / "reads.log").write_text(text + "\n")
    assert demand_of(Replay(str(tmp_path / "reads.log")), None).read_pct == 99


def test_a_trace_that_is_not_there_is_named(tmp_path: Path) -> None:
    plan = parse_plan(PLAN.format(more=""), str(tmp_path / "plan.toml"))
    with pytest.raises(TraceError, match=r"trace\.log: No such file"):
        plan.expand(1 << 30)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PLAN.format(more='block_size = "4k"'), "block_size: a replay takes these from its trace"),
        ('name="p"\n[[sweeps]]\nqueue_depth=1\n', "is missing .or replay = a trace"),
        ('name="p"\n[[sweeps]]\npattern="read"\nduration_s=1\nreplay_wrap=true\n', "only with"),
    ],
)
def test_a_sweep_is_a_pattern_or_a_trace(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        parse_plan(text, "p.toml")


def test_fio_gets_the_log_and_the_target_and_no_time() -> None:
    phase = Phase(
        0, Role.MEASURE, "s", Pattern.REPLAY, 2.0, queue_depth=8, jobs=1, replay=Replay("t")
    )
    opened = {"": OpenedTarget(3, DEVICE, NODE)}
    lines = job_file(phase, {"": Drive(target="/dev/x:1")}, opened).splitlines()
    assert {"read_iolog=replay.log", "replay_redirect=/proc/self/fd/3", "iodepth=8"} <= set(lines)
    assert not [line for line in lines if line.startswith(("rw=", "runtime", "time_based", "size"))]
    flat = Replay("t", stalls=False)
    phase = Phase(0, Role.MEASURE, "s", Pattern.REPLAY, 0.0, queue_depth=8, jobs=1, replay=flat)
    assert "replay_no_stall=1" in job_file(phase, {"": Drive(target="nbd://x", engine="nbd")}, {})


def test_the_kernels_counters_are_printed_at_both_ends_of_a_replay() -> None:
    phase = Phase(
        0, Role.MEASURE, "s", Pattern.REPLAY, 2.0, queue_depth=8, jobs=1, replay=Replay("t")
    )
    drives = {"": Drive(target="/dev/disk/by-id/x")}
    lines = job_file(phase, drives, {"": OpenedTarget(3, DEVICE, NODE)}).splitlines()
    hooks = [line for line in lines if line.startswith("exec_")]
    assert all("/sys/dev/block/259:0/stat" in hook and ";" not in hook for hook in hooks)
    stat = b"labctl-disk 100 0 800 1837 50 0 400 64 0 439 1924 0 0 0 0 7 12"
    assert busy_ms_of(stat) == 439
    assert busy_ms_of(b"labctl-disk sed: no such file") is None


@pytest.mark.parametrize(
    ("engine", "version", "late"),
    [("libaio", "fio-3.33", True), ("libaio", "fio-3.36", False), ("nbd", "fio-3.38", True)],
)
def test_a_fio_that_sees_completions_late_is_known(engine: str, version: str, late: bool) -> None:
    assert reaps_late(engine, FioResult(version, 1000, None, None)) is late
