"""A Quarch module behind a simulated QIS: every stripe once, its clock, and all faults."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from instruments.errors import ConnectionLost, NoAnswer, ProtocolError, SettingRefused
from instruments.instrument import Instrument
from instruments.reading import EPOCH_NS, Batch, Status
from instruments.simulated.meter_kit.config import MeterConfig, Point
from tests.bench.running_meters import (
    VOLTS_12,
    Running,
    amps,
    fails,
    numbers,
    numbers_again,
    read_count,
    read_until,
    reconnect,
    running_meters,
    started,
    statuses_until,
)
from tests.protocol.test_quarch import HELP, WITHOUT_MODULE

SETTINGS: dict[str, Any] = {
    "rails": ["3V3", "12V"],
    "stripe_us": 64,
    "voltage_pct_of_reading": 1.0,
    "voltage_floor_volts": 0.001,
    "current_pct_of_reading": 1.0,
    "current_floor_amps": 0.002,
}
PPM = 40.0


def meter(point: Point, **settings: Any) -> MeterConfig:
    return MeterConfig(
        name="ppm",
        kind="quarch",
        point=point,
        settings={**SETTINGS, **settings},
        clock_offset_s=7.0,
        drift_ppm=PPM,
    )


@pytest.fixture(scope="module")
def qis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running_meters(tmp_path_factory.mktemp("qis"), [meter("frame_numbers")], seed=1) as meters:
        yield meters


@pytest.fixture
def running(qis: Running) -> Iterator[Running]:
    """One QIS for all tests: each leaves it without faults and without a stream."""
    yield qis
    qis.close()


@pytest.fixture
def ppm(running: Running) -> Instrument:
    instrument: Instrument = started(running.create("ppm"))
    return instrument


def stripe_numbers(batches: list[Batch]) -> Any:
    """The numbers that the test pattern puts into the volts and amps of the first rail."""
    below = np.rint(numbers(batches, "voltage_3V3")[1] * 1e3).astype(np.int64)
    above = np.rint(numbers(batches, "current_3V3")[1] * 1e6).astype(np.int64)
    return below + 1000 * above


def statuses(batches: list[Batch], status: Status) -> list[Any]:
    return [s for batch in batches for s in batch.statuses if s.status is status]


def test_the_simulated_qis_answers_as_the_help_and_the_real_one_do(running: Running) -> None:
    host, _, port = running.addresses["ppm"]["server"].partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as link:
        assert link.recv(200).startswith(b"$t v")
        for command, answer in WITHOUT_MODULE:
            if not command.startswith("$list"):
                assert asked(link, command) == answer, command
        for command, pattern in HELP:
            given = asked(link, f"{running.addresses['ppm']['resource']} {command}").removesuffix(
                b"\r\n>"
            )
            assert re.fullmatch(pattern, given, re.DOTALL), f"{command}: {given!r}"
        with running.having("ppm", "unplugged"):
            for command, answer in WITHOUT_MODULE:
                assert asked(link, command) == answer, command


def asked(link: socket.socket, command: str) -> bytes:
    """The answer to a line, with the prompt behind it."""
    link.sendall(f"{command}\r\n".encode())
    answer = b""
    while not answer.endswith(b">") or (command and not answer.endswith(b"\r\n>")):
        answer += link.recv(1 << 16)
    return answer


def test_every_stripe_once_and_in_order(ppm: Instrument) -> None:
    batches = read_count(ppm, 20_000)
    number = stripe_numbers(batches)
    assert number[0] == 0 and set(np.diff(number)) == {1}, "none is missing, none comes twice"
    assert not any(batch.statuses for batch in batches)
    t_ns = numbers(batches, "voltage_12V")[0]
    assert set(np.diff(t_ns)) == {64_000}
    assert t_ns[0] == 32_000, "the middle of its window"


def test_its_clock_is_reported_and_new_streams_are_new_epochs(
    ppm: Instrument, running: Running
) -> None:
    batches = read_until(ppm, lambda read: sum(bool(b.clock_pairs) for b in read) >= 4)
    pairs = [pair for batch in batches for pair in batch.clock_pairs]
    assert {pair.channel for pair in pairs} == {channel.name for channel in ppm.channels}
    one = [pair for pair in pairs if pair.channel == "voltage_3V3"]
    assert all(a.device_ns < b.device_ns and a.host_ns < b.host_ns for a, b in pairwise(one))
    assert {pair.round_trip_ns for pair in one} == {0}, "it cannot be asked"
    newest_ns = int(numbers(batches, "voltage_3V3")[0][-1])
    assert one[-1].device_ns <= newest_ns + 64_000
    ppm.close()
    started(ppm)
    assert int(numbers(numbers_again(ppm))[0][0]) == EPOCH_NS + 32_000


@pytest.mark.long
def test_volts_and_amps_are_those_of_the_rails_and_watts_their_product(tmp_path: Path) -> None:
    watts = {"power_pct_of_reading": 2.0, "power_floor_watts": 0.03}
    config = meter("rails", stripe_us=1024, average=4, **watts)
    with running_meters(tmp_path, [config], seed=3) as running:
        ppm = started(running.create("ppm"))
        batches = read_until(ppm, lambda read: sum(bool(b.clock_pairs) for b in read) >= 4)
    pairs = [p for b in batches for p in b.clock_pairs if p.channel == "current_12V"]
    offset_ns = min(pair.host_ns - pair.device_ns for pair in pairs)
    t_ns, measured = numbers(batches, "current_12V")
    assert set(np.diff(t_ns)) == {4 * 1_024_000}
    true = amps((t_ns + offset_ns).astype(np.float64))
    # 1 A/s; an arrival is 4 ms late at the least, and the first ones may be later
    allowed = 0.01 * true + 0.002 + 0.05
    assert (np.abs(measured - true) <= allowed).all()
    volts = numbers(batches, "voltage_12V")[1]
    assert (np.abs(volts - VOLTS_12) <= 0.01 * VOLTS_12 + 0.001 + 4 * 0.0005).all()
    assert numbers(batches, "power_12V")[1] == pytest.approx(volts * measured, rel=1e-3)


@pytest.mark.parametrize(
    "fault",
    ["memory_overflow", "disconnect", "unplugged", pytest.param("silent", marks=pytest.mark.long)],
)
def test_what_ends_a_stream(ppm: Instrument, running: Running, fault: str) -> None:
    before = numbers(numbers_again(ppm))[0]
    running.inject("ppm", fault, 1.0)
    if fault == "memory_overflow":
        (lost,) = statuses(statuses_until(ppm, Status.LOST), Status.LOST)
        assert lost.count >= 1 and "a buffer overran (QIS: Stopped: buffer overrun)" in lost.detail
    else:
        fails(ppm, NoAnswer if fault == "silent" else ConnectionLost)
        reconnect(ppm)
    after = read_count(ppm, 1000)
    assert int(numbers(after)[0][0]) // EPOCH_NS > int(before[-1]) // EPOCH_NS
    assert set(np.diff(stripe_numbers(after))) == {1}


def test_malformed_stripes_are_statuses_and_what_is_missing_is_counted(
    ppm: Instrument, running: Running
) -> None:
    read_count(ppm, 100)
    with running.having("ppm", "lost_bytes"):
        cut = statuses_until(ppm, Status.UNREADABLE)
    batches = [*cut, *read_count(ppm, 2000)]
    missing = sum(
        s.count for s in (*statuses(batches, Status.UNREADABLE), *statuses(batches, Status.LOST))
    )
    steps = np.diff(numbers(batches, "voltage_3V3")[0]) // 64_000
    assert missing == int((steps - 1).sum()) > 0


def test_text_in_another_encoding_gives_no_readings(ppm: Instrument, running: Running) -> None:
    read_count(ppm, 100)
    with running.having("ppm", "nonsense"):
        fails(ppm, ProtocolError)
    reconnect(ppm)
    assert set(np.diff(stripe_numbers(read_count(ppm, 1000)))) == {1}


class OtherClient:
    """Another program that talks to the same QIS."""

    def __init__(self, running: Running) -> None:
        host, _, port = running.addresses["ppm"]["server"].partition(":")
        self._module = running.addresses["ppm"]["resource"]
        self._socket = socket.create_connection((host, int(port)), timeout=10)
        self._socket.recv(200)

    def ask(self, command: str) -> bytes:
        return asked(self._socket, f"{self._module} {command}")


def test_stripes_that_another_program_takes_are_lost_and_its_stop_is_reported(
    ppm: Instrument, running: Running
) -> None:
    other = OtherClient(running)
    read_count(ppm, 100)

    def one_taken(read: list[Batch]) -> bool:
        other.ask("stream text 50")
        return any(statuses(read[-1:], Status.LOST))

    assert "stripes" in statuses(read_until(ppm, one_taken), Status.LOST)[0].detail
    other.ask("rec stop")
    read_until(
        ppm,
        lambda read: any("(QIS: Stopped: User)" in s.detail for s in statuses(read, Status.LOST)),
    )
    numbers_again(ppm)


def test_a_stream_that_another_program_reads_is_left_to_it(running: Running) -> None:
    other = OtherClient(running)
    other.ask("rec averaging 32")
    other.ask("rec stream")
    ppm = running.create("ppm")
    ppm.open()
    taken: list[bytes] = []

    def take(_seconds: float) -> None:
        taken.append(other.ask("stream text all"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("instruments.drivers.quarch.time.sleep", take)
        with pytest.raises(ConnectionLost, match="another program streams"):
            ppm.start()
    assert taken and b"Running" in other.ask("stream?")
    other.ask("rec stop")


def test_a_stream_that_a_dead_program_left_is_ended(ppm: Instrument, running: Running) -> None:
    numbers_again(ppm)
    ppm._qis.close()  # type: ignore[attr-defined]  # as after kill -9: the stream goes on
    again = started(running.create("ppm"))
    assert stripe_numbers(read_count(again, 100))[0] == 0


@pytest.mark.long
def test_readings_that_are_taken_too_slowly_are_dropped_not_hoarded(tmp_path: Path) -> None:
    config = meter("frame_numbers", stripe_us=4)
    with running_meters(tmp_path, [config], seed=1) as running:
        ppm = started(running.create("ppm"))
        read_count(ppm, 1000)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("instruments.drivers.quarch._MOST_BEHIND_S", 0.0)
            (lost,) = statuses(statuses_until(ppm, Status.LOST), Status.LOST)
        assert "waited in QIS: set a larger stripe_us" in lost.detail


@pytest.mark.long
def test_a_small_buffer_overruns(tmp_path: Path) -> None:
    config = meter("frame_numbers").model_copy(update={"memory": 20})
    with running_meters(tmp_path, [config], seed=1) as running:
        ppm = running.create("ppm")
        started(ppm)
        lost = statuses(statuses_until(ppm, Status.LOST), Status.LOST)[0]
        assert "overran" in lost.detail and lost.count > 0


def test_wrong_rails_and_modules_are_refused_with_what_there_is(running: Running) -> None:
    wrong = running.create("ppm", rails=["5V"])
    wrong.open()
    with pytest.raises(SettingRefused, match="no volts of a rail 5V; it has 3V3, 12V"):
        wrong.start()
    other = running.create("ppm", resource="usb::QTL1847-01-016")
    with pytest.raises(ConnectionLost, match="it sees usb::QTL1999-02-"):
        other.open()
    with pytest.raises(ConnectionLost, match="it sees usb::QTL1999-02-"):
        running.create("ppm", resource="tcp::192.0.2.7").open()


def test_power_is_switched_where_the_rig_allows_it_and_only_there(running: Running) -> None:
    module = running.create("ppm")
    module.open()
    assert not module.may_switch
    with pytest.raises(SettingRefused, match="power_cycle = true"):
        module.switch(False)
    allowed = running.create("ppm", power_cycle=True)
    allowed.open()
    other = OtherClient(running)
    for on in (False, True):
        allowed.switch(on)
        assert other.ask("run:power?").startswith(b"ON" if on else b"OFF")
