"""The calibration of a rig: what is stored, what of it holds for a run, and what is told."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labctl.analysis.estimate import Component
from labctl.analysis.power.cross_check import ComparedChannel, meter_difference
from labctl.analysis.power.zero_offset import THERMAL_EMF_VOLTS, why_not_zero
from labctl.analysis.readings.channel_series import ChannelSeries
from labctl.analysis.readings.clock_fit import ClockMap
from labctl.analysis.run.summary import summarise
from labctl.analysis.stats.running_stats import mean_and_scatter
from labctl.analysis.stats.uncertainty import combined, difference_components
from labctl.cli.results.report import record_with
from labctl.config.calibration_file import (
    Calibration,
    calibration_file,
    calibration_in_force,
    in_force,
    load_calibration,
    save_calibration,
)
from labctl.config.rig import parse_rig
from labctl.errors import ConfigurationError, JournalError
from labctl.record.calibration_used import CrossCheck, UsedCalibration, Zero
from labctl.record.header import ChannelInfo, Header, RailInfo
from labctl.record.reader import RunRecord
from labctl.report.pages.report import report_page
from labctl.sinks.follow.growing_channel import GrowingChannel
from tests.unit.config.test_rig import RIG, mistakes
from tests.unit.synthetic_run import WORK, Bench, Meter, build

TAKEN = "2026-03-01T12:00:00+00:00"
MOMENT = datetime.fromisoformat(TAKEN) + timedelta(days=3)
ZERO = Zero("i12.voltage", "V", 60e-6, 0.5e-6, 20.0, 40, 0.1, "Keysight 34465A MY1", TAKEN)
CHECK = CrossCheck(
    ("i12.current", "psu.current"), ("A", "B"), "A", (0.352, 0.350), 0.002, 0.004, 0.5, 50, TAKEN
)
RANGES = {"i12.voltage": 0.1, "v12.voltage": 100.0}
WHO = {"i12": "Keysight 34465A MY1", "v12": "HP 34401A"}
S = 1_000_000_000


def used(found: Calibration, **changes: Any) -> UsedCalibration:
    given_ = {"fingerprint": "f", "ranges": RANGES, "identities": WHO, "moment": MOMENT,
              "max_age_days": 30.0, **changes}  # fmt: skip
    return in_force(found, **given_)


def test_it_is_kept_beside_the_rig_and_read_back_the_same(tmp_path: Path) -> None:
    path = calibration_file(tmp_path / "box.toml")
    assert path == tmp_path / "box.calibration.json"
    assert load_calibration(path) is None
    stored = Calibration("f", (ZERO,), (CHECK,))
    save_calibration(path, stored)
    assert load_calibration(path) == stored
    assert [file.name for file in tmp_path.iterdir()] == ["box.calibration.json"]


def test_newer_zeros_and_checks_replace_those_of_the_same_channels() -> None:
    other = replace(ZERO, channel="v12.voltage")
    newer = replace(ZERO, value=1e-6)
    found = Calibration("old", (ZERO, other)).with_zeros([newer], "new")
    assert found.zeros == (newer, other) and found.fingerprint == "new"
    turned = replace(CHECK, channels=("psu.current", "i12.current"))
    assert Calibration("f", (), (CHECK,)).with_check(turned).checks == (turned,)


def test_what_cannot_be_written_is_reported(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="put the rig where you may write"):
        save_calibration(tmp_path / "no" / "box.calibration.json", Calibration("f"))


GOOD = json.loads(
    json.dumps({"fingerprint": "f", "zeros": [asdict(ZERO)], "checks": [], "format": 1})
)


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("", "JSON"),
        ("{", "JSON"),
        ("[1, 2]", "cannot be used"),
        (json.dumps({**GOOD, "zeros": 7}), "zeros"),
        (json.dumps({**GOOD, "zeros": [{**asdict(ZERO), "value": "much"}]}), "zeros.0.value"),
        (json.dumps({**GOOD, "zeros": [{**asdict(ZERO), "u": -1.0}]}), "zeros.0.u"),
        (json.dumps({**GOOD, "zeros": [{**asdict(ZERO), "value": math.nan}]}), "zeros.0.value"),
        (json.dumps({**GOOD, "zeros": [{**asdict(ZERO), "taken": "soon"}]}), "zeros.0.taken"),
        (json.dumps({**GOOD, "zeros": [{**asdict(ZERO), "taken": "2026-03-01"}]}), "its zone"),
        (json.dumps({**GOOD, "format": 99}), "update labctl"),
        ("x" * 2_000_000, "larger than any calibration"),
    ],
)
def test_a_broken_file_is_named_with_what_to_do(tmp_path: Path, text: str, reported: str) -> None:
    path = tmp_path / "box.calibration.json"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        load_calibration(path)
    assert str(path) in str(caught.value) and reported in str(caught.value)
    assert "move it away, and labctl calibrate makes a new one" in str(caught.value)


def test_a_zero_holds_for_the_same_meter_on_the_same_range() -> None:
    found = used(Calibration("f", (ZERO,)))
    assert found.zeros == (ZERO,) and found.notes == () and found.problems == ()
    assert found.zero_of("i12.voltage") == ZERO and found.zero_of("v12.voltage") is None


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"moment": MOMENT + timedelta(days=40)}, "43 days away, at most 30 are allowed"),
        ({"moment": MOMENT - timedelta(days=40)}, "37 days away"),
        ({"identities": {"i12": "Keysight 34465A MY2"}},
         "it is of Keysight 34465A MY1, and this is Keysight 34465A MY2"),
        ({"identities": {}}, "its instrument was not there"),
        ({"ranges": {"i12.voltage": 1.0}}, "of the range 0.1, and this is 1"),
        ({"ranges": {}}, "the rig has no such channel any more"),
    ],
)  # fmt: skip
def test_a_zero_that_does_not_hold_is_not_subtracted_and_reported(
    changes: dict[str, Any], why: str
) -> None:
    found = used(Calibration("f", (ZERO,)), **changes)
    assert found.zeros == ()
    (line,) = found.problems
    assert line.startswith("i12.voltage: its zero of 2026-03-01 is not subtracted: ")
    assert why in line and line.endswith("labctl calibrate takes a new one")


def test_a_changed_rig_is_reported_but_zeros_hold() -> None:
    found = used(Calibration("other", (ZERO,)))
    assert found.zeros == (ZERO,)
    assert "rails or instruments were changed" in found.problems[0]


def test_meters_that_contradict_each_other_are_a_problem_of_later_runs() -> None:
    who = {"i12": "A", "psu": "B"}
    apart = replace(CHECK, difference=0.02, en=5.0)
    assert used(Calibration("f", (), (CHECK,)), identities=who).problems == ()
    (line,) = used(Calibration("f", (), (apart,)), identities=who).problems
    assert "differed by 0.02 A" in line and "En = 5" in line
    assert used(Calibration("f", (), (apart,)), identities={"i12": "A", "psu": "C"}).checks == ()


def test_a_rigs_fingerprint_is_of_its_rails_and_instruments() -> None:
    rig = parse_rig(RIG, "rig.toml")
    assert rig.fingerprint == parse_rig(RIG.replace('"bench"', '"other"'), "r").fingerprint
    assert rig.fingerprint != parse_rig(RIG.replace("0.05", "0.06"), "r").fingerprint
    assert rig.fingerprint != parse_rig(RIG.replace("nplc = 0.2", "nplc = 0.02"), "r").fingerprint


def test_the_rig_says_how_old_a_zero_may_be_and_what_is_compared() -> None:
    text = '[calibration]\nmax_age_days = 7\ncompare = [["v12.voltage", "i12.voltage"]]\n'
    section = parse_rig(RIG + text, "r").file.calibration
    assert section.max_age_days == 7.0
    assert section.compare == (("v12.voltage", "i12.voltage"),)
    found = mistakes(RIG + text.replace("i12.voltage", "i13.voltage"))
    assert "no such channel" in found["calibration.compare.0"]


def test_a_run_without_a_calibration_has_none_and_a_broken_one_is_a_problem(
    tmp_path: Path,
) -> None:
    rig = tmp_path / "box.toml"
    rig.write_text(RIG)
    parsed = parse_rig(RIG, str(rig))
    assert calibration_in_force(parsed, WHO, MOMENT) is None
    save_calibration(calibration_file(rig), Calibration(parsed.fingerprint, (ZERO,)))
    found = calibration_in_force(parsed, WHO, MOMENT)
    assert found is not None and found.zeros == (ZERO,)
    calibration_file(rig).write_text("nonsense")
    broken = calibration_in_force(parsed, WHO, MOMENT)
    assert broken is not None and broken.zeros == ()
    assert "no zeros are subtracted" in broken.problems[0]


def info(quantity: str = "voltage", floor: float = 6e-6, name: str = "i12.voltage") -> ChannelInfo:
    return ChannelInfo(name, quantity, "V", interval_s=0.1, accuracy_floor=floor, range=0.1)


def test_a_mean_and_its_scatter_by_hand() -> None:
    mean, scatter = mean_and_scatter(np.array([1.0, 2.0, 3.0, 4.0]))
    assert mean == 2.5 and scatter.u == pytest.approx(math.sqrt(5 / 3 / 4)) and scatter.dof == 3


@pytest.mark.parametrize(
    ("values", "ok"),
    [
        (np.full(10, 60e-6), True),
        (np.full(10, -120e-6), True),
        (np.full(10, 140e-6), False),
        (np.tile([-1e-3, 1e-3], 5), False),
        (np.full(10, 12.5e-3), False),
    ],
)
def test_what_is_obviously_no_zero(values: np.ndarray, ok: bool) -> None:
    """Five floors of 6 µV and 100 µV of thermal voltage: 130 µV; and it must be quiet."""
    assert THERMAL_EMF_VOLTS == 100e-6
    assert (why_not_zero(info(), values) == "") is ok


def test_amperes_have_no_thermal_voltage() -> None:
    assert why_not_zero(info("current"), np.full(10, 29e-6)) == ""
    assert "i12.voltage reads 3.1e-05" in why_not_zero(info("current"), np.full(10, 31e-6))


def zeroed(path: Path, zeros: tuple[Zero, ...]) -> RunRecord:
    header = json.loads((path / "run.json").read_text())
    header["calibration"] = asdict(UsedCalibration(zeros))
    (path / "run.json").write_text(json.dumps(header))
    return RunRecord(path)


OFFSET_AMPS = 0.01


@pytest.fixture(scope="module")
def run_with_offset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose 12 V current is read 10 mA too high; its meter's own limits are 0.6 mA."""
    meters = {"i12.current": Meter(offset=OFFSET_AMPS, of_reading=0.0005, floor=0.0006)}
    loads = [replace(load, duration_s=3.0) for load in WORK[:3]]
    return build(tmp_path_factory.mktemp("run"), Bench(loads, meters=meters, noise_pct=0.5)).path


AMPS_ZERO = Zero("i12.current", "A", OFFSET_AMPS, 2e-5, 20.0, 50, None, "made up", TAKEN)


def test_a_zero_is_taken_off_in_the_analysis_and_has_its_line(run_with_offset: Path) -> None:
    raw = np.array(RunRecord(run_with_offset).readings("i12.current"))
    before = summarise(RunRecord(run_with_offset))
    record = zeroed(run_with_offset, (AMPS_ZERO,))
    after = summarise(record)
    for one, other in zip(before.phases, after.phases, strict=True):
        old, new = one.rails["12V"], other.rails["12V"]
        assert old.watts.value - new.watts.value == pytest.approx(OFFSET_AMPS * new.volts.mean)
        line = next(line for line in new.budget if line.name == "current zero")
        assert line.watts == pytest.approx(2e-5 * new.volts.mean)
        assert (line.kind, line.part, line.dof) == ("A", "zero", 20.0)
        assert "+0.01 A of 2026-03-01 subtracted" in line.how
    assert (np.array(record.readings("i12.current")) == raw).all()
    assert after.calibration is not None and after.calibration.zeros == (AMPS_ZERO,)
    json.dumps(after.to_json(), allow_nan=False)


def test_what_is_sent_live_has_the_zero_taken_off_too(run_with_offset: Path) -> None:
    record = zeroed(run_with_offset, (AMPS_ZERO,))
    channel = GrowingChannel(record, record.channel("i12.current"))
    channel.refresh()
    _, values = channel.around(0, 1 << 62)
    assert values == pytest.approx(record.readings("i12.current")["v"] - OFFSET_AMPS)


def test_a_header_with_a_calibration_is_read_back(run_with_offset: Path) -> None:
    header = zeroed(run_with_offset, (AMPS_ZERO,)).header
    header = replace(header, calibration=UsedCalibration((AMPS_ZERO,), (CHECK,), ("a note",), "f"))
    assert Header.from_json(json.loads(json.dumps(header.to_json()))) == header


def test_a_report_is_made_with_and_without(run_with_offset: Path, tmp_path: Path) -> None:
    zeroed(run_with_offset, (AMPS_ZERO,))
    header = RunRecord(run_with_offset).header

    def watts(calibration: Path | None = None, without: bool = False) -> float:
        record = record_with(run_with_offset, calibration, without)
        return summarise(record).phases[1].rails["12V"].watts.value

    assert watts(without=True) - watts() == pytest.approx(0.12, rel=0.02)
    file = tmp_path / "later.calibration.json"
    taken = datetime.fromtimestamp(header.anchor.wall_ns / S).astimezone().isoformat()
    later = replace(AMPS_ZERO, value=2 * OFFSET_AMPS, taken=taken)
    save_calibration(file, Calibration("f", (later,)))
    assert watts(file) == pytest.approx(watts(without=True)), "this record names no meters"
    run_json = json.loads((run_with_offset / "run.json").read_text())
    run_json["identities"] = {"i12": "made up"}
    (run_with_offset / "run.json").write_text(json.dumps(run_json))
    assert watts(without=True) - watts(file) == pytest.approx(0.24, rel=0.02)
    with pytest.raises(ConfigurationError, match="no such file"):
        watts(tmp_path / "none.json")


def test_the_page_shows_zeros_and_checks(run_with_offset: Path) -> None:
    apart = replace(CHECK, difference=0.02, en=5.0)
    record = zeroed(run_with_offset, (AMPS_ZERO,))
    record.header = replace(
        record.header, calibration=UsedCalibration((AMPS_ZERO,), (CHECK, apart))
    )
    page = report_page(record, summarise(record), ())
    assert "Zero offsets that are subtracted from the readings; the record keeps" in page
    assert "<td>+0.01 A</td><td>2e-05 A</td><td>50</td>" in page
    assert "they agree" in page and "they contradict each other" in page
    assert "current zero" in page
    record.header = replace(record.header, calibration=None)
    assert "Zero offsets that are subtracted from the readings;" not in report_page(
        record, summarise(record), ()
    )


def test_a_zero_falls_out_of_the_difference_of_two_phases() -> None:
    """Its line is 12 V · u under load and 12.1 V · u at idle: 0.1 V · u is left."""
    u = 1e-3
    load = [Component("z", "A", 12.0 * u, "", 20.0, "zero of i", "zero")]
    idle = [Component("z", "A", 12.1 * u, "", 20.0, "zero of i", "zero")]
    assert combined(difference_components(load, idle, 0.5))[0] == pytest.approx(0.1 * u)
    assert combined(difference_components(load, [], 0.5))[0] == pytest.approx(12.0 * u)
    assert combined(difference_components([], idle, 0.5))[0] == pytest.approx(12.1 * u)


def test_degrees_of_freedom_of_a_shared_error_count() -> None:
    """Welch–Satterthwaite with one line of 4 degrees of freedom on two rails: ν = 4."""
    lines = [Component("z", "A", 1.0, "", 4.0, "zero of i", "zero") for _ in range(2)]
    assert combined(lines) == (pytest.approx(2.0), pytest.approx(4.0))


def series(
    name: str, values: np.ndarray, scale: float = 1.0, interval_s: float = 0.1, **limits: float
) -> ChannelSeries:
    stamps = np.rint(np.arange(len(values)) * interval_s * S).astype(np.int64)
    described = ChannelInfo(name, "", "", interval_s=interval_s, **limits)
    return ChannelSeries(described, stamps, values, ClockMap(), scale)


def test_the_difference_of_two_meters_by_hand() -> None:
    """1.000 A ± 1 mA (floor) against 1.003 A ± 0.2 %: U = 2 · √(1² + 2.006²)/√3 mA = 2.588 mA."""
    first = ComparedChannel(series("a.current", np.full(40, 1.000), accuracy_floor=0.001))
    second = ComparedChannel(series("b.current", np.full(40, 1.003), accuracy_of_reading=0.002))
    found = meter_difference(first, second)
    assert found is not None
    assert found.difference == pytest.approx(-0.003)
    assert found.u == pytest.approx(u_of_two_limits(1.0e-3, 2.006e-3), rel=1e-3)
    assert found.en == pytest.approx(0.003 / found.u) and found.en > 1
    assert found.n == 40
    turned = meter_difference(second, first)
    assert turned is not None and turned.difference == pytest.approx(0.003)
    assert turned.en == pytest.approx(found.en)


def test_a_shunt_and_its_certificate_count_in_a_cross_check() -> None:
    """0.1 V across 0.1 Ω (U = 1 mΩ, k = 2: 0.5 %) is 1 A ± 10 mA."""
    rail = RailInfo("12V", 12.0, "v", "i.voltage", shunt_ohm=0.1, shunt_u_ohm=1e-3)
    across = ComparedChannel(series("i.voltage", np.full(40, 0.1), scale=10.0), rail)
    direct = ComparedChannel(series("b.current", np.full(40, 1.005), accuracy_floor=1e-6))
    found = meter_difference(across, direct)
    assert found is not None
    assert found.means == pytest.approx((1.0, 1.005))
    assert found.u == pytest.approx(0.01, rel=1e-3) and found.en == pytest.approx(0.5, rel=1e-3)


def u_of_two_limits(one: float, other: float) -> float:
    """The larger one used up; the other is further out on that side in 4.55 % of all cases."""
    return max(one, other) + (2 * 0.9545 - 1) * min(one, other)


def test_what_the_load_does_falls_out_of_the_difference() -> None:
    """Both see a load that doubles; at 10 and at 3 readings a second, 2 mA apart."""
    t, slow_t = np.arange(200) * 0.1, np.arange(66) * 0.3
    fast = series("a.current", 1 + t / 20, accuracy_floor=0.001)
    slow = series("b.current", 1.002 + slow_t / 20, interval_s=0.3, accuracy_floor=0.001)
    found = meter_difference(ComparedChannel(fast), ComparedChannel(slow))
    assert found is not None
    assert found.difference == pytest.approx(-0.002, abs=1e-6)
    assert found.u == pytest.approx(u_of_two_limits(1e-3, 1e-3), rel=1e-3)


def test_too_few_readings_at_the_same_time_are_no_check() -> None:
    few = ComparedChannel(series("a.current", np.ones(3)))
    assert meter_difference(few, ComparedChannel(series("b.current", np.ones(50)))) is None
    assert meter_difference(ComparedChannel(series("a.current", np.empty(0))), few) is None


@given(st.floats(-1e-3, 1e-3), st.floats(0, 1e-3), st.integers(10, 200), st.integers(0, 2**32 - 1))
def test_the_mean_of_a_zero_lies_within_its_uncertainty(
    offset: float, noise: float, n: int, seed: int
) -> None:
    """At 5 standard uncertainties, whatever the noise and the number of readings."""
    values = offset + np.random.default_rng(seed).normal(0, noise, n)
    mean, scatter = mean_and_scatter(values)
    assert abs(mean - offset) <= 6 * scatter.u + 1e-15


def test_a_shunt_whose_temperature_was_measured_is_compared_at_that_temperature() -> None:
    """40 °C, 15 K above its reference at +1000 ppm/K: 1.5 % less than its nominal resistance
    says. Without the channel the range of the rig stands in, which is 10 K off."""
    rail = RailInfo(
        "12V", 12.0, "v.volts", "s.volts", shunt_ohm=0.1, shunt_ppm_per_kelvin=1000.0,
        shunt_celsius=(20.0, 40.0), shunt_temperature="t.celsius",
    )  # fmt: skip
    shunt = series("s.current", np.full(40, 1.015), accuracy_floor=0.0001)
    meter = series("i.current", np.full(40, 1.0), accuracy_floor=0.0001)
    warm = series("t.current", np.full(40, 40.0), accuracy_floor=0.1)
    measured = meter_difference(ComparedChannel(shunt, rail, warm), ComparedChannel(meter))
    assumed = meter_difference(ComparedChannel(shunt, rail), ComparedChannel(meter))
    assert measured is not None and assumed is not None
    assert measured.difference == pytest.approx(0.0, abs=1e-6)
    assert assumed.difference == pytest.approx(0.01, rel=0.02)
    assert measured.u < 0.1 * assumed.u
