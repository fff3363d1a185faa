"""Events and phases as points: the words, the severities, the fields of the schema."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from labctl.analysis.estimate import Estimate
from labctl.analysis.phase_result import CpuUse, PhaseResult, WindowMaximum
from labctl.analysis.throttle_result import Cause, ThrottleInterval, ThrottleVerdict
from labctl.fio.results import Direction
from labctl.record.events import Event
from labctl.record.header import DriveInfo
from labctl.record.phase import Pattern, Phase, Replay, Role
from labctl.record.reader import RunRecord
from labctl.sinks.cursor import Cursor
from labctl.sinks.follow.event_points import (
    THROTTLE,
    WITHDRAWN,
    event_point,
    severity_of,
    throttle_point,
    withdrawn_point,
)
from labctl.sinks.follow.follower import Follower
from labctl.sinks.follow.phase_points import compared_point, result_point, started_point
from labctl.sinks.schema import SCHEMA, drive_tags, rig_point, run_tags
from tests.servers.influx_lines import stored_by
from tests.servers.influx_run import MadeRun, S, drained, points_of
from tests.unit import synthetic_run

PHASE = Phase(3, Role.MEASURE, "s", Pattern.RANDRW, 10.0, 4096, 16, 2, 70)
TAGS = {"rig": "bench", "drive": "S1", "run": "r"}
AT_WORK = {
    *("run", "drive", "plan", "phase", "phase_number", "phases", "qd"),
    *("watts", "celsius", "left_s", "load_text", "progress_text", "result_text"),
}
"""The fields of a heartbeat that tests/unit/service/runs/test_shipping.py sees sent."""


def words(kind: str, **data: object) -> tuple[str, str, str]:
    """Title, text, severity."""
    point = event_point(Event(5, kind, data), {3: PHASE}, TAGS)
    return str(point.fields["title"]), str(point.fields["text"]), point.tags["severity"]


@pytest.mark.parametrize(
    ("kind", "data", "title", "severity"),
    [
        ("run_started", {}, "run started", "info"),
        ("run_ended", {"outcome": "failed", "reason": "x"}, "run failed", "error"),
        ("run_ended", {"outcome": "completed"}, "run completed", "info"),
        ("phase_started", {"index": 3}, "phase 4/1 randrw 4k QD16 70% read ×2 jobs", "info"),
        ("phase_started", {"index": 99}, "phase 99", "info"),
        ("phase_started", {"index": None}, "phase None", "info"),
        ("instrument_lost", {"instrument": "v12"}, "meter lost: v12", "warning"),
        ("instrument_stuck", {"instrument": "v12"}, "instrument stuck", "error"),
        ("drive_state", {"when": "before"}, "drive asked before the run", "info"),
        ("drive_counters", {}, "the drive's thermal counters moved", "warning"),
        ("drive_silent", {"reason": "x"}, "the drive does not tell its SMART", "warning"),
        ("drive_back", {"gap_s": 3.0}, "the drive tells its SMART again", "info"),
        ("guard_tripped", {"reason": "70 °C"}, "guard tripped", "error"),
        ("status", {"channel": "a.b", "status": "overload"}, "a.b: overload", "warning"),
    ],
)
def test_titles_and_severities(
    kind: str, data: dict[str, object], title: str, severity: str
) -> None:
    found = words(kind, **data)
    assert (found[0], found[2]) == (title, severity)


def test_counters_that_moved_are_shown_with_both_values() -> None:
    moved = {"thm_temp1_trans_count": [4, 6], "critical_warning": [0, 2], "odd": None}
    text = words("drive_counters", moved=moved)[1]
    assert text == "times at the first thermal level 4 → 6, critical warning 0 → 2"


def test_an_unknown_event_shows_its_data() -> None:
    assert words("something_new", volts=3)[1] == '{"volts": 3}'
    assert words("something_new", text="as it is")[1] == "as it is"
    assert severity_of(Event(1, "something_new", {"severity": "error"})) == "error"
    assert severity_of(Event(1, "something_new", {"severity": "purple"})) == "info"


def test_a_lasting_event_says_how_long() -> None:
    event = Event(9 * S, "phase_ended", {"index": 3, "begin_ns": 2 * S, "end_ns": 5 * S})
    assert event_point(event, {3: PHASE}, TAGS).fields["duration_s"] == 3.0
    torn = Event(9 * S, "phase_ended", {"index": 3, "begin_ns": None})
    assert "duration_s" not in event_point(torn, {3: PHASE}, TAGS).fields


def interval(cause: Cause) -> ThrottleInterval:
    return ThrottleInterval(2 * S, 5 * S, 3, cause, "seen", 10.0, 5.0, None, None, None)


def test_throttling_is_a_region_and_only_being_held_back_is_a_warning() -> None:
    point = throttle_point(interval(Cause.THERMAL), "write 4k QD8", TAGS)
    assert point.tags["kind"] == THROTTLE
    assert (point.t_ns, point.fields["duration_s"], point.fields["end_ms"]) == (2 * S, 3.0, 5000)
    assert (point.tags["severity"], point.fields["phase"]) == ("warning", "write 4k QD8")
    assert (
        throttle_point(interval(Cause.WRITE_CACHE), "write 4k QD8", TAGS).tags["severity"] == "info"
    )


def test_what_was_reported_too_early_is_replaced(tmp_path: Path) -> None:
    """A throttle interval told live that the whole run does not bear out."""
    run = MadeRun(tmp_path).whole()
    reported = Cursor(throttling=((run.epoch_ns + 4 * S, "warning"),))
    stored = stored_by(drained(Follower(run.path, reported)))
    withdrawn = withdrawn_point(
        run.epoch_ns + 4 * S, "warning", run_tags(RunRecord(run.path).header)
    )
    (fields,) = [f for key, f in stored.items() if ("kind", THROTTLE) in key[1]]
    assert fields["title"] == WITHDRAWN == withdrawn.fields["title"]
    assert fields["duration_s"] == 0.0


def test_throttling_is_reported_from_the_summary(tmp_path: Path) -> None:
    def hot(t: np.ndarray) -> np.ndarray:
        return np.where(t > 20, 0.5, 1.0)

    loads = [
        synthetic_run.IDLE,
        synthetic_run.Load(0.8, 0.7, duration_s=40.0, iops=200_000, shape=hot),
    ]
    run = synthetic_run.build(
        tmp_path, synthetic_run.Bench(loads=loads, celsius=lambda t: np.minimum(40 + 1.2 * t, 79))
    )
    points = points_of(run.path)
    found = [fields for key, fields in points.items() if ("kind", THROTTLE) in key[1]]
    (phase,) = [fields for fields in points.values() if fields.get("pattern") == "randread"]
    assert len(found) == 1
    assert found[0]["duration_s"] == pytest.approx(phase["throttled_s"])
    assert float(str(phase["throttled_s"])) > 10


def direction(mean: float, ios: int) -> Direction:
    return Direction(1.0, 1.0, ios, mean, mean * 10, {"99": mean * 3})


def result(read: Direction | None, write: Direction | None) -> PhaseResult:
    nothing = dict.fromkeys(
        ("gap_before_ms", "watts", "watts_series", "joules", "marginal_watts", "iops",
         "bytes_per_s", "iops_per_watt", "bytes_per_joule", "joules_per_io", "alignment_ms")
    )  # fmt: skip
    return PhaseResult(
        phase=PHASE,
        outcome="completed",
        begin_ns=0,
        end_ns=S,
        rails={},
        read=read,
        write=write,
        temperatures={},
        throttled_s=0.0,
        **nothing,  # type: ignore[arg-type]
    )


def test_latency_over_both_directions_is_only_what_follows_from_them() -> None:
    both = result_point(result(direction(10, 300), direction(50, 100)), 5, TAGS).fields
    assert both["latency_mean_us"] == 20.0
    assert both["latency_max_us"] == 500.0
    assert "latency_p99_us" not in both
    assert both["latency_read_p99_us"] == 30.0
    one = result_point(result(direction(10, 300), None), 5, TAGS).fields
    assert one["latency_p99_us"] == 30.0


def test_what_was_not_measured_is_left_out() -> None:
    fields = result_point(result(None, None), 5, TAGS).fields
    assert not {"watts", "iops", "latency_mean_us", "celsius_max"} & set(fields)


def test_while_a_run_is_on_a_phase_tells_nothing_that_may_have_to_be_taken_back() -> None:
    """Judged with later phases, all of it may have been throttled: then these have no number."""
    free = replace(
        result(None, None), watts_unthrottled=Estimate(7.0, 0.1), iops_unthrottled=Estimate(9, 1)
    )
    whole = {**result_point(replace(free, watts_unthrottled=None), 5, TAGS).fields}
    numbers = {f"unthrottled_{name}" for name in ("watts", "watts_u", "iops", "iops_u")}
    assert numbers <= set(result_point(free, 5, TAGS).fields)
    live = result_point(free, 5, TAGS, running=True).fields
    assert not numbers & set(live)
    assert set(live) <= set(whole)


def test_a_phase_is_one_point_from_start_to_end() -> None:
    started = started_point(PHASE, 5, TAGS)
    ended = result_point(result(None, None), 5, TAGS)
    assert (started.tags, started.t_ns) == (ended.tags, ended.t_ns)
    assert started.tags == {**TAGS, "part": "r"}, "an axis as a tag makes a series of each phase"
    axes = ("pattern", "block_size", "block_size_bytes", "qd", "jobs", "read_pct")
    assert [started.fields[axis] for axis in axes] == ["randrw", "4k", 4096, 16, 2, 70]
    assert started.fields.items() <= ended.fields.items()


def test_runs_are_compared_point_by_point_whatever_the_round() -> None:
    known = replace(result(direction(10, 300), None), watts=Estimate(5.0, 0.1, 0.2))
    again = replace(known, phase=replace(PHASE, index=9, round=4))
    (one, other) = (compared_point(found, 5, TAGS) for found in (known, again))
    assert one is not None and other is not None
    assert one.tags == other.tags == {**TAGS, "part": "r", "label": PHASE.label}
    assert (one.fields["watts"], one.fields["watts_repeatability"]) == (5.0, 0.2)
    idle = replace(known, phase=replace(PHASE, role=Role.IDLE_BEFORE))
    assert compared_point(idle, 5, TAGS) is None


def test_an_idle_phase_has_no_axes() -> None:
    fields = started_point(Phase(0, Role.IDLE_BEFORE, "idle", Pattern.IDLE, 5.0), 5, TAGS).fields
    assert fields["pattern"] == "idle"
    assert fields.keys().isdisjoint({"block_size", "jobs", "read_pct", "power_state"})


def test_every_point_of_a_run_follows_the_schema(tmp_path: Path) -> None:
    run = synthetic_run.build(
        tmp_path, synthetic_run.Bench(celsius=lambda t: 40 + 0.1 * t, host_watts=lambda t: 50 + t)
    )
    for (measurement, tags, _), fields in points_of(run.path).items():
        schema = SCHEMA[measurement]
        assert set(dict(tags)) <= set(schema.tags)
        for name, value in fields.items():
            kinds = {float: "float", int: "integer", str: "text"}
            assert kinds[type(value)] == schema.kind_of(name)


TEXTS = [
    ("none seen", Estimate(8.1234, 0.0342), None, "QD16 70% read ×2 jobs", "8.123 ± 0.034 W"),
    ("throttled", Estimate(8.1, 0.3), None, "QD16 70% read ×2 jobs throttled", "▼ 8.10 ± 0.30 W"),
    ("cannot be excluded", None, 7.5, "QD16 70% read ×2 jobs throttled?", "? ≥ 7.500 W"),
    ("none seen", None, None, "QD16 70% read ×2 jobs", "no total"),
]
"""A verdict, the watts, what they were at least; what stands under the bar and over it."""


@pytest.mark.parametrize(("verdict", "watts", "at_least", "under", "over"), TEXTS)
def test_a_bar_says_its_watts_as_far_as_they_are_known_and_whether_the_drive_throttled(
    verdict: str, watts: Estimate | None, at_least: float | None, under: str, over: str
) -> None:
    found = replace(
        result(direction(10, 300), None),
        phase=PHASE,
        watts=watts,
        at_least_watts=at_least,
        throttling=ThrottleVerdict(verdict, "as it was seen"),
    )
    fields = result_point(found, 5, TAGS).fields
    assert (fields["bar_label"], fields["bar_text"]) == (under, over)
    assert fields["throttling_why"] == "as it was seen"
    assert fields.get("watts_text") == (over.strip("▼ ").removesuffix(" W") if watts else None)


def test_under_a_bar_stands_the_queue_depth_and_not_a_part_of_a_name() -> None:
    for phase, under in (
        (replace(PHASE, replay=Replay("all/QD4.blktrace")), "QD16 70% read ×2 jobs"),
        (replace(PHASE, pattern=Pattern.PROGRAM, sweep="bench QD4"), "bench QD4"),
    ):
        found = replace(result(direction(10, 300), None), phase=phase)
        assert result_point(found, 5, TAGS).fields["bar_label"] == under


def test_nothing_in_the_schema_is_never_sent(tmp_path: Path) -> None:
    """Else a panel waits for it for ever."""
    run = synthetic_run.build(
        tmp_path, synthetic_run.Bench(celsius=lambda t: 40 + 0.1 * t, host_watts=lambda t: 50 + t)
    )
    limits = DriveInfo("m", "s", warning_celsius=70.0, critical_celsius=80.0)
    hot = MadeRun(tmp_path, drive=limits).whole()
    sent: dict[str, set[str]] = {name: set() for name in SCHEMA}
    for (measurement, tags, _), fields in {**points_of(run.path), **points_of(hot.path)}.items():
        sent[measurement] |= {*dict(tags), *fields}
    sent["rig"] = {"rig", *rig_point("bench", 5, "idle", 0, True, 0.0).fields, *AT_WORK}
    sent["event"] |= throttle_point(interval(Cause.THERMAL), "write 4k QD8", TAGS).fields.keys()
    sent["phase"] |= started_point(
        replace(PHASE, power_state=2, power_limit_watts=9.0), 5, TAGS
    ).fields.keys()
    percentiles = dict.fromkeys(("50", "90", "95", "99", "99.9", "99.99"), 1.0)
    each = replace(direction(10, 300), latency_percentiles_us=percentiles)
    for sides in ((each, each), (each, None)):
        known = Estimate(5.0, 0.1, repeatability=0.2)
        found = replace(
            result(*sides), cpu=CpuUse({"0": 20.0}, 10.0, 10.0), at_least_watts=5.0,
            iops_per_watt=known, bytes_per_joule=known, joules_per_io=known,
            power_envelope=(WindowMaximum(1.0, known, 5),),
        )  # fmt: skip
        sent["phase"] |= result_point(found, 5, TAGS).fields.keys()
        point = compared_point(replace(found, watts=known), 5, TAGS)
        assert point is not None
        sent["point"] |= {*point.tags, *point.fields}
    for name, measurement in SCHEMA.items():
        assert {*measurement.tags, *measurement.fields} - sent[name] == set(), name
        for family in measurement.families:
            assert any(field.startswith(family) for field in sent[name] - {*measurement.fields})


@pytest.mark.parametrize(
    ("drive", "tag"),
    [(DriveInfo("m", "s"), "s"), (DriveInfo("m", ""), "m"), (DriveInfo("", ""), "")],
)
def test_a_drive_is_its_serial_or_its_model(tmp_path: Path, drive: DriveInfo, tag: str) -> None:
    run = MadeRun(tmp_path, drive=drive)
    assert run_tags(RunRecord(run.path).header)["drive"] == tag


def test_limits_stand_beside_the_drives_own_temperature(tmp_path: Path) -> None:
    run = MadeRun(tmp_path).whole()
    celsius = [f for key, f in points_of(run.path).items() if key[0] == "temperature"]
    assert celsius and all(fields["warning_celsius"] == 80.0 for fields in celsius)


def test_a_sign_of_life_says_only_what_is_known() -> None:
    assert rig_point("bench", 5, "idle").fields == {"state": "idle", "alive": 1}
    assert rig_point("bench", 5, "running", 2, False, 1.5, alive=False).fields == {
        "state": "running",
        "queue_length": 2,
        "meters_ok": 0,
        "journal_lag_s": 1.5,
        "alive": 0,
    }
    known = rig_point("bench", 5, "running", at_work={"watts": 5.0, "left_s": None}).fields
    assert known == {"state": "running", "alive": 1, "watts": 5.0}


def test_two_drives_of_a_model_without_serials_stay_two_series(tmp_path: Path) -> None:
    header = RunRecord(MadeRun(tmp_path).path).header
    twins = {name: DriveInfo(model="X1") for name in ("left", "right")}
    tags = drive_tags(replace(header, drives={**twins, "third": DriveInfo("X1", "S3")}))
    together = run_tags(replace(header, drives=twins, drive=DriveInfo("2 × X1", "0A1 + 0A2")))
    assert sorted([together["drive"], "0A1", "AB"])[0] == "(0A1 + 0A2)", "the first in a list"
    assert [tags[name]["drive"] for name in ("left", "right", "third")] == [
        "X1 (left)", "X1 (right)", "S3",
    ]  # fmt: skip
