"""A session with a meter of each kind is recorded, and its driver reads the same from the file."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from typing import Any

import pytest

from instruments import drivers, recording
from instruments.instrument import Instrument
from instruments.reading import Batch
from instruments.simulated.meter_kit.config import MeterConfig
from instruments.simulated.meters.registry import DRIVERS
from tests.bench.running_meters import Running, read_count, running_meters, started
from tests.bench.test_power_sensor import SETTINGS as POWER_SENSOR
from tests.bench.test_quarch import meter as quarch_meter
from tests.bench.test_scpi_meters import METERS as SCPI
from tests.bench.test_serial_meters import METERS as SERIAL

CONFIGS = {
    **{name: SCPI[name] for name in ("stamped", "hp", "owon", "psu")},
    **{meter.name: meter for meter in SERIAL if meter.name in ("bm", "plug", "chip")},
    "ps": MeterConfig(name="ps", kind="powersensor3", point="frame_numbers", settings=POWER_SENSOR),
    "ppm": quarch_meter("frame_numbers", stripe_us=1024),
    "i12": MeterConfig(
        name="i12",
        kind="truevolt",
        point="12V.voltage",
        settings={
            "model": "34465A",
            "function": "voltage",
            "range": 100.0,
            "nplc": 0.2,
            "interval_s": 0.01,
        },
    ),
}
COUNT = {"ps": 5_000, "ppm": 1_500, "i12": 40, "stamped": 20, "chip": 10}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running_meters(tmp_path_factory.mktemp("bench"), CONFIGS.values(), seed=5) as meters:
        yield meters


def values(batches: list[Batch]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for batch in batches:
        for block in batch.blocks:
            found.setdefault(block.channel, []).extend(block.values.tolist())
    return found


def played(text: str) -> dict[str, list[float]]:
    instrument: Instrument = started(recording.replayed_instrument(recording.parse_session(text)))
    batches: list[Batch] = []
    with pytest.raises(recording.RecordingEnded):
        while True:
            batches.append(instrument.read())
    instrument.close()
    return values(batches)


@pytest.mark.parametrize("name", list(CONFIGS))
def test_a_recorded_session_is_read_again(running: Running, name: str) -> None:
    file = io.StringIO()
    driver = DRIVERS[CONFIGS[name].kind]
    settings: dict[str, Any] = {**CONFIGS[name].settings, **running.addresses[name]}
    recorded = recording.recorded_instrument(file, name, driver, settings, time.monotonic_ns)
    try:
        read = values(read_count(started(recorded), COUNT.get(name, 3)))
    finally:
        recorded.close()
    again = played(file.getvalue())
    assert set(again) == {channel.name for channel in recorded.channels}
    # At its end a driver may have had bytes that made no reading yet, or not have them now.
    for channel, expected in read.items():
        whole = min(len(expected), len(again[channel]))
        assert whole >= 0.9 * len(expected) - 1
        assert again[channel][:whole] == expected[:whole]


def test_every_kind_of_meter_has_a_driver_that_is_in_the_table() -> None:
    assert set(DRIVERS.values()) <= set(drivers.names())
