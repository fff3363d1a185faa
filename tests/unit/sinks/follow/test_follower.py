"""The follower: right bins, the same ones however and whenever they are read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from labctl.analysis.readings.clock_fit import EPOCH_NS
from labctl.analysis.run.summary import summarise
from labctl.record.layout import EVENTS_FILE
from labctl.record.reader import RunRecord
from labctl.sinks.cursor import Cursor
from labctl.sinks.follow.bins import unbridged
from labctl.sinks.follow.follower import Follower
from tests.servers.influx_lines import Stored, stored_by
from tests.servers.influx_run import MadeRun, Meter, S, default_meters, drained, points_of, text_of
from tests.unit import synthetic_run


def of(stored: Stored, measurement: str, **tags: str) -> dict[int, dict[str, object]]:
    """Points of a series by time."""
    return {
        key[2]: dict(fields)
        for key, fields in stored.items()
        if key[0] == measurement and tags.items() <= dict(key[1]).items()
    }


def idle_of(stored: Stored) -> dict[int, dict[str, object]]:
    """The idle phases by time."""
    found = of(stored, "phase").items()
    return {t_ns: fields for t_ns, fields in found if fields["pattern"] == "idle"}


def host_meters() -> dict[str, Meter]:
    return {name: replace(meter, device=False) for name, meter in default_meters().items()}


def over_a_second(t_ns: np.ndarray, values: np.ndarray) -> float:
    """The mean over a second, at each moment of the nearest of its readings."""
    moments = np.arange(0, S, 20_000) + t_ns[0] // S * S
    nearest = np.abs(moments[:, None] - t_ns[None, :]).argmin(axis=1)
    return float(values[nearest].mean())


def test_bins_are_the_means_of_their_readings_over_time(tmp_path: Path) -> None:
    run = MadeRun(tmp_path, meters=host_meters()).whole()
    found = of(points_of(run.path), "power", rail="12V")
    volts, amps = run.data["v12.voltage"], run.data["i12.voltage"]
    i = amps["readings"]["v"] / 0.1
    t_v, t_i = volts["host"] - run.epoch_ns, amps["host"] - run.epoch_ns
    inside = (t_i >= t_v[0]) & (t_i <= t_v[-1])
    watts = np.interp(t_i, t_v, volts["readings"]["v"]) * i
    for number in range(12):
        point = found[run.epoch_ns + number * S + S // 2]
        v_here = volts["readings"]["v"][t_v // S == number]
        i_here = t_i // S == number
        t_v_here = t_v[t_v // S == number]
        assert point["volts"] == pytest.approx(over_a_second(t_v_here, v_here), rel=1e-5)
        assert point["amps"] == pytest.approx(over_a_second(t_i[i_here], i[i_here]), rel=1e-3)
        p_here = watts[i_here & inside]
        assert point["n"] == len(p_here)
        near = over_a_second(t_i[i_here & inside], p_here)
        assert point["watts"] == pytest.approx(near, rel=1e-3)
        assert point["watts_min"] == pytest.approx(p_here.min(), rel=1e-9)
        assert point["watts_max"] == pytest.approx(p_here.max(), rel=1e-9)
    assert len(found) == 12


def test_full_rate_sends_every_reading_once(tmp_path: Path) -> None:
    run = MadeRun(tmp_path).whole()
    stored = points_of(run.path, bin_ns=0)
    power = of(stored, "power", rail="12V")
    sent = sorted(float(str(p["volts"])) for p in power.values() if "volts" in p)
    assert sent == sorted(run.data["v12.voltage"]["readings"]["v"].tolist())
    assert sum("amps" in point for point in power.values()) == len(run.data["i12.voltage"]["t"])
    celsius = of(stored, "temperature", sensor="composite")
    assert sorted(celsius) == run.data["drive.composite"]["host"].tolist()


def test_device_clocks_are_mapped_to_the_truth_within_milliseconds(tmp_path: Path) -> None:
    meters = default_meters()
    meters["i12.voltage"] = replace(meters["i12.voltage"], restart_s=7.3)
    meters["i3.current"] = replace(meters["i3.current"], session_s=6.2)
    run = MadeRun(tmp_path, meters=meters).whole()
    stored = points_of(run.path, bin_ns=0)
    for rail, name in (("12V", "i12.voltage"), ("3V3", "i3.current")):
        times = sorted(t for t, p in of(stored, "power", rail=rail).items() if "amps" in p)
        assert len(times) == len(run.data[name]["host"])
        assert np.abs(np.array(times) - run.data[name]["host"]).max() < 2_000_000


def test_io_is_sent_as_it_is(tmp_path: Path) -> None:
    run = MadeRun(tmp_path).whole()
    found = of(points_of(run.path), "io", op="read")
    sent = run.data["fio.read.iops"]
    assert sorted(found) == sent["host"].tolist()
    assert [found[t]["iops"] for t in sorted(found)] == sent["readings"]["v"].tolist()
    assert all("bytes_per_s" in point for point in found.values())


@pytest.mark.parametrize("seed", range(6))
def test_followed_live_it_is_the_same_as_read_afterwards(tmp_path: Path, seed: int) -> None:
    """Grown in random steps, channels late, the follower replaced on the way."""
    rng = np.random.default_rng(seed)
    meters = default_meters()
    meters["v12.voltage"] = replace(meters["v12.voltage"], lost=((4.2, 8.9),))
    meters["i12.voltage"] = replace(meters["i12.voltage"], restart_s=5.1)
    meters["i3.current"] = replace(meters["i3.current"], session_s=6.0)
    run = MadeRun(tmp_path, meters=meters, seed=seed)
    run.grow(0.0)
    follower = Follower(run.path, Cursor())
    lines: list[str] = []
    cursor = Cursor()
    now = 0.0
    while now < 16.0:
        now += float(rng.uniform(0.05, 0.9))
        late = {name: float(rng.choice([0.0, 0.3, 2.5])) for name in meters}
        run.grow(now - 0.2, late)
        while (part := follower.advance(run.epoch_ns + round(now * S))) is not None:
            lines += text_of(part)
            cursor = part.cursor
        if rng.uniform() < 0.1:
            follower = Follower(run.path, cursor)
    run.grow(1e9)
    lines += drained(follower)
    assert stored_by(lines) == points_of(run.path)


@pytest.mark.parametrize("seed", range(6))
def test_a_run_that_was_sent_when_it_was_cut_off_and_goes_on_is_as_read_afterwards(
    tmp_path: Path, seed: int
) -> None:
    """Its last bins lacked readings of the slow meters; what comes later changes them."""
    rng = np.random.default_rng(seed)
    meters = default_meters()
    meters["v12.voltage"] = replace(meters["v12.voltage"], rate_hz=1.9)
    cuts = [4.05, 8.0 + rng.uniform(0, 1)]
    resumed = tuple((cut + 0.01, "run_resumed", {}) for cut in cuts)
    run = MadeRun(tmp_path, meters=meters, seed=seed, more_events=resumed)
    lines: list[str] = []
    cursor = Cursor()
    for cut in cuts:
        run.grow(cut)
        follower = Follower(run.path, cursor)
        while (part := follower.advance(None)) is not None:
            lines += text_of(part)
            cursor = part.cursor
    run.grow(1e9)
    follower = Follower(run.path, cursor)
    part = follower.advance(None)
    assert part is not None
    lines += text_of(part)
    lines += drained(Follower(run.path, part.cursor))
    found, expected = (
        {
            key: fields for key, fields in stored.items() if key[0] not in ("phase", "point")
        }  # a sink replaces them
        for stored in (stored_by(lines), points_of(run.path))
    )
    assert found == expected


def test_a_bin_is_given_out_in_time_although_a_meter_is_silent(tmp_path: Path) -> None:
    meters = host_meters()
    meters["v12.voltage"] = replace(meters["v12.voltage"], end_s=3.5)
    run = MadeRun(tmp_path, meters=meters)
    run.grow(8.4)
    found = of(stored_by(drained(Follower(run.path, Cursor()), run.epoch_ns + 8 * S + S * 7 // 10)),
               "power", rail="12V")  # fmt: skip
    last = found[run.epoch_ns + 7 * S + S // 2]
    assert "amps" in last
    assert "watts" not in last and "volts" not in last
    assert last["n"] == 0


def test_watts_are_not_made_across_a_gap_in_the_volts(tmp_path: Path) -> None:
    meters = host_meters()
    meters["v12.voltage"] = replace(meters["v12.voltage"], lost=((4.0, 7.1),))
    run = MadeRun(tmp_path, meters=meters).whole()
    found = of(points_of(run.path), "power", rail="12V")
    assert "watts" not in found[run.epoch_ns + 5 * S + S // 2]
    assert "watts" in found[run.epoch_ns + 8 * S + S // 2]


def test_a_slow_meter_is_interpolated_although_it_is_slower_than_stated() -> None:
    t = np.arange(0.0, 90.0, 3.0) * 1e9
    t = np.concatenate([t, t[-1] + np.array([17.0, 20.0]) * 1e9])
    gaps = unbridged(t, nominal_ns=0.5e9)
    assert np.flatnonzero(gaps).tolist() == [0, 1, 2, 29]  # the first ones are judged as stated


def test_a_channel_that_comes_late_changes_the_bins_given_out_before(tmp_path: Path) -> None:
    run = MadeRun(tmp_path, meters=host_meters())
    run.grow(6.0, late={"v12.voltage": 4.0})
    follower = Follower(run.path, Cursor())
    now = run.epoch_ns + 6 * S
    first = of(stored_by(drained(follower, now)), "power", rail="12V")
    bin_4 = run.epoch_ns + 4 * S + S // 2
    assert "watts" not in first[bin_4]
    run.grow(6.2)
    again = of(stored_by(drained(follower, now)), "power", rail="12V")
    assert "watts" in again[bin_4]
    assert run.epoch_ns + S // 2 not in again, "bins that cannot have changed are not made again"


def test_only_stored_slices_count_whatever_the_slice_is(tmp_path: Path) -> None:
    """A new follower from each cursor gives at least what was not given before it."""
    run = MadeRun(tmp_path, seconds=8.0).whole()
    expected = points_of(run.path)
    follower = Follower(run.path, Cursor())
    before: list[str] = []
    while (part := follower.advance(None)) is not None:
        before += text_of(part)
        rest = drained(Follower(run.path, part.cursor))
        assert stored_by([*before, *rest]) == expected


def test_phases_equal_the_summary(tmp_path: Path) -> None:
    run = synthetic_run.build(tmp_path, synthetic_run.Bench())
    summary = summarise(RunRecord(run.path)).to_json()
    started = {
        event.data["index"]: event.t_ns
        for event in RunRecord(run.path).events
        if event.kind == "phase_started"
    }
    found = of(points_of(run.path), "phase")
    assert len(found) == len(summary["phases"])
    for phase in summary["phases"]:
        point = found[started[phase["phase"]["index"]]]
        assert point["watts"] == phase["watts"]["value"]
        assert point["watts_u"] == phase["watts"]["u"]
        assert point["joules"] == phase["joules"]["value"]
        assert point["duration_s"] == (phase["end_ns"] - phase["begin_ns"]) / 1e9
        for rail, result in phase["rails"].items():
            assert point[f"watts_{rail}"] == result["watts"]["value"]
            assert point[f"watts_{rail}_u"] == result["watts"]["u"]
        if phase["iops"] is not None:
            assert point["iops"] == phase["iops"]
            assert point["iops_per_watt"] == phase["iops_per_watt"]["value"]
            assert point["latency_mean_us"] == (phase["read"] or phase["write"])["latency_mean_us"]
            assert point["qd"] == phase["phase"]["queue_depth"]


def test_a_phase_is_there_when_it_begins_and_has_its_watts_when_it_ended(tmp_path: Path) -> None:
    run = MadeRun(tmp_path)
    run.grow(3.0)
    follower = Follower(run.path, Cursor())
    begun = of(stored_by(drained(follower, run.epoch_ns + 3 * S)), "phase")
    (point,) = begun.values()
    assert point["index"] == 0 and "watts" not in point
    run.grow(9.0)
    ended = idle_of(stored_by(drained(follower, run.epoch_ns + 9 * S)))
    assert ended.keys() == begun.keys(), "the same point, not a second one"
    (point,) = ended.values()
    run.grow(1e9)
    (final,) = idle_of(stored_by(drained(follower))).values()
    assert float(str(point["watts"])) == pytest.approx(float(str(final["watts"])), rel=1e-3)


def test_events_alike_at_the_same_time_are_both_kept(tmp_path: Path) -> None:
    twice = tuple((3.0, "note", {"text": text}) for text in ("one", "two"))
    run = MadeRun(tmp_path, more_events=twice).whole()
    texts = {point["text"] for point in of(points_of(run.path), "event", kind="note").values()}
    assert texts == {"one", "two"}


def test_watts_that_an_overload_takes_away_are_not_given_while_the_run_is_on(
    tmp_path: Path,
) -> None:
    """A field that was stored cannot be taken back when the summary has none."""
    about = {"channel": "i12.voltage", "status": "overload"}
    at = [2.0, 3.0]
    begin_ns, end_ns = (1_700_000_000 * S + round(second * S) for second in at)
    over = {**about, "count": 50, "begin_ns": begin_ns, "end_ns": end_ns}
    meters = default_meters()
    meters["i12.voltage"] = replace(meters["i12.voltage"], lost=((at[0], at[1]),))
    run = MadeRun(
        tmp_path,
        meters=meters,
        more_events=((at[0], "status_began", about), (at[1], "status", over)),
    )
    follower, lines = Follower(run.path, Cursor()), list[str]()
    for now in (1.0, 2.5, 6.5, 9.0):
        run.grow(now)
        while (part := follower.advance(run.epoch_ns + round(now * S))) is not None:
            lines += text_of(part)
    live = idle_of(stored_by(lines))
    run.grow(1e9)
    (afterwards,) = idle_of(points_of(run.path)).values()
    assert "outcome" in afterwards and "watts" not in afterwards
    (early,) = live.values()
    assert early["outcome"] == "completed"
    assert early.keys() <= afterwards.keys()


@pytest.mark.parametrize("first", [1, 2, 3])
def test_events_alike_at_the_same_time_are_kept_across_a_restart(
    tmp_path: Path, first: int
) -> None:
    """The process that goes on has sent none of them itself."""
    texts = ["one", "two", "three", "four"]
    run = MadeRun(tmp_path, more_events=tuple((3.0, "note", {"text": text}) for text in texts))
    run.whole()
    lines = (run.path / EVENTS_FILE).read_bytes().splitlines(keepends=True)
    notes = [number for number, line in enumerate(lines) if b'"note"' in line]
    sent = sum(map(len, lines[: notes[first]]))
    stored = stored_by(drained(Follower(run.path, Cursor(events=sent))))
    times = {int(t_ns) - run.epoch_ns - 3 * S for t_ns in of(stored, "event", kind="note")}
    assert times == set(range(first, len(texts)))


def test_the_drives_own_power_readings_are_no_lines_in_a_chart(tmp_path: Path) -> None:
    sent = ((3.0, "drive_power", {"watts": 4.5}), (3.0, "drive_silent", {"reason": "x"}))
    stored = points_of(MadeRun(tmp_path, more_events=sent).whole().path)
    assert not of(stored, "event", kind="drive_power")
    assert of(stored, "event", kind="drive_silent")


def test_a_torn_event_is_waited_for_and_not_lost(tmp_path: Path) -> None:
    run = MadeRun(tmp_path)
    run.grow(2.0)
    follower = Follower(run.path, Cursor())
    drained(follower, run.epoch_ns + 2 * S)
    whole = json.dumps({"t": run.epoch_ns + 2 * S, "kind": "note", "text": "torn"}) + "\n"
    file = run.path / EVENTS_FILE
    with file.open("a") as stream:
        stream.write(whole[:20])
    assert drained(follower, run.epoch_ns + 2 * S) == []
    with file.open("a") as stream:
        stream.write(whole[20:])
    assert any("torn" in text for text in drained(follower, run.epoch_ns + 2 * S))


def test_an_unreadable_event_does_not_hold_up_the_rest(tmp_path: Path) -> None:
    run = MadeRun(tmp_path)
    run.grow(2.0)
    with (run.path / EVENTS_FILE).open("ab") as stream:
        stream.write(b'\xff\xfe{"t": 12\n[1, 2]\n{"t": 5, "kind": "phase_ended"}\n')
        stream.write(b'{"t": 5, "kind": "phase_started", "index": [1]}\n')
    run.grow(1e9)
    follower = Follower(run.path, Cursor())
    lines = drained(follower)
    assert any("run completed" in text for text in lines)
    assert any(text.startswith("power") for text in lines)


def test_readings_that_are_no_numbers_are_left_out(tmp_path: Path) -> None:
    run = MadeRun(tmp_path, meters=host_meters())
    for name in ("v12.voltage", "i12.voltage", "drive.composite"):
        values = run.data[name]["readings"]["v"]
        values[len(values) // 2] = np.nan
        values[len(values) // 3] = np.inf
    run.whole()
    found = of(points_of(run.path), "power", rail="12V")
    assert sum(int(str(point["n"])) for point in found.values()) < 600
    assert len(found) == 12


def test_a_hole_of_days_is_crossed(tmp_path: Path) -> None:
    run = MadeRun(tmp_path, meters=host_meters()).whole()
    for file in (run.path / "channels").iterdir():
        if file.suffix != ".clock":
            records = np.fromfile(file, dtype=[("t", "<i8"), ("v", "<f8")])
            records["t"][len(records) // 2 :] += 3 * 86_400 * S
            records.tofile(file)
    assert len(of(points_of(run.path), "power", rail="12V")) >= 12


def test_a_run_without_one_meter_ever_is_sent_without_it(tmp_path: Path) -> None:
    meters = default_meters()
    meters["v12.voltage"] = replace(meters["v12.voltage"], begin_s=1e6)
    run = MadeRun(tmp_path, meters=meters).whole()
    found = of(points_of(run.path), "power", rail="12V")
    assert len(found) == 12
    assert all("amps" in point and "watts" not in point for point in found.values())


def test_the_cursor_of_a_finished_run_leaves_next_to_nothing(tmp_path: Path) -> None:
    run = MadeRun(tmp_path).whole()
    follower = Follower(run.path, Cursor())
    cursor = Cursor()
    while (part := follower.advance(None)) is not None:
        cursor = part.cursor
    assert len(drained(Follower(run.path, cursor))) <= 3


@pytest.mark.parametrize("cut_s", [0.0, 5.0])
def test_readings_of_an_epoch_that_was_never_sampled_are_not_sent_with_a_wrong_time(
    tmp_path: Path, cut_s: float
) -> None:
    """A meter that was connected for a moment only, or samples that a loss of power took."""
    plain = points_of(MadeRun(tmp_path / "plain").whole().path)
    run = MadeRun(tmp_path / "cut")
    data = run.data["i12.voltage"]
    begin, end = cut_s, cut_s + 1.0
    for when, rows, key in (
        (data["t"], data["readings"], "t"), (data["sampled_s"], data["pairs"], "device_ns"),
    ):  # fmt: skip
        rows[key] += ((when >= begin).astype(int) + (when >= end)) * EPOCH_NS
    kept = (data["sampled_s"] < begin) | (data["sampled_s"] >= end)
    data["sampled_s"], data["pairs"] = data["sampled_s"][kept], data["pairs"][kept]
    follower, stored = Follower(run.path, Cursor(bin_ns=S)), []
    for moment in np.arange(0.0, 12.6, 0.5):
        run.grow(float(moment))
        stored += drained(follower, run.epoch_ns + round(moment * S))
    run.grow(1e9)
    live = stored_by([*stored, *drained(follower)])
    assert live == points_of(run.path)
    found, true = (of(points, "power", rail="12V") for points in (live, plain))
    assert set(found) == set(true)
    for t_ns, point in found.items():
        inside_s = (t_ns - run.epoch_ns) / S
        if not begin - 1 < inside_s < end + 1:
            assert point["watts"] == pytest.approx(true[t_ns]["watts"], rel=0.01)
        elif begin < inside_s < end:
            assert "amps" not in point and "watts" not in point
