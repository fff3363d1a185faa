"""Joulescope: samples become readings whose joules are those of the samples.

Blocks are as the maker's library hands them on (jsdrv.h ``jsdrv_stream_signal_s``; binding.pyx of
pyjoulescope_driver: keys ``sample_id``, ``decimate_factor``, ``sample_rate``, ``data``). Recorded
files are written and read with the maker's ``pyjls``. No instrument was at hand.
"""

from __future__ import annotations

import builtins
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from instruments.drivers import joulescope
from instruments.drivers.joulescope import Joulescope, JoulescopeSettings
from instruments.drivers.joulescope_reduction import Reduced, Reduction, SampleBlock
from instruments.errors import ConnectionLost, SettingRefused
from instruments.reading import EPOCH_NS, Batch, Quantity, Status

DEVICE = "u/js220/000415"
SETTINGS: dict[str, Any] = {
    "model": "JS220",
    "resource": DEVICE,
    "voltage_pct_of_reading": 0.1,
    "voltage_floor_volts": 0.002,
    "current_pct_of_reading": 0.3,
    "current_floor_amps": 0.0005,
}
RATE, STEP = 2_000_000, 2
"""A JS220: numbers count at 2 MHz, and every second one is a sample."""
PER_WINDOW = 1000
FIRST_ID = 12_345_678
Samples = NDArray[np.float32]


def load_of_a_drive(count: int) -> tuple[Samples, Samples]:
    """Volts that droop under bursts of amps: mean watts are not mean volts times mean amps."""
    number = np.arange(count)
    amps = np.where(number // 300 % 3 == 0, 2.4, 0.4) + 0.01 * np.sin(number / 7)
    return (3.33 - 0.08 * amps).astype(np.float32), amps.astype(np.float32)


def blocks(samples: Samples, size: int = 1234, first: int = FIRST_ID) -> list[SampleBlock]:
    return [
        SampleBlock(first + begin * STEP, STEP, RATE, samples[begin : begin + size])
        for begin in range(0, len(samples), size)
    ]


def reduced(reduction: Reduction, volts: list[SampleBlock], amps: list[SampleBlock]) -> Reduced:
    """Everything at once; the two signals' blocks come in turn."""
    for number in range(max(len(volts), len(amps))):
        for is_voltage, signal in ((True, volts), (False, amps)):
            if number < len(signal):
                assert reduction.follows(is_voltage, signal[number])
                reduction.add(is_voltage, signal[number])
    found = reduction.take()
    assert found is not None
    return found


def windows(samples: Samples, found: Reduced) -> NDArray[np.float64]:
    """The samples of each reading, by its middle."""
    begins = ((found.sample_id - FIRST_ID) / STEP - PER_WINDOW / 2).astype(int)
    return np.array([samples[begin : begin + PER_WINDOW] for begin in begins], np.float64)


def test_watts_of_a_reading_are_the_energy_of_its_samples() -> None:
    volts, amps = load_of_a_drive(50_000)
    found = reduced(Reduction(1e-3), blocks(volts), blocks(amps, 777))
    assert len(found) in (48, 49) and not found.lost and not found.duplicates
    assert set(np.diff(found.sample_id)) == {2000.0}
    power = windows(volts, found) * windows(amps, found)
    assert found.watts == pytest.approx(power.mean(axis=1), rel=1e-12)
    assert found.volts == pytest.approx(windows(volts, found).mean(axis=1), rel=1e-12)
    assert found.least_watts.tolist() == power.min(axis=1).tolist()
    assert found.most_watts.tolist() == power.max(axis=1).tolist()
    off = np.abs(found.volts * found.amps / found.watts - 1)
    assert off.max() > 0.005, "a product of means would be wrong"


def test_missing_samples_cost_their_readings_and_no_others() -> None:
    volts, amps = load_of_a_drive(50_000)
    whole = reduced(Reduction(1e-3), blocks(volts), blocks(amps))
    pieces = blocks(amps)
    del pieces[10:12]
    found = reduced(Reduction(1e-3), blocks(volts), pieces)
    missing = FIRST_ID + STEP * np.arange(10 * 1234, 12 * 1234)
    first, *_, last = np.unique(missing // (STEP * PER_WINDOW))
    count = last - first + 1
    assert found.lost == (((first + 0.5) * STEP * PER_WINDOW, count),)
    assert len(found) == len(whole) - count
    kept = np.isin(whole.sample_id, found.sample_id)
    assert found.watts.tolist() == whole.watts[kept].tolist()
    amps[20_500] = np.nan  # as the library marks what a JS110 dropped
    assert reduced(Reduction(1e-3), blocks(volts), blocks(amps)).lost[0][1] == 1


def test_samples_that_come_twice_count_once() -> None:
    volts, amps = load_of_a_drive(50_000)
    whole = reduced(Reduction(1e-3), blocks(volts), blocks(amps))
    twice = blocks(amps)
    twice.insert(5, twice[4])
    overlap = twice[8]
    twice[8] = SampleBlock(
        overlap.sample_id - 10 * STEP,
        STEP,
        RATE,
        np.concatenate([twice[7].samples[-10:], overlap.samples]),
    )
    found = reduced(Reduction(1e-3), blocks(volts), twice)
    assert found.duplicates == 1234 + 10
    assert found.watts.tolist() == whole.watts.tolist()


@pytest.mark.parametrize("first", [FIRST_ID + 100 * RATE, 0])
def test_numbers_that_begin_anew(first: int) -> None:
    volts, amps = load_of_a_drive(5_000)
    reduction = Reduction(1e-3)
    reduced(reduction, blocks(volts), blocks(amps))
    again = blocks(volts, first=first)
    assert not reduction.follows(True, again[0])
    reduction.add(True, again[0])
    for is_voltage, signal in ((True, again[1:]), (False, blocks(amps, first=again[0].sample_id))):
        for block in signal:
            assert reduction.follows(is_voltage, block)
            reduction.add(is_voltage, block)
    found = reduction.take()
    assert found is not None and len(found) in (3, 4, 5)


class Replay:
    """The library's ``Driver`` with an instrument that plays samples; what is set is kept."""

    def __init__(self, played: list[tuple[str, SampleBlock]], there: bool = True) -> None:
        self.set: dict[str, Any] = {}
        self.is_open = False
        self._there = there
        self._played = played
        self._calls: dict[str, Callable[[str, Any], None]] = {}
        self._thread: threading.Thread | None = None

    def device_paths(self) -> list[str]:
        return [DEVICE] if self._there else ["u/js110/001234"]

    def open(self, device_prefix: str, mode: str | None = None) -> None:
        assert (device_prefix, mode) == (DEVICE, "defaults")
        self.is_open = True

    def close(self, device_prefix: str, timeout: float | None = None) -> None:
        self.is_open = False

    def publish(self, topic: str, value: object, timeout: float | None = None) -> None:
        self.set[topic.removeprefix(f"{DEVICE}/")] = value
        if self.set.get("s/i/ctrl") == 1 and self._thread is None:
            self._thread = threading.Thread(target=self._play, daemon=True)
            self._thread.start()

    def query(self, topic: str) -> Any:
        assert topic == f"{DEVICE}/c/fw/version"
        return 1 << 24 | 2 << 16 | 1

    def subscribe(self, topic: str, flags: str, fn: Callable[[str, Any], None]) -> None:
        assert flags == "pub"
        self._calls[topic] = fn

    def unsubscribe(self, topic: str, fn: Any, timeout: float | None = None) -> None:
        del self._calls[topic]

    def finalize(self, timeout: float | None = None) -> None:
        raise AssertionError("it belongs to the test")

    def _play(self) -> None:
        for topic, block in self._played:
            self._calls[f"{DEVICE}/{topic}"](
                f"{DEVICE}/{topic}",
                {
                    "sample_id": block.sample_id,
                    "decimate_factor": block.decimate_factor,
                    "sample_rate": block.sample_rate,
                    "data": block.samples,
                },
            )


def in_turn(volts: list[SampleBlock], amps: list[SampleBlock]) -> list[tuple[str, SampleBlock]]:
    pairs = zip(volts, amps, strict=True)
    return [one for v, a in pairs for one in (("s/v/!data", v), ("s/i/!data", a))]


def made(library: Any, **changes: Any) -> Joulescope:
    settings = JoulescopeSettings.model_validate(SETTINGS | changes)
    return Joulescope("js", settings, time.monotonic_ns, library)


def read(instrument: Joulescope, count: int) -> list[Batch]:
    batches, end = [], time.monotonic() + 60
    while sum(len(b) for batch in batches for b in batch.blocks if b.channel == "voltage") < count:
        assert time.monotonic() < end
        batches.append(instrument.read())
    return batches


def joined(batches: list[Batch], channel: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    found = [block for batch in batches for block in batch.blocks if block.channel == channel]
    t_ns = np.concatenate([block.t_ns for block in found])
    return t_ns, np.concatenate([block.values for block in found])


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[tuple[list[SampleBlock], list[SampleBlock]]]:
    """A JLS file of a JS220, written and read with the maker's library."""
    pyjls = pytest.importorskip("pyjls", reason="needs pyjls (Joulescope files)")
    volts, amps = load_of_a_drive(100_000)
    with pyjls.Writer(str(tmp_path / "drive.jls")) as file:
        file.source_def(
            source_id=1, name="JS220-000415", vendor="Jetperch", model="JS220", version="",
            serial_number="000415",
        )  # fmt: skip
        for number, (name, units, samples) in enumerate(
            (("current", "A", amps), ("voltage", "V", volts)), start=1
        ):
            file.signal_def(
                signal_id=number, source_id=1, sample_rate=RATE // STEP, name=name, units=units
            )
            file.fsr_f32(number, 0, samples)
    signals = []
    with pyjls.Reader(str(tmp_path / "drive.jls")) as file:
        for name in ("voltage", "current"):
            signal = file.signal_lookup(name)
            signals.append(
                [
                    SampleBlock(
                        FIRST_ID + begin * STEP,
                        RATE // signal.sample_rate,
                        RATE,
                        file.fsr(signal.signal_id, begin, min(5_000, signal.length - begin)),
                    )
                    for begin in range(0, signal.length, 5_000)
                ]
            )
    assert np.concatenate([block.samples for block in signals[1]]).tolist() == amps.tolist()
    yield signals[0], signals[1]


def test_a_recorded_file_through_the_driver(
    recorded: tuple[list[SampleBlock], list[SampleBlock]],
) -> None:
    volts, amps = load_of_a_drive(100_000)
    library = Replay(in_turn(*recorded))
    instrument = made(library, extremes=True)
    identity = instrument.open()
    assert (identity.model, identity.serial, identity.firmware) == ("JS220", "000415", "1.2.1")
    instrument.start()
    batches = read(instrument, 98)
    instrument.close()
    assert not library.is_open and library.set["s/i/ctrl"] == 0
    assert library.set["h/fs"] == 1_000_000 and library.set["s/v/range/mode"] == "auto"
    t_ns, shown_volts = joined(batches, "voltage")
    _, shown_amps = joined(batches, "current")
    assert set(np.diff(t_ns)) == {1_000_000}
    energy = float((shown_volts * shown_amps).sum()) * 1e-3
    begin = round((t_ns[0] - 500_000) / 1000)
    part = slice(begin, begin + len(t_ns) * PER_WINDOW)
    true = float((volts[part].astype(float) * amps[part].astype(float)).sum()) * 1e-6
    assert energy == pytest.approx(true, rel=1e-9)
    _, most = joined(batches, "power_most")
    assert most.max() == pytest.approx(float((volts * amps).max()), rel=1e-6)
    quantities = [channel.quantity for channel in instrument.channels]
    assert quantities == [Quantity.VOLTAGE, Quantity.CURRENT, Quantity.POWER, Quantity.POWER]


def test_mean_amps_and_watts_apart_and_what_is_lost() -> None:
    volts, amps = (blocks(samples, 1000) for samples in load_of_a_drive(30_000))
    del volts[12], amps[12]
    instrument = made(Replay(in_turn(volts, amps)), current_from="mean")
    instrument.open()
    instrument.start()
    batches = read(instrument, 26)
    assert [one.name for one in instrument.channels] == ["voltage", "current", "power"]
    _, watts = joined(batches, "power")
    product = joined(batches, "voltage")[1] * joined(batches, "current")[1]
    assert np.abs(product / watts - 1).max() > 0.005
    (lost,) = (status for batch in batches for status in batch.statuses)
    assert lost.status is Status.LOST and lost.count in (1, 2)
    pairs = [pair for batch in batches for pair in batch.clock_pairs]
    assert {pair.channel for pair in pairs} == {"voltage", "current", "power"}
    assert all(0 <= pair.device_ns < EPOCH_NS for pair in pairs)
    instrument.close()


def test_numbers_that_jump_by_more_than_a_pause_are_a_loss() -> None:
    before = [blocks(samples, 1000) for samples in load_of_a_drive(20_000)]
    after = [
        blocks(samples, 1000, first=FIRST_ID + 60 * RATE) for samples in load_of_a_drive(20_000)
    ]
    instrument = made(Replay([*in_turn(*before), *in_turn(*after)]))
    instrument.open()
    instrument.start()
    batches = read(instrument, 30)
    instrument.close()
    (lost,) = (status for batch in batches for status in batch.statuses)
    assert lost.status is Status.LOST and lost.count >= 1
    assert "by the host's clock" in lost.detail
    t_ns, _ = joined(batches, "voltage")
    assert t_ns[0] <= lost.t_ns < EPOCH_NS <= t_ns[-1]


def test_an_instrument_that_is_not_there_or_not_meant() -> None:
    with pytest.raises(ConnectionLost, match=r"no u/js220/000415; there are: u/js110/001234"):
        made(Replay([], there=False)).open()
    with pytest.raises(ValidationError, match="is not the address of a JS110"):
        made(None, model="JS110")
    with pytest.raises(ValidationError, match="must be one of 15"):
        made(None, volts_range=5.0)


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without(name: str, *others: Any) -> Any:
        if name == "pyjoulescope_driver":
            raise ImportError("No module named 'pyjoulescope_driver'")
        return imported(name, *others)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SettingRefused, match=r"needs the library .*pyjoulescope_driver>=1\.9,<3"):
        made(None).open()
    assert joulescope.connected_joulescopes() == []


def test_a_library_that_does_not_answer_finds_none_and_is_ended() -> None:
    class Silent:
        ended = False

        def device_paths(self) -> list[str]:
            raise TimeoutError("query timed out: @/list")

        def finalize(self, timeout: float | None = None) -> None:
            self.ended = True

    library: Any = Silent()
    assert joulescope.connected_joulescopes(lambda: library) == []
    assert library.ended


def test_the_makers_library_has_what_is_used_of_it() -> None:
    """No instrument is connected here: enumeration gives none of this serial number."""
    library = pytest.importorskip("pyjoulescope_driver", reason="needs the extra joulescope")
    for name in (
        "device_paths", "open", "close", "publish", "query", "subscribe", "unsubscribe", "finalize",
    ):  # fmt: skip
        assert callable(getattr(library.Driver, name))
    binding = Path(library.binding.__file__).read_bytes()
    for topic in (
        "s/i/ctrl", "s/v/ctrl", "s/i/!data", "s/v/!data", "h/fs", "s/v/range/select",
        "s/i/range/select", "c/fw/version", "15 V", "5 V", "sample_id", "decimate_factor",
        "sample_rate",
    ):  # fmt: skip
        assert topic.encode() in binding, f"the library has no {topic} any more"
    # What a JS220 takes, it says itself; the library's own recorder sends the same.
    recorder = (Path(library.__file__).parent / "entry_points" / "record.py").read_text()
    for words in (
        "s/i/range/mode', 'auto'", "s/v/range/mode', 'auto'", "s/i/range/select', 'auto'",
        "s/v/range/select', '15 V'", "2_000_000 if 'js110' in device_path else 1_000_000",
    ):  # fmt: skip
        assert words in recorder
    with pytest.raises(ConnectionLost, match="no u/js220/000415; there is none"):
        made(None).open()
    assert DEVICE not in joulescope.connected_joulescopes()
