"""Commands over MQTT: what is allowed is done once and answered, everything else is refused."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiomqtt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labctl.config.find_rig import EXAMPLES
from labctl.config.rig import load_rig
from labctl.service.daemon.daemon import Daemon
from labctl.service.daemon.mqtt_commands import Commander, take_commands
from labctl.service.daemon.settings import ServiceSettings
from labctl.service.data_dir import Home
from labctl.service.queue.job import JobState
from labctl.service.queue.store import Queue
from tests.servers.mqtt_server import Mosquitto, mosquitto

ROOT = Path(__file__).parents[2]
RIG = EXAMPLES / "nvme-adapter.toml"


def allowed() -> ServiceSettings:
    return ServiceSettings(commands=True)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.make()
    return made


@pytest.fixture
def commander(home: Home) -> Commander:
    return Commander(home, {"nvme-adapter": str(RIG)}, allowed)


def say(commander: Commander, rig: str = "nvme-adapter", **values: Any) -> dict[str, Any]:
    return commander.answer(rig, json.dumps({"id": "1", **values}).encode())


def test_a_plan_that_exists_here_is_queued_cancelled_and_the_rig_paused(
    commander: Commander, home: Home
) -> None:
    (home.plans / "mine.toml").write_text(
        'name = "mine"\n[[sweeps]]\npattern = "read"\nduration_s = 5\n'
    )
    assert say(commander, id="a", do="add", plan="demo", repeat=2, tags=["x"])["jobs"] == [1, 2]
    assert say(commander, id="b", do="add", plan="mine", after="22:00")["jobs"] == [3]
    assert say(commander, id="c", do="cancel", job=1)["state"] == "cancelled"
    assert say(commander, id="d", do="pause")["paused"] is True
    listed = say(commander, id="e", do="list")
    assert listed["paused"] and [job["job"] for job in listed["jobs"]] == [2, 3]
    assert say(commander, id="f", do="resume")["paused"] is False


FILL = '[[prepare]]\nstep = "fill"\n'
LONG = 'name = "long"\n[[sweeps]]\npattern = "read"\nduration_s = {}\n'


def test_more_than_usual_is_refused_unless_the_site_allows_it(
    commander: Commander, home: Home
) -> None:
    (home.plans / "day.toml").write_text(LONG.format(25 * 3600))
    (home.plans / "hour.toml").write_text(LONG.format(3600))
    for number, (plan, repeat) in enumerate([("day", 1), ("hour", 30)]):
        reply = say(commander, id=str(number), do="add", plan=plan, repeat=repeat)
        assert not reply["ok"] and "hours (the limit is 24)" in reply["reason"]
        assert "large_commands" in reply["reason"]
    assert Queue(home).jobs() == []
    free = Commander(
        home,
        {"nvme-adapter": str(RIG)},
        lambda: ServiceSettings(commands=True, large_commands=True),
    )
    assert say(free, do="add", plan="day")["jobs"] == [1]


def test_a_fill_of_a_drive_of_unknown_size_is_refused(home: Home, tmp_path: Path) -> None:
    (home.plans / "write.toml").write_text(LONG.format(60).replace("read", "write") + FILL)
    rig = tmp_path / "rig.toml"
    lines = RIG.read_text().splitlines(keepends=True)
    rig.write_text("".join(line for line in lines if not line.startswith("size_bytes")))
    files = {"nvme-adapter": str(rig)}
    reply = say(Commander(home, files, allowed), do="add", plan="write")
    assert not reply["ok"] and "unknown size" in reply["reason"] and Queue(home).jobs() == []


def test_a_site_that_takes_no_commands_any_more_refuses_them(home: Home) -> None:
    commander = Commander(home, {"nvme-adapter": str(RIG)}, ServiceSettings)
    assert not say(commander, do="pause")["ok"]
    assert not Queue(home).is_paused("nvme-adapter")


def test_a_command_that_comes_twice_is_carried_out_once(commander: Commander, home: Home) -> None:
    first = say(commander, id="same", do="add", plan="demo")
    assert say(commander, id="same", do="add", plan="demo") == first
    after_a_restart = Commander(home, {"nvme-adapter": str(RIG)}, allowed)
    assert say(after_a_restart, id="same", do="add", plan="demo") == first
    assert len(Queue(home).jobs()) == 1


def test_a_rig_of_several_drives_takes_commands(home: Home) -> None:
    (home.plans / "day.toml").write_text(LONG.format(25 * 3600))
    (home.plans / "minute.toml").write_text(LONG.format(60))
    two = RIG.with_name("two-drives.toml")
    commander = Commander(home, {"two-drives": str(two)}, allowed)
    assert say(commander, "two-drives", id="a", do="add", plan="minute")["jobs"] == [1]
    reply = say(commander, "two-drives", id="b", do="add", plan="day")
    assert not reply["ok"] and "hours (the limit is 24)" in reply["reason"]


@pytest.mark.parametrize(
    "plan", ["../../etc/passwd", "/etc/passwd", "demo.toml; rm", "a/b", "", "x" * 100, "..", "nope"]
)
def test_no_plan_outside_the_plans_folder_can_be_named(
    commander: Commander, home: Home, plan: str
) -> None:
    reply = say(commander, do="add", plan=plan)
    assert not reply["ok"] and Queue(home).jobs() == []
    assert "root:" not in reply["reason"]


def test_only_jobs_of_its_own_rig_can_be_cancelled(commander: Commander, home: Home) -> None:
    say(commander, id="a", do="add", plan="demo")
    files = {"sata-12v-5v": str(EXAMPLES / "sata-12v-5v.toml")}
    other = Commander(home, files, allowed)
    reply = say(other, "sata-12v-5v", id="b", do="cancel", job=1)
    assert not reply["ok"] and Queue(home).job(1).state is JobState.QUEUED
    assert not say(commander, "elsewhere", id="c", do="pause")["ok"]


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300))
def test_bytes_of_any_kind_get_a_refusal(commander: Commander, data: bytes) -> None:
    assert commander.answer("nvme-adapter", data)["ok"] is False


_VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=20)
    | st.floats()
    | st.lists(st.text(max_size=5), max_size=3)
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=st.dictionaries(
        st.sampled_from(
            ["id", "do", "plan", "repeat", "after", "tags", "job", "retries", "rig_file"]
        ),
        _VALUES | st.sampled_from(["cancel", "pause", "list", "demo", "1"]),
    )
)
def test_objects_of_any_shape_are_answered_and_can_be_sent(
    commander: Commander, values: dict[str, Any]
) -> None:
    reply = commander.answer("nvme-adapter", json.dumps(values).encode())
    assert isinstance(reply["ok"], bool)
    assert json.loads(json.dumps(reply, allow_nan=False)) == reply


def test_a_wrong_command_is_refused_under_its_own_id_when_that_can_be_read(
    commander: Commander,
) -> None:
    assert say(commander, id="mine", do="add", plan="../x")["id"] == "mine"
    assert say(commander, id="mine", do="reboot")["id"] == "mine"
    for wrong in ("a b", 5, None, ["x"], {"id": "x"}):
        assert say(commander, id=wrong, do="list")["id"] is None
    assert commander.answer("nvme-adapter", b'["id"]')["id"] is None


def test_a_large_or_deep_payload_is_refused(commander: Commander) -> None:
    assert "larger" in commander.answer("nvme-adapter", b"[" * 100_000)["reason"]
    assert commander.answer("nvme-adapter", b"[" * 4_000)["ok"] is False


@pytest.mark.skipif(mosquitto() is None, reason="mosquitto is not installed")
async def test_over_a_real_broker_commands_are_answered_also_after_it_was_away(
    home: Home, tmp_path: Path
) -> None:
    server = Mosquitto(tmp_path / "broker")
    server.start()
    rig_file = tmp_path / "rig.toml"
    rig_file.write_text(
        f'{RIG.read_text()}\n[sinks.mqtt]\nhost = "127.0.0.1"\nport = {server.port}\n'
    )
    reported: list[str] = []
    daemon = Daemon(
        home,
        [load_rig(rig_file)],
        home.runs,
        ServiceSettings(commands=True, large_commands=True),
        reported.append,
    )
    listening = asyncio.create_task(take_commands(daemon))
    try:
        for round_ in range(2):
            replies = await _ask(
                server,
                [
                    {"id": f"{round_}-add", "do": "add", "plan": "demo"},
                    {"id": f"{round_}-bad", "do": "add", "plan": "../x"},
                ],
            )
            assert [reply["ok"] for reply in replies] == [True, False]
            server.kill()
            server.start()
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        server.kill()
    assert len(Queue(home).jobs()) == 2


async def _ask(server: Mosquitto, commands: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Say each command, again and again until it is answered."""
    replies: list[dict[str, Any]] = []
    async with asyncio.timeout(60), aiomqtt.Client("127.0.0.1", server.port) as client:
        await client.subscribe("labctl/nvme-adapter/reply", qos=1)

        async def send(command: dict[str, Any]) -> None:
            while True:
                await client.publish("labctl/nvme-adapter/command", json.dumps(command), qos=1)
                await asyncio.sleep(0.5)

        for command in commands:
            sending = asyncio.create_task(send(command))
            async for message in client.messages:
                assert isinstance(message.payload, bytes)
                reply = json.loads(message.payload)
                if reply["id"] == command["id"]:
                    replies.append(reply)
                    break
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
    return replies


async def test_without_permission_no_broker_is_asked_until_settings_are_read_again(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labctl.service.daemon.mqtt_commands.SETTINGS_EVERY_S", 0.01)
    reported: list[str] = []
    daemon = Daemon(home, [load_rig(RIG)], home.runs, ServiceSettings(), reported.append)
    listening = asyncio.create_task(take_commands(daemon))
    await asyncio.sleep(0.1)
    assert reported == [] and not listening.done()
    daemon.settings = ServiceSettings(commands=True)
    async with asyncio.timeout(30):
        await listening  # the rig names no broker: that is told, and there is nothing to hear
    assert "no commands over MQTT" in reported[0]
