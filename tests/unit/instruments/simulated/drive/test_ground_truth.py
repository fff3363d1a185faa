"""What the simulated drive records: truth, state ring, SMART log; and its parameters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from instruments.simulated.drive import nvme_structures
from instruments.simulated.drive.drive_host_files import DriveHostFiles
from instruments.simulated.drive.ground_truth import GroundTruth, GroundTruthWriter
from instruments.simulated.drive.model import TICK_NS, DriveModel, Tick
from instruments.simulated.drive.parameters import Parameters, load, override
from instruments.simulated.drive.state_ring import StateReader, StateWriter
from labctl.capture.identity.nvme_pages import parse_smart_log, with_extended_smart
from labctl.record.drive_state import SmartLog

BLOCK = 131_072


def hot_drive(**overrides: object) -> DriveModel:
    """Reaches both throttle levels within a second or two of :func:`write`."""
    fast = {"thermal.composite_joules_per_kelvin": 0.2, "thermal.case_joules_per_kelvin": 0.3}
    named = {key.replace("__", "."): value for key, value in overrides.items()}
    return DriveModel(load(overrides={**fast, **named}), 1, 0)


def write(ssd: DriveModel, seconds: float) -> list[Tick]:
    """Write at 22 W, whatever the drive thinks of it; the ticks."""
    ticks = []
    for _ in range(round(seconds * 1000)):
        for _ in range(2):
            _, kind = ssd.submit_write(ssd.t_ns, 0, BLOCK)
            ssd.complete(kind, BLOCK, ssd.t_ns)
        ticks.append(ssd.tick())
    return ticks


def smart_log(ssd: DriveModel, directory: Path) -> SmartLog:
    directory.mkdir()
    DriveHostFiles(directory, ssd)
    log = parse_smart_log((directory / "nvme-state" / "log-2.bin").read_bytes())
    assert log is not None
    return log


def test_smart_counters_follow_the_io_and_the_heat(tmp_path: Path) -> None:
    ssd = hot_drive(thermal__warning_celsius=50, thermal__critical_celsius=60)
    before = smart_log(ssd, tmp_path / "before")
    assert before.data_units_written == -(-6_570_000_000_000 // 512_000)
    assert before.critical_warning == before.thm_temp1_trans_count == 0
    write(ssd, 61)
    after = smart_log(ssd, tmp_path / "after")
    assert after.host_write_commands == ssd.writes == 122_000
    assert after.data_units_written is not None
    written = (after.data_units_written - before.data_units_written) * 512_000
    assert written == pytest.approx(122_000 * BLOCK, abs=512_000)
    assert after.critical_warning == 2
    page = nvme_structures.SmartLog.from_buffer_copy(
        (tmp_path / "after" / "nvme-state" / "log-2.bin").read_bytes()
    )
    assert page.composite_kelvin == round(ssd.composite_celsius + 273.15)
    assert after.warning_temp_time == after.critical_comp_time == 1  # minutes
    assert after.controller_busy_time == 1
    assert after.thm_temp1_trans_count == after.thm_temp2_trans_count == 1
    assert after.thm_temp2_total_time is not None
    assert 55 < after.thm_temp2_total_time <= 61  # seconds


def extended_smart(ssd: DriveModel, directory: Path) -> SmartLog:
    smart_log(ssd, directory)
    page = (directory / "nvme-state" / "log-192.bin").read_bytes()
    return with_extended_smart(SmartLog(), page)


def test_the_log_page_of_ocp_follows_the_heat_and_the_io(tmp_path: Path) -> None:
    ssd = hot_drive()
    before = extended_smart(ssd, tmp_path / "before")
    assert (before.thermal_throttling_events, before.thermal_throttling_level) == (0, 0)
    write(ssd, 3)
    assert ssd.throttle_level == 2
    after = extended_smart(ssd, tmp_path / "after")
    assert (after.thermal_throttling_events, after.thermal_throttling_level) == (2, 2)
    assert after.media_bytes_written is not None and before.media_bytes_written is not None
    assert after.media_bytes_written - before.media_bytes_written == 6000 * BLOCK
    assert after.hottest_celsius == round(ssd.composite_celsius)


def test_a_drive_may_throttle_without_counting(tmp_path: Path) -> None:
    ssd = hot_drive(throttle__counted=False)
    write(ssd, 3)
    assert ssd.throttle_level == 2
    smart = smart_log(ssd, tmp_path / "face")
    counters = smart.thermal_counters()
    assert {value for name, value in counters.items() if name.startswith("thm_temp")} == {0}
    said = extended_smart(ssd, tmp_path / "again")
    assert (said.thermal_throttling_events, said.thermal_throttling_level) == (0, 0)


def test_trace_and_truth_agree(tmp_path: Path) -> None:
    ssd = hot_drive()
    trace = StateWriter(tmp_path / "trace")
    writer = GroundTruthWriter(tmp_path / "truth", ssd.parameters, 1)
    for tick in write(ssd, 2) + [ssd.tick() for _ in range(2000)]:
        trace.append(*tick)
        writer.append(tick)
    writer.flush(ssd.ended_bursts())
    writer.close()
    with (tmp_path / "truth" / "ticks.bin").open("ab") as file:
        file.write(b"torn record")

    truth = GroundTruth(tmp_path / "truth")
    window = 201 * TICK_NS, 1701 * TICK_NS  # marks are at 1, 11, 21 ms
    meter = StateReader(tmp_path / "trace")
    begin, end = (np.array([edge], dtype=np.int64) for edge in window)
    for rail, watts in truth.mean_watts(*window).items():
        assert watts == pytest.approx(meter.means(f"joules_{rail}", begin, end)[0], rel=1e-9)
        assert truth.joules(*window)[rail] == pytest.approx(watts * 1.5)
        product = truth.mean_volts(*window)[rail] * truth.mean_amps(*window)[rail]
        assert watts == pytest.approx(product, rel=1e-3)
    assert truth.operations(*window)["written_bytes"] == 3000 * BLOCK
    levels = [interval.level for interval in truth.throttle_intervals()]
    assert levels == [1, 2, 1]
    first, second, _ = truth.throttle_intervals()
    assert first.end_ns == second.begin_ns
    assert truth.celsius(first.begin_ns) == pytest.approx(70, abs=1)
    assert truth.celsius(second.end_ns) == pytest.approx(72, abs=1)
    assert [burst.operations for burst in truth.bursts] == [4000]
    assert truth.parameters == ssd.parameters
    with pytest.raises(ValueError, match="known from"):
        truth.mean_watts(0, 10**12)


def refusal(change: Callable[[], Parameters]) -> str:
    with pytest.raises(ValidationError) as caught:
        change()
    return str(caught.value)


def test_parameters_refuse_what_they_do_not_know_or_cannot_be() -> None:
    assert "nand.diez" in refusal(lambda: load(overrides={"nand.diez": 4}))
    both = refusal(lambda: load(overrides={"nand.dies": 0, "rails.rail_12v.ripple_hz": 500}))
    assert "nand.dies" in both
    assert "ripple_hz" in both
    assert "dip_period_s" in refusal(lambda: load(overrides={"garbage_collection.dip_s": 99}))
    assert "below enter" in refusal(lambda: load(overrides={"throttle.light.leave_celsius": 71}))
    assert "add up" in refusal(lambda: load(overrides={"rails.rail_12v.idle_share": 0.5}))
    with pytest.raises(ValueError, match="not a section"):
        load(overrides={"speed_divisor.x": 1})


def test_overrides_of_a_command_line() -> None:
    assert override("thermal.ambient_celsius=35.5") == ("thermal.ambient_celsius", 35.5)
    assert override("identity.starts_full=false") == ("identity.starts_full", False)
    assert override("identity.serial=X1") == ("identity.serial", "X1")
    with pytest.raises(ValueError, match="key=value"):
        override("speed_divisor")
