"""A whole run from its journal."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labctl.analysis.readings.phase_spans import phase_spans
from labctl.analysis.run.summary import summarise
from labctl.record.layout import CHANNELS_DIR, HEADER_FILE, HOST_WAITING, READING
from labctl.record.phase import Role
from labctl.record.reader import RunRecord
from tests.unit.synthetic_run import EPOCH_NS, IDLE, WORK, Bench, Load, Meter, build

S = 1_000_000_000


def test_everything_a_run_says(tmp_path: Path) -> None:
    run = build(tmp_path, Bench(celsius=lambda t: 40 + t / 10))
    summary = summarise(run.record)
    assert summary.outcome == "completed"
    assert [item.outcome for item in summary.phases] == ["completed"] * 6
    assert len(summary.measured) == 4
    assert summary.gap_median_ms == pytest.approx(15.0, abs=0.01)
    assert summary.idle_watts is not None
    assert summary.idle_watts.covers(run.mean_watts[0])
    last = summary.phases[4]
    assert last.iops == pytest.approx(300_000, rel=0.02)
    assert last.bytes_per_s == pytest.approx(300_000 * 4096, rel=0.02)
    assert last.watts is not None and last.iops_per_watt is not None
    assert last.iops_per_watt.value == pytest.approx(last.iops / last.watts.value)
    assert last.joules is not None
    assert last.joules.value == pytest.approx(last.watts.value * 10.0)
    assert last.joules_per_io is not None
    assert last.joules_per_io.value * last.iops == pytest.approx(last.watts.value)
    assert last.bytes_per_joule is not None
    assert last.marginal_watts is not None
    assert last.marginal_watts.covers(run.mean_watts[4] - run.mean_watts[0])
    assert summary.phases[0].marginal_watts is None
    temperature = last.temperatures["composite"]
    assert temperature.start < temperature.end == temperature.max
    assert "peak power not measurable at 10 S/s (aperture 80 ms)" in last.notes[0]
    (blind,) = summary.problems
    assert "i12.current integrates 80% of the time, every 100 ms" in blind
    assert last.alignment_ms == pytest.approx(0.1)


@pytest.mark.parametrize(("waiting", "duty", "dither", "said"), [
    (0.8, 0.1, 1.0, True), (0.1, 0.1, 1.0, False), (0.8, 1.0, 1.0, False), (0.8, 0.1, 0.0, False),
])  # fmt: skip
def test_a_meter_that_is_asked_from_a_busy_host_is_named(
    tmp_path: Path, waiting: float, duty: float, dither: float, said: bool
) -> None:
    """Only where it sees part of the time, at random moments, and the host was short."""
    made = build(tmp_path, Bench(meters={"i12.current": Meter(duty=duty)}))
    header = json.loads((made.path / HEADER_FILE).read_text())
    for channel in header["channels"]:
        channel["dither"] = dither if channel["name"] == "i12.current" else 0.0
    (made.path / HEADER_FILE).write_text(json.dumps(header))
    shares = np.zeros(200, READING)
    shares["t"] = EPOCH_NS + np.arange(200) * S // 2
    shares["v"] = np.where(np.arange(200) > 40, waiting, 0.0)
    shares.tofile(made.path / CHANNELS_DIR / HOST_WAITING)
    busy = [one for one in summarise(RunRecord(made.path)).problems if "short of processors" in one]
    assert len(busy) == said
    if said:
        assert busy[0].startswith("i12.current: asked at random moments")


def test_it_can_be_written_as_json(tmp_path: Path) -> None:
    text = json.dumps(summarise(build(tmp_path, Bench()).record).to_json(), allow_nan=False)
    assert json.loads(text)["outcome"] == "completed"


def test_a_run_that_was_cut_off_or_is_still_on(tmp_path: Path) -> None:
    run = build(tmp_path, Bench(cut_off=True))
    cut = summarise(run.record)
    assert (cut.outcome, cut.phases[-1].outcome) == ("interrupted", "interrupted")
    assert cut.phases[-1].duration_s > 10
    assert cut.phases[-1].watts is not None
    assert summarise(run.record, running=True).outcome == "running"
    assert any("interrupted" in note for note in cut.phases[-1].notes)


def test_phases_without_io_or_never_started(tmp_path: Path) -> None:
    run = build(tmp_path, Bench())
    journal_file = run.path / "journal.jsonl"
    lines = [json.loads(line) for line in journal_file.read_text().splitlines()]
    kept = [line for line in lines if line.get("index") != 4]
    for line in kept:
        if line["kind"] == "phase_ended" and line["index"] == 3:
            line.update(begin_ns=None, end_ns=None, outcome="failed", reason="fio error 5")
    journal_file.write_text("".join(json.dumps(line) + "\n" for line in kept))
    spans = phase_spans(run.record, EPOCH_NS)
    assert [span.phase.index for span in spans] == [0, 1, 2, 3, 5]
    assert spans[3].reason == "fio error 5"
    assert spans[3].duration_ns > 0
    assert "failed: fio error 5" in summarise(run.record).phases[3].notes


def _edit_events(path: Path, edit: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
    file = path / "journal.jsonl"
    lines = edit([json.loads(line) for line in file.read_text().splitlines()])
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_phase_without_an_end_ends_where_the_next_begins(tmp_path: Path) -> None:
    run = build(tmp_path, Bench())
    _edit_events(
        run.path,
        lambda lines: [
            line for line in lines if (line["kind"], line.get("index")) != ("phase_ended", 2)
        ],
    )
    summary = summarise(run.record)
    cut, following = summary.phases[2:4]
    assert cut.outcome == "interrupted"
    assert cut.end_ns <= following.begin_ns
    assert cut.duration_s == pytest.approx(10.0, abs=0.1)
    assert following.gap_before_ms is not None and following.gap_before_ms >= 0


@pytest.mark.parametrize("index", [None, "1", 1.0, True, 99, -1, [1], {}])
def test_events_that_do_not_name_a_phase_are_skipped_and_said_so(
    tmp_path: Path, index: object
) -> None:
    run = build(tmp_path, Bench())

    def spoil(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for line in lines:
            if line.get("index") == 3:
                line["index"] = index
                if index is None:
                    del line["index"]
        return lines

    _edit_events(run.path, spoil)
    summary = summarise(run.record)
    assert [item.phase.index for item in summary.phases] == [0, 1, 2, 4, 5]
    for kind in ("phase_started", "phase_ended"):
        assert any(line.startswith(f"{kind} skipped: ") for line in summary.problems)


@pytest.mark.parametrize("value", ["soon", 1.5, [], True, 10**30])
def test_times_that_are_none_are_not_believed(tmp_path: Path, value: object) -> None:
    run = build(tmp_path, Bench())

    def spoil(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for line in lines:
            if line["kind"] == "phase_ended" and line["index"] == 2:
                line.update(begin_ns=value, end_ns=value, boundary_u_ns=value)
        return lines

    _edit_events(run.path, spoil)
    summary = summarise(run.record)
    assert summary.phases[2].duration_s == pytest.approx(10.0, abs=0.1)
    assert "phase_ended of phase 2: end_ns is not a time, ignored" in summary.problems


def _edit_readings(path: Path, name: str, edit: Callable[[Any], Any]) -> None:
    file = path / "channels" / name
    edit(np.fromfile(file, dtype=READING)).tofile(file)


def _shuffled(readings: Any) -> Any:
    np.random.default_rng(1).shuffle(readings)
    return readings


def _with_nan(readings: Any) -> Any:
    readings["v"][::3] = np.nan
    readings["v"][1::30] = np.inf
    readings["v"][4::30] = -np.inf
    return readings


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        (_shuffled, "readings out of order in "),
        (lambda readings: np.repeat(readings, 2), "readings with the time of another, dropped"),
        (_with_nan, "readings not a number, skipped"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_readings_as_they_should_not_be(
    tmp_path: Path, edit: Callable[[Any], Any], problem: str
) -> None:
    meter = Meter(device_clock=True, clock_offset_s=3.0, drift_ppm=40.0)
    run = build(
        tmp_path,
        Bench(meters={"i12.current": meter, "i3.current": Meter()}, celsius=lambda t: 40 + t / 10),
    )
    for name in ("i12.current", "i3.current", "drive.composite", "fio.read.iops"):
        _edit_readings(run.path, name, edit)
    summary = summarise(run.record)
    for name in ("i12.current", "i3.current", "drive.composite", "fio.read.iops"):
        assert any(line.startswith(f"{name}: ") and problem in line for line in summary.problems)
    assert {"i12.current", "i3.current"} <= {lag.channel for lag in summary.edge_lags}
    assert all(lag.consistent and np.isfinite(lag.lag_ms) for lag in summary.edge_lags)
    for item in summary.phases:
        assert item.watts is not None
        assert item.watts.covers(run.mean_watts[item.phase.index])


def test_a_status_belongs_to_every_phase_that_it_touches(tmp_path: Path) -> None:
    """Phases of 10 s begin at 2 s, each 15 ms after the one before."""
    at = [EPOCH_NS + round(second * S) for second in (16.0, 31.0)]
    status = {"channel": "i3.current", "status": "overload"}
    events = (
        ("status_began", 16.0, status),
        ("status", 31.5, {**status, "count": 150, "begin_ns": at[0], "end_ns": at[1]}),
        ("status", 32.9, {"channel": "v3.voltage", "status": "low_battery", "count": 3}),
        ("status", 33.0, {"channel": "v12.voltage", "status": "memory_overflow", "count": 1}),
        ("status", 34.0, {"channel": "i12.current", "status": "hold", "count": 1}),
        ("status_began", 45.0, {"channel": "v12.voltage", "status": "hold", "detail": ""}),
        ("status", 46.0, {"count": "many"}),
    )
    summary = summarise(build(tmp_path, Bench(events=events)).record)
    over = [[note for note in item.notes if "lost to overload" in note] for item in summary.phases]
    assert [len(notes) for notes in over] == [0, 1, 1, 0, 0, 0]
    assert "150 readings lost to overload, for 6.0 s of this phase" in over[1][0]
    assert "for 9.0 s of this phase" in over[2][0]
    assert "lower bound" in over[1][0] and "lower bound" in over[2][0]
    third = summary.phases[3].notes
    assert "v3.voltage: low battery" in third
    assert "v12.voltage: memory overflow: readings were lost (their number is not known)" in third
    assert "i12.current: 1 reading lost to hold" in third
    for item in summary.phases[4:]:
        assert any("not over when the data ended" in note for note in item.notes)
    assert not any("hold, readings" in note for note in third)
    assert "v12.voltage: hold from 45.0 s on, not over when the data ended" in summary.problems
    assert "i3.current: 150 readings lost to overload" in summary.problems
    assert "v3.voltage: low battery" in summary.problems
    assert any(line.startswith("status skipped: ") for line in summary.problems)


def test_a_run_without_a_single_reading(tmp_path: Path) -> None:
    run = build(tmp_path, Bench())
    for file in (run.path / "channels").iterdir():
        file.unlink()
    summary = summarise(run.record)
    assert all(item.watts is None for item in summary.phases)
    assert "i12.current: no readings at all" in summary.problems
    assert any("no total watts" in note for note in summary.phases[0].notes)


def test_what_fio_was_not_yet_asked_for_is_no_problem(tmp_path: Path) -> None:
    run = build(tmp_path, Bench())
    header = json.loads((run.path / "run.json").read_text())
    for direction in ("read", "write"):
        name = f"fio.{direction}.bytes_per_s"
        header["channels"].append({**header["channels"][0], "name": name, "clock": "host"})
    (run.path / "run.json").write_text(json.dumps(header))
    problems = [one for one in summarise(RunRecord(run.path)).problems if "in step" not in one]
    assert problems == ["fio.read.bytes_per_s: no readings at all"]


def test_a_run_that_never_came_to_a_phase(tmp_path: Path) -> None:
    run = build(tmp_path, Bench())
    (run.path / "journal.jsonl").write_text(
        json.dumps({"t": EPOCH_NS, "kind": "run_started"})
        + "\n"
        + json.dumps({"t": EPOCH_NS + S, "kind": "run_ended", "outcome": "failed", "reason": "x"})
        + "\n"
    )
    summary = summarise(run.record)
    assert (summary.outcome, summary.reason, summary.phases) == ("failed", "x", ())


def test_lost_instruments_statuses_and_torn_records_are_problems(tmp_path: Path) -> None:
    events = (
        ("instrument_lost", 15.0, {"instrument": "i12", "reason": "timed out"}),
        ("instrument_back", 18.0, {"instrument": "i12", "gap_s": 3.0}),
        ("instrument_lost", 40.0, {"instrument": "v3", "reason": "unplugged"}),
        ("status", 16.0, {"channel": "i3.current", "status": "overload", "count": 7}),
    )
    run = build(tmp_path, Bench(events=events))
    with (run.path / "channels" / "i3.current").open("ab") as file:
        file.write(b"torn")
    summary = summarise(run.record)
    assert "i12: lost once (timed out), back after 3.0 s in all" in summary.problems
    assert "v3: lost once (unplugged), not back at the end" in summary.problems
    assert "i3.current: 7 readings lost to overload" in summary.problems
    assert "channels/i3.current: torn last record dropped" in summary.problems
    assert any("lower bound" in note for note in summary.phases[1].notes)
    assert not any("lower bound" in note for note in summary.phases[2].notes)


def test_a_stop_of_labctl_says_where_it_was_and_what_each_meter_lost_by_it(tmp_path: Path) -> None:
    meters = {"v12.voltage": Meter(rate_hz=10.0, lost=((24.0, 27.0),))}
    run = build(tmp_path, Bench(meters=meters, events=(("held_up", 27.0, {"seconds": 3.0}),)))
    (told,) = [line for line in summarise(run.record).problems if "stood still" in line]
    assert told.startswith("labctl stood still for 3.0 s, in phase 3 (randread 4k QD4): stopped")
    (count,) = re.findall(r"(\d+) of v12.voltage readings are missing", told)
    assert 28 <= int(count) <= 31  # ten a second, and edges


def test_idle_after_the_work_stands_in_for_idle_before(tmp_path: Path) -> None:
    loads = [load for load in WORK if load.role is not Role.IDLE_BEFORE]
    run = build(tmp_path, Bench(loads=loads))
    summary = summarise(run.record)
    assert summary.idle_watts is not None
    assert summary.idle_watts.covers(run.mean_watts[len(loads) - 1])


def test_without_idling_nothing_is_marginal(tmp_path: Path) -> None:
    run = build(tmp_path, Bench(loads=WORK[1:3]))
    summary = summarise(run.record)
    assert summary.idle_watts is None
    assert all(item.marginal_watts is None for item in summary.phases)


def test_a_shunt_in_a_whole_run(tmp_path: Path) -> None:
    meter = Meter(of_reading=1e-4, floor=1e-6)
    run = build(
        tmp_path,
        Bench(shunt_ohm=0.02, meters={"i12.current": meter, "i3.current": meter}, noise_pct=0.5),
    )
    item = summarise(run.record).phases[2]
    assert item.watts is not None
    assert item.watts.covers(run.mean_watts[2])
    assert any(line.name == "shunt" for line in item.rails["12V"].budget)


def test_fast_meters_can_see_peaks(tmp_path: Path) -> None:
    fast = {
        name: Meter(rate_hz=500.0) for name in ("v12.voltage", "i12.current", "v3.voltage",
                                                "i3.current")
    }  # fmt: skip
    loads = (replace(IDLE, duration_s=3.0), Load(0.6, 0.6, 3.0, 1e5))
    summary = summarise(build(tmp_path, Bench(loads=loads, meters=fast)).record)
    assert not any("peak" in note for note in summary.phases[1].notes)


def test_a_device_clock_and_its_bound_are_reported(tmp_path: Path) -> None:
    meter = Meter(device_clock=True, clock_offset_s=3.0, drift_ppm=40.0, tick_s=1e-3)
    run = build(tmp_path, Bench(meters={"i12.current": meter}))
    summary = summarise(run.record)
    assert [clock.channel for clock in summary.clocks] == ["i12.current"]
    assert summary.clocks[0].drift_ppm == pytest.approx(40.0, abs=25.0)
    assert 0.02 < summary.clocks[0].u_ms < 1.0
    assert summary.phases[1].alignment_ms == pytest.approx(summary.clocks[0].u_ms, abs=1.0)
    assert np.isfinite(summary.phases[1].alignment_ms)
