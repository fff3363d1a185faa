"""A run from elsewhere is data: going on with it runs no program, opens no file and connects to no
host that it names. What the rig of this machine says must be what the record says."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from labctl.capture.run.resume_agreement import LONGEST_SHOWN
from labctl.config.plan import load_plan, parse_plan
from labctl.record import journal as journals
from labctl.record.header import ChannelInfo, DriveInfo, Header
from labctl.record.layout import EVENTS_FILE, HEADER_FILE
from labctl.record.phase import Pattern, Replay
from labctl.record.timebase import Anchor
from tests.forked_labctl import labctl

ROOT = Path(__file__).parents[4]
RIG = """
name = "bench"
host = "local"
[drive]
target = "{target}"
engine = "psync"
size_bytes = "1m"
serial = "S1"
[rails.12V]
nominal_volts = 12.0
voltage = "v.voltage"
current = "i.current"
[instruments.v]
driver = "sigrok"
sigrok_driver = "demo"
quantity = "voltage"
accuracy_pct_of_reading = 1
accuracy_floor = 0.1
command = "{command}"
[instruments.i]
driver = "sigrok"
sigrok_driver = "demo"
quantity = "current"
accuracy_pct_of_reading = 1
accuracy_floor = 0.1
command = "{command}"
"""
PLAN = """
name = "plan"
idle_before_s = 0
idle_after_s = 0
[[sweeps]]
pattern = "randread"
duration_s = 1
"""


@dataclass
class Place:
    """This machine's rigs, and a run that was recorded elsewhere."""

    folder: Path
    target: Path

    @property
    def run(self) -> Path:
        return self.folder / "stranger" / "run"

    @property
    def executed(self) -> list[str]:
        """The programs that were started."""
        file = self.folder / "executed"
        return file.read_text().split() if file.exists() else []

    def program(self, name: str) -> Path:
        """A program of the stranger's, which tells that it was started."""
        file = self.folder / "stranger" / "tools" / name
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_text(f"#!/bin/sh\necho {name} >> {self.folder}/executed\nexit 1\n")
        file.chmod(0o755)
        return file

    def own(self, **changes: str) -> str:
        return RIG.format(**{"target": str(self.target), "command": "sigrok-cli", **changes})

    def keep_rig(self, text: str, name: str = "bench") -> Path:
        """A rig of this machine."""
        file = self.folder / "rigs" / f"{name}.toml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        return file

    def record(self, rig_text: str, plan_text: str = PLAN, **changes: Any) -> None:
        values: dict[str, Any] = {
            "run_id": "run",
            "rig_name": "bench",
            "plan_name": "plan",
            "rig_text": rig_text,
            "plan_text": plan_text,
            "channels": (ChannelInfo("v.voltage", "voltage", "V", interval_s=0.5),),
            "rails": (),
            "temperatures": {},
            "drive": DriveInfo(target=str(self.target)),
            "anchor": Anchor.take(),
            "versions": {},
            **changes,
        }
        if "phases" not in values:
            values["phases"] = parse_plan(plan_text, "plan").expand(1 << 20)
        assert journals.create(self.run.parent, Header(**values)) == self.run
        (self.run / EVENTS_FILE).write_text('{"t": 1, "kind": "run_started"}\n{"t": 2, "ki')

    def resume(self, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "LABCTL_HOME": str(self.folder / "home"),
            "LABCTL_RIGS": str(self.folder / "rigs"),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
        }
        return labctl(
            "run", *words, "--resume", self.run,
            cwd=cwd or self.folder, env=environment, timeout=120,
        )  # fmt: skip

    def refused(self, *words: str, cwd: Path | None = None) -> str:
        """What is said when going on with the run is refused, of which nothing was touched."""
        before = (self.run / EVENTS_FILE).read_bytes()
        done = self.resume(*words, cwd=cwd)
        assert "Traceback" not in done.stderr
        assert (done.returncode, self.executed) == (2, []), done.stderr
        assert (self.run / EVENTS_FILE).read_bytes() == before
        assert not self.target.exists()
        return done.stderr


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    target = Path("/dev/shm") / f"labctl-{os.getpid()}-{tmp_path.name}"
    yield Place(tmp_path, target)
    target.unlink(missing_ok=True)


@contextmanager
def listening() -> Iterator[tuple[int, list[str]]]:
    """A port of the loopback, and who connected to it."""
    heard: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                heard.append("connected")
                connection.close()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield server.getsockname()[1], heard
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


KNOWN = pytest.mark.parametrize("known", [True, False], ids=["a rig of its name", "no such rig"])


def keep(place: Place, known: bool) -> None:
    if known:
        place.keep_rig(place.own())


@KNOWN
def test_no_tool_of_a_record_is_run(place: Place, known: bool) -> None:
    keep(place, known)
    for name in ("fio", "nvme", "smartctl"):
        tools = place.program(name).parent
    more = f'serial = "S1"\ntools = "{tools}"'
    place.record(place.own().replace('serial = "S1"', more))
    message = place.refused()
    shown = str(tools)[: LONGEST_SHOWN - 10]  # quoted, and cut where the folder's name is long
    assert ("drive.tools" in message and shown in message) if known else "bench" in message


@KNOWN
def test_no_command_of_a_records_meter_is_run(place: Place, known: bool) -> None:
    keep(place, known)
    place.record(place.own(command=str(place.program("meter"))))
    said = place.refused()
    assert "instruments.v.command" in said if known else "bench" in said


@KNOWN
def test_no_host_of_a_record_is_connected_to(place: Place, known: bool) -> None:
    keep(place, known)
    with listening() as (port, heard):
        place.record(place.own().replace('"local"', f'"ssh://root@127.0.0.1:{port}"'))
        said = place.refused()
        assert "host" in said if known else "bench" in said
        assert heard == []


@KNOWN
def test_no_target_of_a_record_is_read_or_written(place: Place, known: bool) -> None:
    keep(place, known)
    theirs = place.folder / "precious"
    theirs.write_text("precious")
    place.record(place.own(target=str(theirs)))
    said = place.refused()
    assert "drive.target" in said if known else "bench" in said
    assert theirs.read_text() == "precious"


def test_a_records_rig_name_is_no_path(place: Place) -> None:
    """Nor is a rig in the record's own directory one of this machine, wherever one stands."""
    text = place.own(command=str(place.program("meter")))
    place.record(text, rig_name="stranger/rig")
    (place.run.parent / "rig.toml").write_text(text.replace('"bench"', '"stranger"'))
    (place.run / "rigs").mkdir()
    (place.run / "rigs" / "bench.toml").write_text(text)
    assert "stranger/rig" in place.refused()
    assert "no rig of this machine" in place.refused(cwd=place.run)


def test_of_two_rigs_of_the_name_one_must_be_named(place: Place) -> None:
    for name in ("left", "right"):
        place.keep_rig(place.own(), name)
    place.record(place.own())
    said = place.refused()
    assert "left.toml" in said and "right.toml" in said
    place.keep_rig(place.own().replace("nominal_volts = 12.0", "nominal_volts = 5.0"), "right")
    assert "nominal_volts is 12.0 there and 5.0 here" in place.refused("right")


def test_mistakes_in_the_rig_of_that_name_are_reported(place: Place) -> None:
    place.keep_rig(place.own().replace("nominal_volts", "volts"))
    place.record(place.own())
    assert "rails.12V.volts" in place.refused()


def test_with_the_same_rig_it_goes_on_wherever_that_sends_and_whatever_it_is_called(
    place: Place,
) -> None:
    """As far as to the meters of this machine, which do not exist."""
    own = place.own(command="no-such-program")
    place.record(f'{own}\n[sinks.influxdb]\nurl = "http://stranger:8086"\nbucket = "b"\n')
    file = place.keep_rig(f"# another file\n{own}", "another")
    for words in ((), (str(file),), ("another",)):
        done = place.resume(*words)
        assert (done.returncode, done.stderr.count("cannot start")) == (1, 2), done.stderr


def test_no_trace_of_a_record_is_opened(place: Place) -> None:
    """The plan that names it is said here, too, and gives the same phases."""
    place.keep_rig(place.own(command="no-such-program"))
    trace = place.folder / "trace.csv"
    theirs = place.run.parent / "theirs.csv"
    theirs.parent.mkdir()
    os.mkfifo(theirs)  # who opens it does not come back
    text = PLAN.replace('pattern = "randread"\nduration_s = 1', 'replay = "{}"\nreplay_wrap = true')
    trace.write_text((ROOT / "docs" / "examples" / "trace.csv").read_text())
    own = place.folder / "plan.toml"
    own.write_text(text.format("trace.csv"))
    phases = load_plan(str(own))[0].expand(1 << 40)
    forged = replace(phases[0], replay=replace(phases[0].replay or Replay(""), trace=str(theirs)))
    place.record(place.own(command="no-such-program"), text.format(theirs), phases=(forged,))
    assert "replays a trace" in place.refused()
    assert "sweeps[0].replay" in place.refused("bench", str(own))
    (place.run / HEADER_FILE).unlink()
    place.run.rename(place.run.with_name("before"))
    place.record(place.own(command="no-such-program"), text.format("trace.csv"), phases=(forged,))
    assert "phases[0].replay.trace" in place.refused("bench", str(own))


def test_a_plan_that_is_named_must_be_the_records(place: Place) -> None:
    own = place.own(command="no-such-program")
    place.keep_rig(own)
    place.record(own)
    plan = place.folder / "plan.toml"
    plan.write_text(PLAN.replace("duration_s = 1", "duration_s = 2"))
    said = place.refused("bench", str(plan))
    assert "sweeps[0].duration_s is 1.0 there and 2.0 here" in said
    plan.write_text(f"# the same\n{PLAN}")
    assert place.resume("bench", str(plan)).returncode == 1


def test_phases_that_the_plan_does_not_give_are_not_done(place: Place) -> None:
    own = place.own(command="no-such-program")
    place.keep_rig(own)
    (phase,) = parse_plan(PLAN, "plan").expand(1 << 20)
    place.record(own, phases=(replace(phase, pattern=Pattern.RANDWRITE, read_pct=0),))
    assert "phases[0].pattern is 'randwrite' there and 'randread' here" in place.refused()


def test_what_differs_is_shown_without_control_characters_and_short(place: Place) -> None:
    place.keep_rig(place.own())
    long = '"\\u001b[2J' + "x" * 5000 + '"'
    text = place.own().replace('"sigrok-cli"', long)
    place.record(text, rig_name="bench")
    said = place.refused()
    assert "\x1b" not in said and len(said) < 2000
