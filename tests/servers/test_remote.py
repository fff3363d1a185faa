"""Rigs of other machines as ``labctl status --broker`` shows them, from a real broker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labctl.service.remote import RemoteRigs
from labctl.service.shipping import ship
from tests.servers.influx_run import MadeRun
from tests.servers.mqtt_run import sink_of
from tests.servers.mqtt_server import Mosquitto, free_port, mosquitto

needs_broker = pytest.mark.skipif(mosquitto() is None, reason="mosquitto is not installed")


def status(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "labctl.cli.main", "status", *words],
        capture_output=True, text=True, timeout=60, check=False, env=dict(os.environ),
    )  # fmt: skip


@needs_broker
async def test_a_rig_that_told_of_itself_is_shown(tmp_path: Path) -> None:
    server = Mosquitto(tmp_path / "broker")
    server.start()
    try:
        run = MadeRun(tmp_path / "runs").whole()
        await ship(run.path, [sink_of(run, server, [], live=False)])
        done = status("--broker", f"127.0.0.1:{server.port}")
        assert done.returncode == 0 and "bench: " in done.stdout, done.stderr
        data = json.loads(status("--broker", f"127.0.0.1:{server.port}", "--json").stdout)
        assert data[0]["rig"] == "bench" and data[0]["state"]["plan"]
    finally:
        server.kill()


def test_a_broker_that_is_away_is_one_message() -> None:
    done = status("--broker", f"127.0.0.1:{free_port()}")
    assert done.returncode == 1
    assert "cannot be reached" in done.stderr and "Traceback" not in done.stderr


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
def test_whatever_is_told_the_view_can_be_made(messages: list[tuple[str, Any]]) -> None:
    rigs = RemoteRigs("labctl")
    for path, content in messages:
        rigs.heard(f"labctl/bench/{path}", json.dumps(content).encode())
    for rig in rigs.rigs():
        rig.view()
