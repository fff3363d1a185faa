"""Every meter of the bench loses its cable in turn, then all of them their power, in one run."""

from __future__ import annotations

import signal
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from instruments.simulated.bench import Bench, MetersProcess, configure
from instruments.simulated.meter_kit.config import MetersConfig
from labctl.record.events import Event
from labctl.record.reader import RunRecord
from tests.bench.test_fio_phases import fios_below
from tests.faults.conftest import SLOW
from tests.faults.resumed_run import WITHIN_S, Interruptible, assert_times_ascend, plan_file
from tests.soak.counts import miscounted_of

pytestmark = [pytest.mark.bench, pytest.mark.fault]


def reported(run: Path, kind: str) -> list[Event]:
    return [event for event in RunRecord(run).events if event.kind == kind]


def until_reported(run: Interruptible, kind: str, counts: dict[str, int]) -> None:
    """Wait until each instrument was in so many events of a kind."""
    deadline = time.monotonic() + WITHIN_S
    while True:
        seen = Counter(event.data["instrument"] for event in reported(run.path, kind))
        if all(seen[name] >= count for name, count in counts.items()):
            return
        assert run.process is not None and run.process.poll() is None, run.process
        assert time.monotonic() < deadline, (kind, seen)
        time.sleep(0.05)


def without_power(bench: Bench) -> None:
    assert bench.meters is not None
    bench.meters.process.kill()
    bench.meters.process.wait()
    bench.meters.stop()  # its pipes


def with_power(bench: Bench) -> None:
    """The same meters at the same places, with empty memories and new clocks."""
    assert bench.meters is not None
    ports = {
        name: int(address["resource"].split("::")[2])
        for name, address in bench.addresses.items()
        if "resource" in address
    }
    meters = tuple(
        meter.model_copy(update={"tcp_port": ports.get(meter.name, 0)})
        for meter in bench.config.meters
    )
    bench.meters = MetersProcess(
        bench.directory, MetersConfig(seed=bench.config.seed, meters=meters)
    )


@pytest.mark.long
def test_each_comes_back_with_its_gap_and_the_others_lose_nothing(tmp_path: Path) -> None:
    with Bench(tmp_path / "bench", configure(overrides=SLOW)) as bench:
        run = Interruptible(bench.rig, plan_file(tmp_path, 600, "[8]"), tmp_path / "runs")
        process = run.go_on()
        run.until("phase_started", index=1)
        names = [meter.name for meter in bench.config.meters]
        for name in names:
            bench.inject(name, "disconnect", 0.5)
            until_reported(run, "instrument_lost", {name: 1})
        until_reported(run, "instrument_back", dict.fromkeys(names, 1))
        without_power(bench)
        until_reported(run, "instrument_lost", dict.fromkeys(names, 2))
        with_power(bench)
        until_reported(run, "instrument_back", dict.fromkeys(names, 2))
        record = RunRecord(run.path)
        seen = {info.name: len(record.readings(info.name)) for info in record.header.channels}
        deadline = time.monotonic() + WITHIN_S
        while any(len(record.readings(name)) <= count for name, count in seen.items()):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 130 and "Traceback" not in output, output
    assert fios_below(run.path) == []
    lost = [event.data["instrument"] for event in reported(run.path, "instrument_lost")]
    assert list(dict.fromkeys(lost)) == names  # each when its own cable was pulled
    assert all(event.data["gap_s"] > 0 for event in reported(run.path, "instrument_back"))
    assert_times_ascend(run.path)
    record = RunRecord(run.path)
    assert record.problems == []
    for name in (
        "i12.voltage",
        "i33.current",
    ):  # between two gaps each reading by the meter's clock
        info, stamps = record.channel(name), np.asarray(record.readings(name)["t"])
        assert miscounted_of(stamps, info.interval_s, info.aperture_s, ()) == []
    in_problems = {
        line.partition(": lost ")[0] for line in run.summary().problems if ": lost " in line
    }
    assert in_problems == set(names)
    assert run.summary().phases[1].iops
