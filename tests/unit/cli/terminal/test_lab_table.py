"""All rigs of a lab as ``labctl status --broker`` prints them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from labctl.cli.terminal.jobs_table import WIDTH
from labctl.cli.terminal.lab_table import lab_lines
from labctl.printable import printable
from labctl.service.status.broker_rigs import RemoteRigs
from labctl.service.status.condition import Condition, condition_of
from labctl.sinks.mqtt.topics import base_topic

NOW = 1_790_000_000_000_000_000
MINUTE = 60_000_000_000
RUNNING = {"state": "running", "plan": "power-per-qd"}
IDLE = {"state": "idle", "plan": "power-per-qd"}


def tell(rigs: RemoteRigs, name: str, online: bool = True, **topics: dict[str, Any]) -> None:
    base = base_topic("labctl", name)
    rigs.take(f"{base}/availability", b"online" if online else b"offline")
    for kind, values in topics.items():
        rigs.take(f"{base}/{kind}", json.dumps({"t_ns": NOW, **values}).encode())


def heartbeat(**values: Any) -> dict[str, Any]:
    return {"meters_ok": True, "watts": 8.1234, "celsius": 41.3, "queue_length": 0, **values}


def troubled_lab() -> RemoteRigs:
    rigs = RemoteRigs("labctl")
    phase = {"index": 13, "phases": 100, "active": True}
    for number in range(1, 35):
        done = heartbeat(result_text="QD16 ▼ 8.123 ± 0.034 W", queue_length=number % 2)
        tell(rigs, f"bench-{number:02d}", state=RUNNING, heartbeat=done, phase=phase)
    tell(rigs, "z-lost", online=False, state=RUNNING, heartbeat=heartbeat(t_ns=NOW - 9 * MINUTE))
    tell(rigs, "z-hung", state=RUNNING, heartbeat=heartbeat(t_ns=NOW - MINUTE))
    failed = {"outcome": "failed", "reason": "fio ended with 1: " + 200 * "x"}
    tell(rigs, "z-fell", state=IDLE, last_run=failed, heartbeat=heartbeat())
    tell(rigs, "z-blind", state=RUNNING, heartbeat=heartbeat(meters_ok=False))
    done = {"outcome": "completed", "t_ns": NOW - 9 * MINUTE}
    tell(rigs, "a-idle", state=IDLE, last_run=done, heartbeat=heartbeat(watts=1.02))
    tell(rigs, "a-off", online=False, state=IDLE, last_run=done, heartbeat=heartbeat())
    return rigs


def test_who_needs_somebody_is_first_and_says_why() -> None:
    lines = list(lab_lines(troubled_lab().rigs(), NOW))
    assert lines[0] == "40 rigs: 4 in trouble, 34 running, 1 idle, 1 offline; 17 jobs wait"
    assert lines[1].split() == ["rig", "state", "run", "wait", "W", "°C", "last", "result"]
    words = [line.split()[:2] for line in lines[2:10:2]]
    assert words == [
        *(["z-lost", "LOST"], ["z-hung", "SILENT"], ["z-fell", "FAILED"], ["z-blind", "NO"]),
    ]
    whys = lines[3:10:2]
    assert "while a run was on" in whys[0] and "no heartbeat since" in whys[1]
    assert whys[2].startswith("  fio ended with 1: xxx") and whys[2].endswith("…")
    assert whys[3] == "  a meter gives no readings"
    assert lines[10].split()[:4] == ["bench-01", "running", "power-per-…", "14/100"]
    assert lines[10].endswith("1 8.123 41 QD16 ▼ 8.123 ± 0.034 W")
    assert "completed" in lines[-2] and lines[-2].split()[:3] == ["a-idle", "idle", "1.020"]
    assert lines[-1].split()[:4] == ["a-off", "offline", "–", "–"], "its watts are of the past"
    assert all(cell_len(line) <= WIDTH for line in lines)


def test_a_rig_whose_clock_is_wrong_is_not_silent_while_its_values_come() -> None:
    rigs = RemoteRigs("labctl")
    tell(rigs, "bench", state=RUNNING, heartbeat=heartbeat(t_ns=NOW - 60 * MINUTE))
    assert condition_of(rigs.rigs()[0], NOW).condition is Condition.SILENT
    tell(rigs, "bench", **{"power/12V": {"watts": 8.0}})
    assert condition_of(rigs.rigs()[0], NOW).condition is Condition.RUNNING


def test_rigs_of_an_older_labctl_are_told_by_their_state() -> None:
    rigs = RemoteRigs("labctl")
    state = {**IDLE, "outcome": "aborted", "reason": "limit passed: 85 °C"}
    tell(rigs, "bench", state=state, heartbeat={"meters_ok": True})
    lines = list(lab_lines(rigs.rigs(), NOW))
    assert lines[0] == "1 rig: 1 in trouble" and lines[3] == "  limit passed: 85 °C"
    assert lines[2].split()[:4] == ["bench", "ABORTED", "–", "–"]


def test_names_that_differ_at_their_end_still_do() -> None:
    rigs = RemoteRigs("labctl")
    names = [f"laboratory-2-rack-07-adapter-{side}" for side in ("left", "right")]
    for name in (*names, "測定台の上の長い名前のリグ七"):
        tell(rigs, name, state=RUNNING, heartbeat=heartbeat())
    shown = [line.split()[0] for line in lab_lines(rigs.rigs(), NOW)][2:]
    assert len(set(shown)) == 3 and shown[0].endswith("left") and shown[1].endswith("right")


_VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40)
_FIELDS = st.sampled_from(
    ["state", "plan", "outcome", "reason", "t_ns", "watts", "celsius", "queue_length",
     "meters_ok", "result_text", "index", "phases", "active"]
)  # fmt: skip


@given(
    name=st.text(max_size=40),
    topics=st.dictionaries(
        st.sampled_from(["state", "last_run", "heartbeat", "phase"]),
        st.dictionaries(_FIELDS, _VALUES | st.sampled_from(["running", "failed"])),
    ),
    online=st.booleans(),
)
def test_whatever_a_broker_says_becomes_lines_of_the_terminals_width(
    name: str, topics: dict[str, dict[str, Any]], online: bool
) -> None:
    rigs = RemoteRigs("labctl")
    tell(rigs, name, online, **topics)
    for line in lab_lines(rigs.rigs(), NOW):
        assert cell_len(line) <= WIDTH and printable(line) == line
