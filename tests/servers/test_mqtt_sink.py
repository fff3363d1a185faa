"""What a real Mosquitto receives of a run."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from pathlib import Path

import pytest

from labctl.cli.servers.mqtt import forget_rig
from labctl.config.site import SITE_VARIABLE
from labctl.errors import ConfigurationError
from labctl.printable import printable
from labctl.record.events import Event
from labctl.record.header import DriveInfo, RailInfo
from labctl.record.reader import RunRecord
from labctl.service.runs.shipping import ship
from labctl.sinks.mqtt.retained_topics import forget
from labctl.sinks.mqtt.sink import MqttSink
from labctl.sinks.mqtt.topics import level
from tests.json_schemas import validate
from tests.servers.influx_run import MadeRun, S
from tests.servers.mqtt_run import (
    LIMIT_S,
    QUICK,
    Grown,
    events_of,
    settings_of,
    sink_of,
)
from tests.servers.mqtt_server import Listener, Mosquitto, mosquitto, retained
from tests.unit.several_drives import several

pytestmark = pytest.mark.skipif(mosquitto() is None, reason="no mosquitto on PATH or in /usr/sbin")


async def test_each_of_several_drives_is_reported_below_its_name(
    broker: Mosquitto, tmp_path: Path
) -> None:
    path, over = several(tmp_path).path, asyncio.Event()
    over.set()
    sink = MqttSink(path, settings_of(broker), lambda _: None, live=True, pace=QUICK)
    async with asyncio.timeout(LIMIT_S), Listener(broker) as listener:
        await ship(path, [sink], over=over)
        for kind in ("drive/left/io/read", "drive/right/io/read", "io/read"):
            await listener.until_reported(f"labctl/bench/{kind}")
        base = "labctl/bench/drive"
        await listener.until(lambda: len(listener.objects_on(f"{base}/right/result")) >= 3)
        left = {one["index"]: one for one in listener.objects_on(f"{base}/left/result")}
        right = {one["index"]: one for one in listener.objects_on(f"{base}/right/result")}
        whole = {one["index"]: one for one in listener.objects_on("labctl/bench/result")}
        last = {name: json.loads(text) for name, text in listener.last().items() if b"{" in text}
    assert (left[2]["iops"], right[2]["iops"], whole[2]["iops"]) == (2000, 8000, 10000)
    assert (right[2]["name"], right[2]["drive"]) == ("right", "S-right")
    assert left[2]["watts"] + right[2]["watts"] == pytest.approx(whole[2]["watts"])
    assert len({left[2]["id"], right[2]["id"], whole[2]["id"]}) == 3
    assert last[f"{base}/right/io/read"]["iops"] == 8000
    assert last["labctl/bench/power/3V3"]["drive"] == "S-right", "whose rail it is"


async def test_a_run_as_it_is_followed(broker: Mosquitto, tmp_path: Path) -> None:
    run = MadeRun(tmp_path)
    reported: list[str] = []
    async with asyncio.timeout(LIMIT_S), Listener(broker) as listener:
        async with Grown(run, sink_of(run, broker, reported)):
            run.grow(4.0)
            await listener.until_reported("labctl/bench/power/12V")
            await listener.until_reported("labctl/bench/heartbeat")
            now = await retained(broker)
            assert now["labctl/bench/availability"] == b"online"
            state = json.loads(now["labctl/bench/state"])
            assert (state["state"], state["rig"], state["run"]) == ("running", "bench", run.run_id)
            assert "labctl/bench/last_run" not in now, "it is not over"
            phase = json.loads(now["labctl/bench/phase"])
            assert (phase["active"], phase["index"], phase["phases"]) == (True, 0, 2)
            assert "labctl/bench/power/12V" not in now, "a live value is nothing for later"
        for kind in ("power/12V", "power/3V3", "temperature/composite", "io/read"):
            await listener.until_reported(f"labctl/bench/{kind}")
        await listener.until_ids(events_of(run))
        await listener.until(
            lambda: (
                {result["index"] for result in listener.objects_on("labctl/bench/result")} == {0, 1}
            )
        )
        last = {name: json.loads(text) for name, text in listener.last().items() if b"{" in text}
    after = await retained(broker)
    assert after["labctl/bench/availability"] == b"offline"
    state = json.loads(after["labctl/bench/state"])
    assert (state["state"], state["outcome"]) == ("idle", "completed")
    last_run = json.loads(after["labctl/bench/last_run"])
    assert (last_run["run"], last_run["outcome"]) == (run.run_id, "completed")
    assert json.loads(after["labctl/bench/phase"])["active"] is False
    power = last["labctl/bench/power/12V"]
    assert power["watts"] == pytest.approx(12 * 0.5, rel=0.2)
    assert power["watts_min"] <= power["watts"] <= power["watts_max"]
    assert last["labctl/bench/temperature/composite"]["celsius"] == pytest.approx(50, rel=0.3)
    assert last["labctl/bench/io/read"]["iops"] == pytest.approx(1e5, rel=0.3)
    results = {result["index"]: result for result in listener.objects_on("labctl/bench/result")}
    assert results[1]["queue_depth"] == 32 and results[1]["watts_12V"] > 0
    ids = listener.ids
    assert len(ids) == events_of(run) and set(ids.values()) == {1}
    assert reported == []


async def test_an_old_run_does_not_speak_for_the_rig(broker: Mosquitto, tmp_path: Path) -> None:
    old = MadeRun(tmp_path, run_id="old").whole()
    now = MadeRun(tmp_path, run_id="now", epoch_ns=old.epoch_ns + 3600 * S)
    async with (
        asyncio.timeout(LIMIT_S),
        Listener(broker) as listener,
        Grown(now, sink_of(now, broker, [])),
    ):
        now.grow(4.0)
        await listener.until_reported("labctl/bench/heartbeat")
        await listener.until_ids(events_of(now))
        await ship(old.path, [sink_of(old, broker, [], live=False)])
        await listener.until_ids(events_of(now) + events_of(old))
        reported = await retained(broker)
        assert json.loads(reported["labctl/bench/state"])["run"] == "now"
        assert reported["labctl/bench/availability"] == b"online"


async def test_a_record_of_an_idle_rig_is_no_run(broker: Mosquitto, tmp_path: Path) -> None:
    """What came of the last run stays known while the meters are recorded without one."""
    run = MadeRun(tmp_path, run_id="a-run").whole()
    idle = MadeRun(tmp_path, run_id="a_idle", epoch_ns=run.epoch_ns + 60 * S, phases=())
    async with asyncio.timeout(LIMIT_S), Listener(broker) as listener:
        await ship(run.path, [sink_of(run, broker, [], live=False)])
        async with Grown(idle, sink_of(idle, broker, [])):
            idle.grow(4.0)
            await listener.until_reported("labctl/bench/heartbeat")
        await ship(idle.path, [sink_of(idle, broker, [], live=False)])
        await listener.until_ids(events_of(run) + events_of(idle))
        states = listener.objects_on("labctl/bench/state")
    assert {one["state"] for one in states if one["run"] == "a_idle"} == {"idle"}
    last_run = json.loads((await retained(broker))["labctl/bench/last_run"])
    assert (last_run["run"], last_run["outcome"]) == ("a-run", "completed")


async def test_a_run_sent_late_says_how_it_ended_unless_a_later_one_did(
    broker: Mosquitto, tmp_path: Path
) -> None:
    first = MadeRun(tmp_path, run_id="first").whole()
    second = MadeRun(tmp_path, run_id="second", epoch_ns=first.epoch_ns + 3600 * S).whole()
    for run in (second, first):
        await ship(run.path, [sink_of(run, broker, [], live=False)])
    last_run = json.loads((await retained(broker))["labctl/bench/last_run"])
    assert last_run["run"] == "second"


async def test_who_else_goes_offline_does_not_take_this_one_along(
    broker: Mosquitto, tmp_path: Path
) -> None:
    one, other = MadeRun(tmp_path, run_id="one"), MadeRun(tmp_path, run_id="other")
    async with (
        asyncio.timeout(LIMIT_S),
        Listener(broker) as listener,
        Grown(one, sink_of(one, broker, [])),
    ):
        await listener.until_reported("labctl/bench/heartbeat")
        async with Grown(other, sink_of(other, broker, [])):
            pass
        topic = "labctl/bench/availability"
        await listener.until(lambda: (topic, b"offline", False) in listener.received)
        await listener.until(lambda: listener.last()[topic] == b"online")
    assert (await retained(broker))["labctl/bench/availability"] == b"offline"


async def test_everything_twice_has_the_same_ids(broker: Mosquitto, tmp_path: Path) -> None:
    events = tuple((3.0, "note", {"text": text}) for text in ("one", "two"))
    run = MadeRun(tmp_path, more_events=events).whole()
    async with asyncio.timeout(LIMIT_S), Listener(broker) as listener:
        await ship(run.path, [sink_of(run, broker, [], live=False)])
        again = MqttSink(
            run.path, settings_of(broker), [].append, live=False, from_start=True, pace=QUICK
        )
        (shipped,) = await ship(run.path, [again])
        await listener.until(lambda: sum(listener.ids.values()) == 2 * events_of(run))
        (third,) = await ship(run.path, [sink_of(run, broker, [], live=False)])
    assert set(listener.ids.values()) == {2}
    assert len(listener.ids) == events_of(run)
    assert shipped.report.sent > 0 and third.report.sent == 0


NASTY = (
    "two words",
    "a/b/c",
    "+",
    "#",
    "$SYS",
    "ünï 漢字 🙂",
    "new\nline",
    "",
    " ",
    "\udc80",
    "%2F",
)


async def test_names_of_any_kind(broker: Mosquitto, tmp_path: Path) -> None:
    assert len({level(name) for name in NASTY}) == len(NASTY)
    for number, name in enumerate(NASTY):
        text = printable(name)  # as a record is read
        run = MadeRun(
            tmp_path,
            seconds=4.0,
            rig=text,
            run_id=f"run{number}",
            drive=DriveInfo(model=text),
            rails=(RailInfo(text, 12.0, "v12.voltage", "i12.voltage"),),
            more_events=((1.0, name, {"text": name * 10_000, "instrument": name}),),
        )
        async with asyncio.timeout(LIMIT_S), Listener(broker) as listener:
            sink = sink_of(run, broker, [], home_assistant=True)
            async with Grown(run, sink):
                run.grow(2.0)
                base = f"labctl/{level(text)}"
                await listener.until_reported(f"{base}/power/{level(text)}")
            mine = {name for name, _, _ in listener.received if name.startswith(f"{base}/")}
            assert all(topic.count("/") <= 3 for topic in mine)
            await listener.until_reported(f"{base}/event/{level(text)}")
            await listener.until_reported(f"{base}/state")
            (event,) = listener.objects_on(f"{base}/event/{level(text)}")
            assert event["kind"] == text and len(event["text"].encode()) <= 4_096
            assert listener.objects_on(f"{base}/state")[-1]["rig"] == text


async def test_values_that_are_no_numbers(broker: Mosquitto, tmp_path: Path) -> None:
    run = MadeRun(tmp_path)
    for name in ("v12.voltage", "drive.composite"):
        run.data[name]["readings"]["v"][:] = float("nan")
    async with asyncio.timeout(LIMIT_S), Listener(broker) as listener:
        run.whole()
        await ship(run.path, [sink_of(run, broker, [])], over=asyncio.Event())
        await listener.until_reported("labctl/bench/power/12V")
        await listener.until_ids(events_of(run))
    for text in [text for _, text, _ in listener.received if b"{" in text]:
        json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert "watts" not in listener.objects_on("labctl/bench/power/12V")[-1]


async def test_home_assistant_learns_of_the_rig_and_forgets_it(
    broker: Mosquitto, tmp_path: Path
) -> None:
    run = MadeRun(tmp_path)
    async with asyncio.timeout(LIMIT_S), Listener(broker) as listener:
        async with Grown(run, sink_of(run, broker, [], home_assistant=True)):
            run.grow(4.0)
            for kind in ("power/12V", "power/3V3", "temperature/composite", "heartbeat", "phase"):
                await listener.until_reported(f"labctl/bench/{kind}")
            announced = await retained(broker, "homeassistant/#")
        kinds = Counter(topic.split("/")[1] for topic in announced)
        assert kinds == {"sensor": 2 * 3 + 1 + 3, "binary_sensor": 1}
        last = listener.last()
        for topic, text in announced.items():
            entity = json.loads(text)
            assert topic.split("/")[3] in entity["unique_id"]
            assert entity["availability_topic"] == "labctl/bench/availability"
            assert entity["state_topic"] in last, topic
            assert entity["device"]["identifiers"] == ["labctl_bench"]
        watts = json.loads(announced["homeassistant/sensor/labctl_bench/12V_watts/config"])
        assert (watts["device_class"], watts["unit_of_measurement"]) == ("power", "W")
        assert watts["value_template"] == "{{ value_json.watts | default('None') }}"
        assert "watts" in json.loads(last[watts["state_topic"]])
        kept = await retained(broker, "#")
        assert kept.keys() > announced.keys()
        assert await forget(settings_of(broker), "another") == 0
        assert await forget(settings_of(broker), "bench") == len(kept)
        assert await retained(broker, "#") == {}


async def test_the_command_forgets_a_rig_that_has_no_file(
    broker: Mosquitto,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = MadeRun(tmp_path, rig="gone, long ago").whole()
    (tmp_path / "site.toml").write_text(f'[sinks.mqtt]\nhost = "127.0.0.1"\nport = {broker.port}\n')
    monkeypatch.setenv(SITE_VARIABLE, str(tmp_path / "site.toml"))
    async with asyncio.timeout(LIMIT_S):
        await ship(run.path, [sink_of(run, broker, [], live=False)])
        kept = await retained(broker, "#")
        assert kept
        await asyncio.to_thread(forget_rig, "gone, long ago", json_output=True)
        assert await retained(broker, "#") == {}
    reported = json.loads(capsys.readouterr().out)
    validate("mqtt-forget", reported)
    assert reported["forgotten"] == len(kept)


def test_the_command_without_a_broker_says_what_to_write() -> None:
    with pytest.raises(ConfigurationError, match=r"sinks\.mqtt"):
        forget_rig("bench", json_output=False)


def test_events_without_a_date_are_reported(tmp_path: Path) -> None:
    """A time that no calendar has must not stop what comes after it."""
    from labctl.sinks.follow.event_points import event_point
    from labctl.sinks.mqtt.messages import RigMessages

    messages = RigMessages.of_run("labctl", RunRecord(MadeRun(tmp_path).path).header)
    message = messages.event(event_point(Event(10**40, "note", {}), {}, {}))
    assert json.loads(message.payload)["t_ns"] == 10**40
    assert "time" not in json.loads(message.payload)
    assert os.fspath(tmp_path) not in message.topic
