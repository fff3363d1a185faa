"""A topic of a real Mosquitto as an instrument."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from paho.mqtt import publish

from instruments import drivers
from instruments.errors import ConnectionLost, InstrumentError, SettingRefused
from instruments.instrument import Instrument
from instruments.reading import Batch, Block, ClockPair, Status
from labctl.capture.meters.acquisition import Owner, State
from tests.servers.mqtt_server import PASSWORD, USER, Mosquitto, mosquitto
from tests.waiting import until

pytestmark = pytest.mark.skipif(mosquitto() is None, reason="no mosquitto on PATH or in /usr/sbin")

TOPIC = "tele/plug 1/SENSOR"
WITHIN_S = 20.0


def plug(server: Mosquitto, **changes: Any) -> Instrument:
    settings = {
        "host": "127.0.0.1",
        "port": server.port,
        "topic": TOPIC,
        "path": "ENERGY.Power",
        "quantity": "power",
        "interval_s": 0.1,
        "stale_after_s": 60.0,
        "accuracy_pct_of_reading": 1.0,
        "accuracy_floor": 0.5,
    }
    return drivers.create("plug", "mqtt", settings | changes, time.monotonic_ns)


def say(server: Mosquitto, payload: object, **options: Any) -> None:
    text = payload if isinstance(payload, bytes) else json.dumps(payload)
    publish.single(TOPIC, text, qos=1, hostname="127.0.0.1", port=server.port, **options)


def started(instrument: Instrument) -> Instrument:
    instrument.open()
    instrument.start()
    return instrument


def next_of(instrument: Instrument) -> Batch:
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        batch = instrument.read()
        if batch.blocks or batch.statuses:
            return batch
    raise AssertionError("nothing was read")


def test_values_at_the_time_of_their_arrival(broker: Mosquitto) -> None:
    instrument = plug(broker, factor=0.001, offset=-0.5)
    identity = instrument.open()
    assert identity.model == TOPIC
    instrument.start()
    before = time.monotonic_ns()
    say(broker, {"ENERGY": {"Power": 7500}})
    (block,) = next_of(instrument).blocks
    assert block.channel == "power" and block.values.tolist() == [7.0]
    assert before < block.t_ns[0] < time.monotonic_ns()
    assert instrument.read() == Batch()
    instrument.close()


def test_what_is_retained_is_no_reading(broker: Mosquitto) -> None:
    say(broker, {"ENERGY": {"Power": 1}}, retain=True)
    instrument = started(plug(broker))
    say(broker, {"ENERGY": {"Power": 2}}, retain=True)
    (block,) = next_of(instrument).blocks
    assert block.values.tolist() == [2.0], "told live: it counts although it is kept"
    instrument.close()


def test_nonsense_is_a_status_and_ends_nothing(broker: Mosquitto) -> None:
    instrument = started(plug(broker))
    for payload, status in (
        (b"\xff{", Status.UNREADABLE),
        ({"ENERGY": {}}, Status.UNREADABLE),
        ({"ENERGY": {"Power": None}}, Status.NO_VALUE),
        ({"ENERGY": {"Power": float("nan")}}, Status.NO_VALUE),
        ({"ENERGY": {"Power": "inf"}}, Status.NO_VALUE),
    ):
        say(broker, payload)
        (reading,) = next_of(instrument).statuses
        assert reading.status is status
        assert "ENERGY.Power" in reading.detail
    say(broker, {"ENERGY": {"Power": "12.5"}})
    assert next_of(instrument).blocks[0].values.tolist() == [12.5]
    instrument.close()


def test_a_value_that_stays_away_is_reported_once(broker: Mosquitto) -> None:
    instrument = started(plug(broker, stale_after_s=0.01))
    (reading,) = next_of(instrument).statuses
    assert reading.status is Status.NO_VALUE and "no message" in reading.detail
    assert instrument.read() == Batch() == instrument.read()
    say(broker, {"ENERGY": {"Power": 1}})
    assert next_of(instrument).blocks
    assert next_of(instrument).statuses[0].status is Status.NO_VALUE
    instrument.close()


def test_login(tmp_path: Path) -> None:
    server = Mosquitto(tmp_path / "broker", with_password=True)
    server.start()
    try:
        secret = tmp_path / "password"
        secret.write_text("wrong\n")
        instrument = plug(server, user=USER, password_file=str(secret))
        with pytest.raises(ConnectionLost, match="password_file right") as caught:
            instrument.open()
        assert "wrong" not in str(caught.value)
        instrument.close()
        secret.write_text(f"{PASSWORD}\n")
        started(instrument)
        say(server, {"ENERGY": {"Power": 3}}, auth={"username": USER, "password": PASSWORD})
        assert next_of(instrument).blocks[0].values.tolist() == [3.0]
        instrument.close()
    finally:
        server.kill()


def test_no_broker_and_one_that_goes(broker: Mosquitto) -> None:
    instrument = started(plug(broker))
    broker.kill()
    with pytest.raises(ConnectionLost, match="lost"):
        next_of(instrument)
    instrument.close()
    instrument.close()
    with pytest.raises(ConnectionLost, match="is it there"):
        instrument.open()
    instrument.close()


def test_a_certificate_file_that_is_none(broker: Mosquitto, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    instrument = plug(broker, tls=True, ca_file=str(tmp_path / "ca.pem"))
    with pytest.raises(SettingRefused, match="cannot be used"):
        instrument.open()
    with pytest.raises(InstrumentError):
        plug(broker, tls=True).open()


class Notes:
    """What an owner records."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self.events: list[str] = []

    def readings(self, instrument: str, block: Block) -> None:
        self.values += block.values.tolist()

    def clock_pairs(self, instrument: str, pairs: tuple[ClockPair, ...]) -> None:
        raise AssertionError("it has no clock of its own")

    def event(self, kind: str, t_ns: int | None = None, **data: Any) -> None:
        self.events.append(kind)

    def batch(self, instrument: str, batch: Batch) -> None:
        pass

    def state(self, instrument: str, state: State, reason: str) -> None:
        pass


def test_the_owner_connects_again(broker: Mosquitto) -> None:
    notes = Notes()
    owner = Owner("plug", plug(broker, interval_s=60.0), time.monotonic_ns, notes, attempts=3)
    owner.record_to(notes)
    owner.start()
    until(lambda: owner.state is State.READING)
    say(broker, {"ENERGY": {"Power": 1}})
    until(lambda: notes.values == [1.0])
    broker.kill()
    until(lambda: owner.state is State.LOST)
    broker.start()
    until(lambda: owner.state is State.READING)
    say(broker, {"ENERGY": {"Power": 2}})
    until(lambda: notes.values == [1.0, 2.0])
    owner.ask_to_stop()
    owner.join(WITHIN_S)
    assert notes.events == ["instrument_lost", "instrument_back"]
