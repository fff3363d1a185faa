"""``labctl calibrate`` against simulated meters with a thermal voltage in their leads: the zero is
found, stored, and taken off what is measured afterwards. No fio: the drive is a trace."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from instruments.simulated.bench import MetersProcess
from instruments.simulated.drive.state_ring import StateWriter
from instruments.simulated.meter_kit.config import MeterConfig, MetersConfig
from labctl.analysis.run.summary import summarise
from labctl.capture.meters import calibrate
from labctl.capture.meters.acquisition import Acquisition, State
from labctl.capture.meters.find_ranges import HEAVIEST_READS
from labctl.capture.meters.listening import Listening
from labctl.capture.run.header import make_header
from labctl.cli.meters.calibrate import checks as calibrate_checks
from labctl.cli.meters.calibrate import zeros as calibrate_zeros
from labctl.config.calibration_file import calibration_file, calibration_in_force, load_calibration
from labctl.config.plan import Plan
from labctl.config.rig import load_rig
from labctl.errors import Refused
from labctl.record import journal as journals
from labctl.record.drive_state import DriveState
from labctl.record.phase import Pattern, Phase, Role
from labctl.record.reader import RunRecord
from labctl.record.timebase import Timebase
from tests.json_schemas import validate

LABCTL = (sys.executable, "-m", "labctl.cli.main")
THERMAL_VOLTS = 60e-6
"""In 0.05 Ω that is 1.2 mA, 14 mW of 12 V: more than the meter's own limits."""
SHUNT_OHM = 0.05
METERS = (
    MeterConfig(
        name="i12", kind="truevolt", point="12V.current", shunt_ohm=SHUNT_OHM,
        leads_add=THERMAL_VOLTS, drift_ppm=20.0, clock_offset_s=3.0,
        settings={"model": "34465A", "function": "voltage", "range": 0.1, "nplc": 1.0,
                  "interval_s": 0.025},
    ),
    MeterConfig(
        name="v12", kind="sdm3065x", point="12V.voltage",
        settings={"model": "SDM3065X", "function": "voltage", "range": 20.0, "nplc": 1.0,
                  "interval_s": 0.05},
    ),
    MeterConfig(
        name="psu", kind="dp832", point="12V",
        settings={"model": "DP832", "interval_s": 0.11, "refresh_s": 0.1, "power_cycle": True},
    ),
)  # fmt: skip
DRIVER = {"i12": "truevolt", "v12": "scpi_dmm", "psu": "supply"}
RIG = """
name = "calibrated"
[drive]
engine = "nbd"
target = "nbd+unix:///?socket={target}"
[rails.12V]
nominal_volts = 12.0
voltage = "v12.voltage"
current = {{ channel = "i12.voltage", shunt_ohm = 0.05 }}
[calibration]
compare = [["i12.voltage", "psu.current"]]
"""


class Drive(threading.Thread):
    """Steady volts and amps that can be switched: what the meters see."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self._writer = StateWriter(path)
        self._t_ns = time.monotonic_ns()
        self._sums = np.zeros(6)
        self.volts, self.amps = 0.0, 0.0
        self.over = threading.Event()
        time.sleep(0.01)
        self._advance()

    def _advance(self) -> None:
        tick = np.array([self.volts, 0.0, self.amps, 0.0, self.volts * self.amps, 0.0])
        while self._t_ns + 1_000_000 <= time.monotonic_ns():
            self._t_ns += 1_000_000
            self._sums += tick * 1e-3
            self._writer.append(self._t_ns, *self._sums.tolist(), 40.0, 38.0, 0, 0, 0, 0, 0)

    def run(self) -> None:
        while not self.over.wait(0.001):
            self._advance()


@dataclass(frozen=True)
class Lab:
    folder: Path
    rig: Path
    drive: Drive

    def zeros(self, seconds: float = 0.5, **options: bool) -> int:
        flags = {"switch_off": False, "yes": True, "json_output": False, **options}
        return calibrate_zeros(str(self.rig), (), seconds, **flags)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("calibrated")
    drive = Drive(folder / "trace")
    drive.start()
    meters = MetersProcess(folder, MetersConfig(seed=3, meters=METERS))
    text = RIG.format(target=folder / "scratch")
    for meter in METERS:
        values = {"driver": DRIVER[meter.name], **meters.addresses[meter.name], **meter.settings}
        text += f"[instruments.{meter.name}]\n"
        text += "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
    rig = folder / "rig.toml"
    rig.write_text(text)
    yield Lab(folder, rig, drive)
    meters.stop()
    drive.over.set()
    drive.join()


def switched(lab: Lab, volts: float, amps: float) -> None:
    lab.drive.volts, lab.drive.amps = volts, amps
    time.sleep(0.3)  # longer than any meter integrates


def test_a_drive_that_is_on_is_refused_and_nothing_is_stored(lab: Lab) -> None:
    switched(lab, 12.0, 0.35)
    with pytest.raises(Refused, match="the drive or its supply is on") as reported:
        lab.zeros()
    assert "i12.voltage reads 0.0175" in str(reported.value)
    assert re.search(r"v12\.voltage reads (12|11\.99\d?) V", str(reported.value))
    assert not calibration_file(lab.rig).exists()
    switched(lab, 12.0, 0.0)
    with pytest.raises(Refused, match=r"the currents alone: labctl calibrate .* i12\.voltage$"):
        lab.zeros()


def test_nobody_to_ask_needs_a_yes(lab: Lab) -> None:
    with pytest.raises(Refused, match=r"off, or disconnected\? If so, add --yes"):
        lab.zeros(yes=False, json_output=True)


def test_a_zero_is_found_stored_and_taken_off(lab: Lab, tmp_path: Path) -> None:
    switched(lab, 0.0, 0.0)
    done = subprocess.run(
        [*LABCTL, "calibrate", lab.rig, "--seconds", "1", "--yes", "--json"],
        capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    validate("calibrate", json.loads(done.stdout))
    zeros = {one["channel"]: one for one in json.loads(done.stdout)["zeros"]}
    assert set(zeros) == {"i12.voltage", "v12.voltage"}
    zero = zeros["i12.voltage"]
    floor = load_rig(lab.rig).channels["i12"][0].accuracy.floor
    assert zero["value"] == pytest.approx(THERMAL_VOLTS, abs=floor + 4 * zero["u"])
    assert zero["range"] == 0.1 and zero["n"] >= 10 and 0 < zero["u"] < 1e-6
    assert "34465A" in zero["identity"]

    switched(lab, 12.0, 0.35)
    record = RunRecord(recorded(lab, tmp_path))
    assert record.header.calibration is not None
    with_zeros = summarise(record).phases[0].rails["12V"]
    record.header = replace(record.header, calibration=None)
    without = summarise(record).phases[0].rails["12V"]
    assert with_zeros.watts.covers(4.2), with_zeros
    assert not without.watts.covers(4.2), without
    assert without.watts.value - with_zeros.watts.value == pytest.approx(
        12 * zero["value"] / SHUNT_OHM, rel=0.05
    )
    lines = {line.name: line for line in with_zeros.budget}
    assert lines["current zero"].watts == pytest.approx(12 * zero["u"] / SHUNT_OHM, rel=0.01)
    assert record.readings("i12.voltage")["v"].mean() == pytest.approx(
        0.35 * SHUNT_OHM + THERMAL_VOLTS, abs=5e-6
    ), "the record keeps what was read"


def recorded(lab: Lab, root: Path) -> Path:
    """Two seconds of the meters as a run records them, in one idle phase."""
    rig, timebase = load_rig(lab.rig), Timebase()
    group = Acquisition(rig.create_instruments(timebase.now_ns), timebase.now_ns, Listening(rig))
    group.start()
    try:
        assert group.wait_settled(30.0) == {}
        phase = Phase(0, Role.IDLE_BEFORE, "idle", Pattern.IDLE, 2.0)
        identities = group.identities()
        used = calibration_in_force(rig, identities, datetime.now(UTC))
        plan, state = Plan(name="zeros", sweeps=[HEAVIEST_READS]), DriveState("none")
        header = make_header(rig, plan, "", (phase,), timebase, {}, identities, {"": state}, used)
        path = journals.create(root, header)
        journal = journals.Journal(path, timebase.now_ns, print)
        journal.event("run_started")
        group.record_to(journal)
        time.sleep(0.7)  # samples of the device's clock before the phase
        begin_ns = timebase.now_ns()
        journal.event("phase_started", begin_ns, index=0)
        time.sleep(2.0)
        end_ns = timebase.now_ns()
        journal.event("phase_ended", end_ns, index=0, begin_ns=begin_ns, end_ns=end_ns)
        time.sleep(0.7)
        assert all(owner.state is State.READING for owner in group.owners.values())
    finally:
        group.stop()
    journal.event("run_ended", outcome="completed")
    journal.close()
    return path


def test_two_meters_in_series_agree_or_contradict(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    """Across a shunt and in the supply itself; with a rig whose shunt is 10 % off they do not."""
    switched(lab, 12.0, 0.35)
    assert calibrate_checks(str(lab.rig), None, 0.5, True) == 0
    reported = json.loads(capsys.readouterr().out)
    validate("calibrate-compare", reported)
    (check,) = reported["checks"]
    assert check["channels"] == ["i12.voltage", "psu.current"] and check["unit"] == "A"
    assert check["means"] == pytest.approx([0.35, 0.35], abs=0.006)
    assert check["en"] == pytest.approx(abs(check["difference"]) / check["u"]) and check["agree"]
    wrong = lab.folder / "wrong.toml"
    wrong.write_text(lab.rig.read_text().replace("shunt_ohm = 0.05", "shunt_ohm = 0.045"))
    assert calibrate_checks(str(wrong), ("i12.voltage", "psu.current"), 0.5, False) == 1
    assert "they contradict each other" in capsys.readouterr().out
    found = load_calibration(calibration_file(wrong))
    assert found is not None and not found.checks[0].agree


def test_a_supply_switches_the_drive_off_and_on_again(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    switched(lab, 12.0, 0.35)
    monkeypatch.setattr(calibrate, "SETTLE_S", 0.2)
    rig = load_rig(lab.rig)
    own = ["psu.voltage", "psu.current"]
    with calibrate.drive_off(rig, calibrate.refuse_switching(rig)):
        zeros = calibrate.take_zeros(rig, own, 0.2)
    assert [abs(zero.value) < 0.05 for zero in zeros] == [True, True]
    with pytest.raises(ZeroDivisionError), calibrate.drive_off(rig, ["psu"]):
        raise ZeroDivisionError
    with pytest.raises(Refused, match=r"psu\.voltage reads 12"):
        calibrate.take_zeros(rig, own, 0.2)


def test_a_supply_that_may_not_be_switched_is_left_alone(lab: Lab) -> None:
    careful = lab.folder / "careful.toml"
    careful.write_text(lab.rig.read_text().replace("power_cycle = true", "power_cycle = false"))
    with pytest.raises(Refused, match="no supply of the rig may be switched"):
        replace(lab, rig=careful).zeros(switch_off=True)
