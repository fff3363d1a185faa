"""The run over time: nothing lost by thinning, nothing drawn where nothing was read."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from labctl.analysis.run import timeline as module
from labctl.analysis.run.timeline import timeline
from labctl.record.layout import CHANNELS_DIR, CLOCK_PAIR, READING
from labctl.record.reader import RunRecord
from tests.unit.report_sample import plan, qd_sweep, record_of, summary_of

SECOND = 10**9


def sample(tmp_path: Path, *, silent: bool = False) -> tuple[RunRecord, int, int]:
    summary = summary_of(plan(qd_sweep()))
    return record_of(tmp_path, summary, silent=silent), summary.begin_ns, summary.end_ns


def rewrite(record: RunRecord, name: str, t_ns: np.ndarray, values: np.ndarray) -> None:
    data = np.empty(len(t_ns), READING)
    data["t"], data["v"] = t_ns, values
    data.tofile(record.path / CHANNELS_DIR / name)


def test_watts_are_volts_times_amps_of_each_rail_and_their_sum(tmp_path: Path) -> None:
    record, begin_ns, end_ns = sample(tmp_path)
    line = timeline(record, begin_ns, end_ns)
    assert set(line.watts) == {"12V", "3.3V"}
    assert line.total_watts is not None
    idle = line.total_watts.mean[line.total_watts.t_ns < begin_ns + 9 * SECOND]
    assert np.nanmean(idle) == pytest.approx(4.0, rel=0.01)
    assert np.nanmean(line.watts["3.3V"].mean[:50]) == pytest.approx(4.0 * 0.12, rel=0.02)
    assert set(line.iops) == set(line.bytes_per_s) == {"read"}
    assert set(line.celsius) == {"drive"}


def test_one_reading_is_still_seen_in_a_run_of_a_million(tmp_path: Path) -> None:
    record, begin_ns, end_ns = sample(tmp_path)
    count = 1_000_000
    t_ns = begin_ns + np.linspace(0, end_ns - begin_ns - 1, count).astype(np.int64)
    amps = np.ones(count)
    amps[654_321] = 5.0
    rewrite(record, "dmm12.current", t_ns, amps)
    rewrite(record, "dmm12.voltage", t_ns, np.full(count, 12.0))
    trace = timeline(record, begin_ns, end_ns, bins=200).watts["12V"]
    assert len(trace) == 200
    assert np.max(trace.high) == 60.0 and np.min(trace.low) == 12.0
    peak = int(np.argmax(trace.high))
    assert abs(int(trace.t_ns[peak]) - int(t_ns[654_321])) <= (end_ns - begin_ns) // 400 + 1
    assert trace.mean[peak] == pytest.approx(12.0 + 48.0 / (count / 200), rel=1e-3)


def test_pieces_of_any_size_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, begin_ns, end_ns = sample(tmp_path, silent=True)
    whole = timeline(record, begin_ns, end_ns)
    monkeypatch.setattr(module, "_PIECE", 17)
    pieces = timeline(record, begin_ns, end_ns)
    for name, trace in whole.watts.items():
        np.testing.assert_array_equal(trace.t_ns, pieces.watts[name].t_ns)
        np.testing.assert_allclose(trace.mean, pieces.watts[name].mean)
        np.testing.assert_array_equal(trace.high, pieces.watts[name].high)
    assert whole.power_silences == pieces.power_silences


def test_where_a_meter_was_silent_the_line_breaks_and_it_is_said(tmp_path: Path) -> None:
    record, begin_ns, end_ns = sample(tmp_path, silent=True)
    line = timeline(record, begin_ns, end_ns)
    (silence,) = line.power_silences
    assert silence.channel == "dmm12.current"
    assert silence.end_ns - silence.begin_ns == pytest.approx((end_ns - begin_ns) / 20, rel=0.05)
    trace = line.watts["12V"]
    bin_ns = 100_000_000
    within = trace.t_ns > silence.begin_ns + bin_ns
    within &= trace.t_ns < silence.end_ns - bin_ns
    assert np.isnan(trace.mean[within]).all() and within.any()
    assert line.total_watts is not None
    assert np.isnan(line.total_watts.mean).any()


def test_a_meter_that_died_is_silent_until_the_end(tmp_path: Path) -> None:
    record, begin_ns, end_ns = sample(tmp_path)
    data = np.fromfile(record.path / CHANNELS_DIR / "dmm3.shunt", READING)
    data[: len(data) // 2].tofile(record.path / CHANNELS_DIR / "dmm3.shunt")
    line = timeline(record, begin_ns, end_ns)
    assert [(item.channel, item.end_ns) for item in line.power_silences] == [("dmm3.shunt", end_ns)]


def test_there_is_no_total_when_a_rail_was_never_read(tmp_path: Path) -> None:
    record, begin_ns, end_ns = sample(tmp_path)
    (record.path / CHANNELS_DIR / "dmm3.voltage").unlink()
    line = timeline(record, begin_ns, end_ns)
    assert set(line.watts) == {"12V"} and line.total_watts is None
    assert any(item.channel == "dmm3.voltage" for item in line.power_silences)


def test_a_reading_that_is_no_number_does_not_count(tmp_path: Path) -> None:
    record, begin_ns, end_ns = sample(tmp_path)
    data = np.fromfile(record.path / CHANNELS_DIR / "host.drive", READING)
    data["v"][3] = math.nan
    data.tofile(record.path / CHANNELS_DIR / "host.drive")
    assert np.isfinite(timeline(record, begin_ns, end_ns).celsius["drive"].mean).all()


def test_a_device_clock_is_mapped(tmp_path: Path) -> None:
    record, begin_ns, end_ns = sample(tmp_path)
    header = record.path / "run.json"
    text = header.read_text(encoding="utf-8")
    place = text.index('"dmm12.current"', text.index('"channels"'))
    header.write_text(text[:place] + text[place:].replace('"host"', '"device"', 1), "utf-8")
    name = "dmm12.current"
    host = np.fromfile(record.path / CHANNELS_DIR / name, READING)
    step = begin_ns + 50 * SECOND
    device = ((host["t"] - begin_ns) * (1 - 40e-6)).astype(np.int64) + 7 * SECOND
    rewrite(record, name, device, np.where(host["t"] < step, 1.0, 2.0))
    pairs = np.empty(len(host) // 10, CLOCK_PAIR)
    pairs["device_ns"], pairs["host_ns"] = device[::10][: len(pairs)], host["t"][::10][: len(pairs)]
    pairs["host_ns"] += 200_000
    pairs["round_trip_ns"] = 400_000
    pairs.tofile(record.path / CHANNELS_DIR / f"{name}.clock")
    trace = timeline(RunRecord(record.path), begin_ns, end_ns).watts["12V"]
    jump = trace.t_ns[int(np.argmax(trace.mean > 18))]
    assert abs(int(jump) - step) <= 0.2 * SECOND


def test_a_device_clock_that_was_never_looked_at_is_left_out(tmp_path: Path) -> None:
    record, begin_ns, end_ns = sample(tmp_path)
    header = record.path / "run.json"
    header.write_text(header.read_text("utf-8").replace('"clock": "host"', '"clock": "device"', 1))
    line = timeline(RunRecord(record.path), begin_ns, end_ns)
    assert "12V" not in line.watts and "3.3V" in line.watts


def test_a_run_that_ends_before_it_begins_is_refused(tmp_path: Path) -> None:
    record, begin_ns, _ = sample(tmp_path)
    with pytest.raises(ValueError, match="before it begins"):
        timeline(record, begin_ns, begin_ns)
