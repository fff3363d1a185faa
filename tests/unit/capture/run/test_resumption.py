"""What a run that was cut off keeps: decided from its record alone."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instruments.reading import Block, ClockPair
from labctl.analysis.readings.channel_series import channel_series
from labctl.analysis.run.summary import summarise
from labctl.capture.run.resumption import Resumption
from labctl.capture.run.resumption import resumption as resumption_with
from labctl.config.find_rig import EXAMPLES
from labctl.config.plan import parse_plan
from labctl.config.rig import parse_rig
from labctl.errors import JournalError, Refused
from labctl.record import journal as journals
from labctl.record.events import EventKind
from labctl.record.header import ChannelInfo, DriveInfo, Header
from labctl.record.journal import Journal
from labctl.record.layout import CHANNELS_DIR, EVENTS_FILE
from labctl.record.reader import RunRecord
from labctl.record.timebase import NS_PER_S, Anchor, Timebase

RIG = (EXAMPLES / "nvme-adapter.toml").read_text()
PLAN = """
name = "plan"
resume = "{resume}"
[[prepare]]
step = "fill"
[[prepare]]
step = "purge"
[[prepare]]
step = "rest"
duration_s = 1
[[sweeps]]
pattern = "randwrite"
queue_depth = [1, 8]
duration_s = 1
rounds = 7
"""
"""Phases: 0 fill, 1 purge, 2 rest, 3 idle, 4 to 17 seven rounds of two, 18 idle."""
CHANNEL = "i12.voltage"


def resumption(path: Path) -> Resumption:
    """With the rig that it was made with."""
    return resumption_with(path, parse_rig(RIG, "rig.toml"))


def ago(seconds: float) -> Anchor:
    """This boot's clock, anchored some time ago."""
    now, ns = Anchor.take(), round(seconds * NS_PER_S)
    return replace(now, wall_ns=now.wall_ns - ns, monotonic_ns=now.monotonic_ns - ns)


def made(folder: Path, resume: str = "repeat", anchor: Anchor | None = None) -> Path:
    text = PLAN.format(resume=resume)
    return journals.create(
        folder,
        Header(
            run_id="run",
            rig_name="nvme-adapter",
            plan_name="plan",
            rig_text=RIG,
            plan_text=text,
            phases=parse_plan(text, "plan").expand(),
            channels=(ChannelInfo(CHANNEL, "voltage", "V", clock="device", interval_s=0.01),),
            rails=(),
            temperatures={},
            drive=DriveInfo(target="/dev/nvme1n1"),
            anchor=anchor or ago(100),
            versions={},
        ),
    )


def record_phases(path: Path, outcomes: dict[int, str | None], **more: Any) -> None:
    """Phases that were begun, and how they ended (None: they did not)."""
    journal = Journal(path, Timebase(RunRecord(path).header.anchor).now_ns)
    for index, outcome in outcomes.items():
        journal.event("phase_started", index=index)
        if outcome is not None:
            journal.event("phase_ended", index=index, outcome=outcome, iops=1000.0 + index)
    if more:
        journal.event("steady_state", **more)
    journal.close()


def record_readings(path: Path, kept: Resumption | None, seconds: float, now_ns: int) -> None:
    """What one process reads of a meter whose clock begins at 0 with it."""
    begin = kept.device_begin_ns if kept else None
    journal = Journal(path, lambda: now_ns, device_begin_ns=begin)
    t_ns = np.arange(0, round(seconds * NS_PER_S), 10**7, dtype=np.int64)
    journal.readings("i12", Block("voltage", t_ns, np.ones(len(t_ns))))
    samples = [ClockPair("voltage", int(t), now_ns + int(t) + 10**5, 10**5) for t in t_ns[::10]]
    journal.clock_pairs("i12", samples)
    journal.close()


def test_completed_phases_stay_and_all_others_come_again(tmp_path: Path) -> None:
    path = made(tmp_path)
    record_phases(path, {0: "completed", 1: "failed", 2: "completed", 3: "interrupted", 4: None})
    kept = resumption(path)
    assert kept.done == {0, 2}
    assert kept.interrupted is not None and kept.interrupted.index == 4


def test_a_phase_that_was_begun_again_is_not_done(tmp_path: Path) -> None:
    path = made(tmp_path)
    record_phases(path, {0: "completed"})
    record_phases(path, {0: None})
    assert resumption(path).done == frozenset()


def test_rounds_that_were_left_out_stay_left_out(tmp_path: Path) -> None:
    path = made(tmp_path)
    whole = dict.fromkeys(range(14), "completed")
    record_phases(path, {**whole}, reached=True, round=5, index=13, sweep_number=1)
    kept = resumption(path)
    assert kept.done == set(range(18))
    assert kept.values[13].iops == 1013.0


def test_where_the_state_matters_the_drive_is_prepared_again(tmp_path: Path) -> None:
    """From the last purge on; the rounds are one series and begin anew."""
    path = made(tmp_path, "prepare")
    record_phases(path, {**dict.fromkeys(range(8), "completed"), 8: None})
    assert resumption(path).done == {0, 3}


def test_what_must_not_or_need_not_go_on_is_refused(tmp_path: Path) -> None:
    forbidden = made(tmp_path / "a", "forbid")
    with pytest.raises(Refused, match="forbid"):
        resumption(forbidden)
    over = made(tmp_path / "b")
    journal = Journal(over, lambda: 0)
    with pytest.raises(JournalError, match="being recorded"):
        resumption(over)
    journal.event("run_ended", outcome="completed", reason="")
    journal.close()
    with pytest.raises(Refused, match="completed"):
        resumption(over)


def test_device_clocks_go_on_in_epochs_of_their_own(tmp_path: Path) -> None:
    """Each process's meter counts from 0; sessions may be shorter or longer than those before."""
    path = made(tmp_path)
    base = RunRecord(path).header.anchor.wall_ns
    kept = None
    for number, seconds in enumerate((5.0, 0.2, 9.0, 2.0)):
        record_readings(path, kept, seconds, base + number * 20 * NS_PER_S)
        kept = resumption(path)
    record = RunRecord(path)
    series = channel_series(record, record.channel(CHANNEL))
    host_s = (series.clock.to_host_ns(series.stamps) - base) * 1e-9
    assert series.problems == () and series.clock.epochs == 4
    for number, seconds in enumerate((5.0, 0.2, 9.0, 2.0)):
        begin_s = number * 20.0
        inside = host_s[(host_s > begin_s - 1) & (host_s < begin_s + 19)]
        assert len(inside) == round(seconds * 100)
        assert abs(inside[0] - begin_s) < 1e-3


def test_readings_of_a_clock_that_was_never_sampled_are_dropped_and_reported(
    tmp_path: Path,
) -> None:
    path = made(tmp_path)
    base = RunRecord(path).header.anchor.wall_ns
    record_readings(path, None, 2.0, base)
    journal = Journal(path, lambda: base, device_begin_ns=resumption(path).device_begin_ns)
    journal.readings("i12", Block("voltage", np.array([0, 10**7]), np.ones(2)))
    journal.close()
    summary = summarise(RunRecord(path))
    reported = f"{CHANNEL}: 2 readings without a sample of the device's clock, dropped"
    assert reported in summary.problems
    assert summary.end_ns < base + 10 * NS_PER_S


@pytest.mark.parametrize(
    ("token", "used"),
    [("0123456789ab", True), ("../../../root/x", False), ("", False), ("0123456789AB\n", False)],
)
def test_a_token_is_used_only_if_it_looks_like_one(tmp_path: Path, token: str, used: bool) -> None:
    """It names a folder on the drive's host, which is cleared."""
    path = made(tmp_path)
    record_phases(path, {0: "completed"})
    journal = Journal(path, lambda: RunRecord(path).header.anchor.wall_ns)
    journal.event("host_session", token=token)
    journal.close()
    session = resumption(path).host_session
    assert (session is not None and session.token == token) == used


def test_in_the_same_boot_nothing_shifts() -> None:
    anchor = ago(100)
    assert Timebase.going_on(anchor, anchor.wall_ns + 99 * NS_PER_S).anchor == anchor


@pytest.mark.parametrize("ahead_s", [-50, 7200])
def test_after_a_reboot_times_go_on_by_the_wall_clock_and_never_back(ahead_s: int) -> None:
    """Also where the wall clock is hours behind what is recorded."""
    anchor = replace(ago(100), boot_id="another")
    last_ns = Anchor.take().wall_ns + ahead_s * NS_PER_S
    timebase = Timebase.going_on(anchor, last_ns)
    assert timebase.now_ns() > last_ns
    assert abs(timebase.wall_offset_ns() + max(ahead_s, 0) * NS_PER_S) < NS_PER_S


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(0, 700), lost=st.integers(0, 90), samples=st.integers(0, 90))
def test_cut_at_any_byte_whole_records_stay_and_more_can_follow(
    cut: int, lost: int, samples: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = made(Path(folder))
        record_phases(path, {0: "completed", 1: "completed", 2: None})
        record_readings(path, None, 2.0, RunRecord(path).header.anchor.wall_ns)
        channel = path / CHANNELS_DIR / CHANNEL
        sizes = ((path / EVENTS_FILE, cut), (channel, lost), (Path(f"{channel}.clock"), samples))
        for file, torn in sizes:
            os.truncate(file, max(file.stat().st_size - torn, 0))
        torn_record = RunRecord(path)
        readings = len(torn_record.readings(CHANNEL))
        kept = resumption(path)
        journal = Journal(path, kept.timebase.now_ns, device_begin_ns=kept.device_begin_ns)
        journal.event(EventKind.RUN_RESUMED, **kept.event_data())
        journal.close()
        record = RunRecord(path)
        assert record.problems == []
        assert record.events[:-1] == torn_record.events
        assert record.events[-1].kind == EventKind.RUN_RESUMED and record.end is None
        assert len(record.readings(CHANNEL)) == readings
        times = [event.t_ns for event in record.events]
        assert times == sorted(times)
