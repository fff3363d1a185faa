"""Rigs of other machines as ``labctl status --broker`` shows them, from a real broker."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.screen import Screen

from labctl.cli.overnight import status
from labctl.cli.overnight.watch_screen import REMOTE_KEYS, ScreenState, remote_screen
from labctl.record.phase import Pattern, Phase, Role
from labctl.service.runs.shipping import ship
from labctl.service.status.broker_rigs import MOST_NAMES, MOST_RIGS, RemoteRigs
from labctl.sinks.follow.phase_points import started_point
from labctl.sinks.mqtt.messages import RigMessages
from tests.forked_labctl import labctl
from tests.json_schemas import validate
from tests.servers.influx_run import MadeRun
from tests.servers.mqtt_run import sink_of
from tests.servers.mqtt_server import Mosquitto, free_port, mosquitto

needs_broker = pytest.mark.skipif(mosquitto() is None, reason="mosquitto is not installed")


@needs_broker
async def test_a_rig_that_reported_itself_is_shown(tmp_path: Path) -> None:
    server = Mosquitto(tmp_path / "broker")
    server.start()
    try:
        run = MadeRun(tmp_path / "runs").whole()
        await ship(run.path, [sink_of(run, server, [], live=False)])
        done = labctl("status", "--broker", f"127.0.0.1:{server.port}")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("1 rig: 1 offline\nrig ") and "completed" in done.stdout
        data = json.loads(labctl("status", "--broker", f"127.0.0.1:{server.port}", "--json").stdout)
        validate("status-broker", data)
        assert data[0]["rig"] == "bench" and data[0]["state"]["plan"]
        assert (data[0]["condition"], data[0]["last_run"]["outcome"]) == ("offline", "completed")
    finally:
        server.kill()


def test_a_broker_that_is_away_is_one_message() -> None:
    done = labctl("status", "--broker", f"127.0.0.1:{free_port()}")
    assert done.returncode == 1
    assert "cannot be reached: Connection refused" in done.stderr, done.stderr
    assert "is sent" not in done.stderr, "it only listens"


@pytest.mark.parametrize("broker", ["host:99999999", "host:x", "host:²", "host:-1"])
def test_an_address_that_is_none_is_one_message(broker: str) -> None:
    done = labctl("status", "--broker", broker)
    assert done.returncode == 2 and "HOST[:PORT]" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=6,
)
_KEYS = st.sampled_from(
    ["state", "plan", "active", "index", "phases", "t_ns", "role", "pattern", "volts", "amps",
     "iops", "bytes_per_s", "celsius", "meters_ok", "block_size_bytes"]
)  # fmt: skip


@given(
    messages=st.lists(
        st.tuples(
            st.sampled_from(["state", "phase", "heartbeat", "power/a", "io/read", "temperature/x",
                             "event/e", "availability", "", "a/b/c"]),
            st.dictionaries(_KEYS, _JSON | st.just("running") | st.just(True)) | _JSON,
        ),
        max_size=8,
    )
)  # fmt: skip
def test_whatever_is_reported_the_view_can_be_made(messages: list[tuple[str, Any]]) -> None:
    rigs = RemoteRigs("labctl")
    for path, content in messages:
        rigs.take(f"labctl/bench/{path}", json.dumps(content).encode())
    for rig in rigs.rigs():
        rig.view()


def shown(rigs: RemoteRigs) -> str:
    """The picture of ``labctl watch --broker`` on a terminal of 80 by 24."""
    out = io.StringIO()
    console = Console(file=out, width=80, height=24, color_system=None)
    console.print(Screen(remote_screen(rigs, ScreenState())))
    return out.getvalue()


def test_of_many_rigs_those_that_need_somebody_are_on_the_screen() -> None:
    rigs = RemoteRigs("labctl")
    for number in range(40):
        rigs.take(f"labctl/bench-{number:02d}/availability", b"online")
        rigs.take(f"labctl/bench-{number:02d}/state", b'{"state": "running"}')
    rigs.take("labctl/bench-33/heartbeat", b'{"t_ns": 5, "meters_ok": true}')
    lines = shown(rigs).splitlines()
    assert lines[0].startswith("40 rigs: 1 in trouble, 39 running")
    assert lines[2].startswith("bench-33") and "SILENT" in lines[2]
    assert "more lines" in "".join(lines) and lines[23].strip() == REMOTE_KEYS


def test_a_rig_that_is_left_out_is_told_of(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rigs = RemoteRigs("labctl")
    for number in range(MOST_RIGS):
        rigs.take(f"labctl/bench-{number:03d}/availability", b"online")
    assert shown(rigs).startswith("200 rigs: ")
    rigs.take("labctl/one-more/state", b'{"state": "running"}')  # lost: it would be the first
    lines = shown(rigs).splitlines()
    assert lines[0].startswith("! more than 200 rigs") and lines[1].startswith("200 rigs: ")
    monkeypatch.setattr(status, "LISTEN_S", 0.0)
    listener = SimpleNamespace(rigs=rigs, close=lambda: None)
    monkeypatch.setattr(status, "listen", lambda broker, errors: listener)
    status.print_status("broker")
    assert capsys.readouterr().out.splitlines()[0] == lines[0].rstrip()
    status.print_status("broker", json_output=True)
    out, err = capsys.readouterr()
    assert len(json.loads(out)) == 200 and err == f"{lines[0].rstrip()}\n"


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("pattern", list(Pattern))
def test_a_phase_of_every_kind_can_be_shown(role: Role, pattern: Pattern) -> None:
    """Its message does not tell all that a phase has: of a cool-down not how far."""
    phase = Phase(0, role, "s", pattern, 5.0, until_celsius=40.0, purge_method="format")
    tags = {"rig": "bench", "run": "a-run", "drive": "S1"}
    messages = RigMessages("labctl", tags, "plan", 3)
    rigs = RemoteRigs("labctl")
    for message in (
        messages.availability.online,
        messages.state(5, "running", None, None),
        messages.phase(started_point(phase, 5, tags), 5, active=True),
    ):
        rigs.take(message.topic, message.payload)
    (rig,) = rigs.rigs()
    seen = rig.view().phase
    assert seen is not None and seen.label and seen.label in shown(rigs)


def test_nothing_that_is_reported_reaches_the_terminal_but_as_words_on_few_lines() -> None:
    rigs, nasty = RemoteRigs("labctl"), "\x1b]0;x\x07\x1b[2J\n\u202e" * 500
    topic = "labctl/rig%1B%5B2J%0A"
    rigs.take(f"{topic}/availability", b"online")
    for path, values in (
        ("state", {"state": "running", "plan": nasty}),
        ("power/a%1B%0A", {"volts": 12.0, "amps": 0.5}),
        ("event/e", {"title": nasty, "time": nasty}),
    ):
        rigs.take(f"{topic}/{path}", json.dumps(values).encode())
    text = shown(rigs)
    assert all(mark.isprintable() or mark == "\n" for mark in text)
    assert REMOTE_KEYS in text and "12.000 V" in text


def test_what_was_looked_at_does_not_change_and_names_are_not_kept_without_end() -> None:
    rigs = RemoteRigs("labctl")
    rigs.take("labctl/bench/power/12V", b'{"volts": 12.0}')
    (before,) = rigs.rigs()
    for number in range(10 * MOST_NAMES):
        rigs.take(f"labctl/bench/power/{number}", b'{"volts": 1.0}')
    assert list(before.power) == ["12V"]
    assert len(rigs.rigs()[0].power) == MOST_NAMES
