"""``labctl read`` and ``labctl instruments`` against simulated meters, as a person calls them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import struct
import sys
import termios
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from instruments.simulated.bench import MetersProcess
from instruments.simulated.meter_kit.config import MeterConfig, MetersConfig
from labctl.cli.meters.read import shown
from labctl.cli.terminal.sparkline import sparkline
from tests.bench.running_meters import TraceThread
from tests.forked_labctl import labctl
from tests.json_schemas import validate

LABCTL = (sys.executable, "-m", "labctl.cli.main")
METERS = (
    MeterConfig(
        name="v12",
        kind="sdm3065x",
        point="12V.voltage",
        settings={
            "model": "SDM3065X",
            "function": "voltage",
            "range": 20.0,
            "nplc": 1.0,
            "interval_s": 0.1,
        },
    ),
    MeterConfig(
        name="i12",
        kind="ut61e",
        point="12V.current",
        settings={"function": "current", "range": 10.0},
    ),
    MeterConfig(name="case", kind="k204", point="case", settings={"sensors": ["t1"]}),
)
DRIVER = {"v12": "scpi_dmm", "i12": "es51922", "case": "k204"}
RIG = """
name = "wall"
[drive]
engine = "psync"
target = "{target}"
size_bytes = 1048576
[rails.12V]
nominal_volts = 12.0
voltage = "v12.voltage"
current = "i12.current"
[temperatures]
case = "case.t1"
"""


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("wall")
    trace = TraceThread(directory / "trace")
    time.sleep(0.01)
    trace.advance()
    trace.start()
    meters = MetersProcess(directory, MetersConfig(seed=5, meters=METERS))
    text = RIG.format(target=directory / "scratch")
    for meter in METERS:
        values = {"driver": DRIVER[meter.name], **meters.addresses[meter.name], **meter.settings}
        text += f"[instruments.{meter.name}]\n"
        text += "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
    path = directory / "rig.toml"
    path.write_text(text)
    yield path
    meters.stop()
    trace.over.set()
    trace.join()


def port_of(rig: Path, name: str, key: str = "port") -> str:
    section = rig.read_text().split(f"[instruments.{name}]")[1]
    match = re.search(rf'{key} = "([^"]+)"', section)
    assert match is not None
    return match[1]


def test_json_lines_for_a_program(rig: Path) -> None:
    done = labctl("read", str(rig), "--seconds", "3", "--json")
    assert done.returncode == 0, done.stderr
    samples = [json.loads(line) for line in done.stdout.splitlines()]
    for sample in samples:
        validate("read", sample)
    values = {sample["channel"]: sample for sample in samples if sample["value"] is not None}
    assert set(values) == {"v12.voltage", "i12.current", "case.t1"}
    assert values["v12.voltage"]["value"] == pytest.approx(12.05, abs=0.02)
    assert values["v12.voltage"]["unit"] == "V"
    assert values["case.t1"]["value"] == pytest.approx(38.4, abs=4)


def test_plain_lines_without_a_terminal(rig: Path) -> None:
    done = labctl("read", str(rig), "--seconds", "2.5", "--every", "0.5")
    assert re.search(r"^\d\d:\d\d:\d\d  v12\.voltage +12\.0\d+ V$", done.stdout, re.M)
    assert "\x1b" not in done.stdout


def test_a_wall_on_a_terminal_of_80_columns_ends_with_ctrl_c(rig: Path) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm", COLUMNS="80", LINES="24")
        os.execv(sys.executable, [*LABCTL, "read", str(rig), "--every", "0.5"])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    seen = b""
    end = time.monotonic() + 20
    try:
        while not all(word.encode() in seen for word in ("▁", "°C", " V ", "A ")):
            assert time.monotonic() < end, seen
            seen += os.read(terminal, 4096)
    finally:
        os.kill(pid, signal.SIGINT)
    with contextlib.suppress(OSError):  # how a terminal ends
        while more := os.read(terminal, 4096):
            seen += more
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, seen[-2000:]
    upwards = re.sub(r"\x1b\[[0-9]*A", "\n", seen.decode(errors="replace"))
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", upwards)
    lines = [line.rstrip() for line in plain.replace("\r", "\n").split("\n")]
    assert [line for line in lines if len(line) > 80] == []


def test_a_meter_that_is_not_there_is_named(rig: Path, tmp_path: Path) -> None:
    broken = tmp_path / "rig.toml"
    broken.write_text(rig.read_text().replace(port_of(rig, "i12"), "/dev/not-there"))
    done = labctl("read", str(broken), "--seconds", "2.5", "--json")
    assert done.returncode == 1
    last = [json.loads(line) for line in done.stdout.splitlines()][-3:]
    states = {sample["channel"]: sample["state"] for sample in last}
    assert states == {"v12.voltage": "reading", "i12.current": "lost", "case.t1": "reading"}, (
        done.stderr
    )
    assert "/dev/not-there" in done.stderr


def test_who_is_at_an_address_and_the_lines_for_a_rig(rig: Path) -> None:
    serial, logger = port_of(rig, "i12"), port_of(rig, "case")
    resource = port_of(rig, "v12", "resource")
    done = labctl("instruments", serial, logger, resource, "--json")
    assert done.returncode == 0, done.stderr
    validate("instruments", json.loads(done.stdout))
    asked = {item["address"]: item for item in json.loads(done.stdout)["asked"]}
    assert asked[serial]["driver"] == "es51922"
    assert asked[serial]["rig"][:3] == [
        "[instruments.meter1]",
        'driver = "es51922"',
        f'port = "{serial}"',
    ]
    assert '# function = "voltage" or "current"' in asked[serial]["rig"]
    assert asked[logger]["driver"] == "k204"
    assert asked[resource]["driver"] == "scpi_dmm"
    assert 'model = "SDM3065X"' in asked[resource]["rig"]


def test_listing_sends_nothing(rig: Path) -> None:
    done = labctl("instruments", "--json")
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout)
    assert listed["asked"] == []
    assert isinstance(listed["connected"], list)


def test_nobody_answers(tmp_path: Path) -> None:
    done = labctl("instruments", str(tmp_path / "no-port"))
    assert done.returncode == 1
    assert "is it plugged in" in done.stdout


@pytest.mark.parametrize(("name", "value"), [("v12", 12.05), ("case", 38.4)])
def test_a_session_is_recorded_and_played(
    rig: Path, tmp_path: Path, name: str, value: float
) -> None:
    file = tmp_path / "it.session"
    done = labctl("record-session", str(rig), name, "--seconds", "2.5", "--to", str(file))
    assert done.returncode == 0, done.stderr
    match = re.search(r": (\d+) readings", done.stdout)
    assert match is not None
    done = labctl("play-session", str(file), "--json")
    assert done.returncode == 0, done.stderr
    played = [json.loads(line) for line in done.stdout.splitlines()]  # a busy host is reported, too
    readings = [reading["value"] for reading in played if "value" in reading]
    assert len(readings) == int(match[1]) > 0
    assert readings == pytest.approx([value] * len(readings), abs=4)


def test_values_and_sparklines() -> None:
    assert shown(12.0483, "V") == "12.0483 V"
    assert shown(0.250012, "A") == "250.012 mA"
    assert shown(-3.2e-6, "V") == "-3.20000 µV"
    assert shown(0.0, "A") == "0 A"
    assert shown(38.4, "°C") == "38.4 °C"
    assert sparkline([]) == ""
    assert sparkline([2.0, 2.0]) == "▁▁"
    assert sparkline([0.0, 0.5, 1.0]) == "▁▅█"


def meters_of(rig: str) -> list[dict[str, Any]]:
    """The settings of a rig's two meters, that of its volts first."""
    read = tomllib.loads(rig)
    (rail,) = read["rails"].values()
    channels = rail["voltage"], rail["current"]
    names = [one["channel"] if isinstance(one, dict) else one for one in channels]
    return [read["instruments"][name.partition(".")[0]] for name in names]


def test_a_rig_is_made_of_what_is_connected_and_check_accepts_it(rig: Path, tmp_path: Path) -> None:
    volts, amps = port_of(rig, "v12", "resource"), port_of(rig, "i12")
    words = ["--drive", str(tmp_path / "scratch"), "--size", "1m"]
    one = f"12V,volts={volts},amps={amps}"
    done = labctl("init", "mine", *words, "--rail", one, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    text = (tmp_path / "rigs" / "mine.toml").read_text()
    of_volts, of_amps = meters_of(text)
    assert (of_volts["driver"], of_volts["model"]) == ("scpi_dmm", "SDM3065X")
    assert (of_volts["resource"], of_volts["range"]) == (volts, 20)
    assert (of_amps["driver"], of_amps["port"], of_amps["range"]) == ("es51922", amps, 10)
    assert "# volts of 12V: Siglent" in text
    assert labctl("check", "rigs/mine.toml", cwd=tmp_path).returncode == 0
    again = labctl("init", "mine", *words, "--rail", one, cwd=tmp_path)
    assert again.returncode == 2 and "is there already" in again.stderr
    shunt = f"3V3,fixed=3,amps={volts},shunt=0.1"
    done = labctl("init", "shunt", *words, "--rail", shunt, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    text = (tmp_path / "rigs" / "shunt.toml").read_text()
    of_volts, of_amps = meters_of(text)
    assert (of_volts["driver"], of_volts["tolerance_pct"]) == ("fixed_voltage", 3)
    assert of_amps["range"] in (0.6, 2)  # volts across the shunt


@pytest.mark.parametrize(
    ("words", "output"),
    [
        ((), "nobody to ask"),
        (("--rail", "12V"), "needs amps=ADDRESS"),
        (("--rail", "12V,amp=x"), "has no 'amp'"),
        (("--rail", "12V,amps={i12}"), "needs volts=ADDRESS"),
        (("--rail", "12V,amps={i12},fixed=much"), "fixed must be a number"),
        (("--rail", "main,amps={i12},fixed=1"), "needs nominal=VOLTS"),
        (("--rail", "12V,amps=/dev/none,fixed=1"), "there is no such port"),
        (("--rail", "12V,amps=TCPIP0::127.0.0.1::9::SOCKET,fixed=1"), "refused the connection"),
        (("--rail", "0V,amps={i12},fixed=1"), "needs nominal=VOLTS"),
        (("--rail", "main v,amps={i12},fixed=1,nominal=5"), "made of letters, digits"),
        (("--rail", "12V,amps={i12},fixed=0"), "fixed must be a number, more than 0"),
        (("--rail", "12V,amps={i12},fixed=1,nominal=0"), "nominal must be a number, more than 0"),
        (("--rail", "12V,amps={i12},fixed=1,nominal=-5"), "nominal must be a number, more than 0"),
        (("--rail", "12V,amps={i12},fixed=1,nominal=nan"), "nominal must be a number"),
        (("--rail", "12V,amps={i12},fixed=1,shunt=-1"), "shunt must be a number, 0 or more"),
        (("--rail", "12V,amps=/dev/none,fixed=1", "--rail", "5V"), "needs amps=ADDRESS"),
        (
            ("--rail", "12V,amps=/dev/none,fixed=1", "--rail", "12V,amps=/dev/none,fixed=1"),
            "two rails",
        ),
        (("--size", "4q", "--rail", "12V,amps=/dev/none,fixed=1"), "must be a size such as"),
        (("--size", "0", "--rail", "12V,amps=/dev/none,fixed=1"), "more than 0"),
        (("--mains-hz", "55", "--rail", "12V,amps={i12},fixed=1"), "50 or 60"),
    ],
)
def test_what_is_missing_for_a_rig_is_reported(
    rig: Path, tmp_path: Path, words: tuple[str, ...], output: str
) -> None:
    given = [word.format(i12=port_of(rig, "i12")) for word in words]
    done = labctl("init", "mine", "--drive", "/nowhere/scratch", *given, cwd=tmp_path)
    assert done.returncode == 2 and output in done.stderr, done.stderr
    assert not (tmp_path / "rigs").exists()


def test_a_rig_is_written_among_the_rigs_or_nowhere(tmp_path: Path) -> None:
    words = ("--drive", "/nowhere/scratch", "--rail", "12V,amps=/dev/none,fixed=1")
    for name in ("../x", "a/b", "my rig"):
        done = labctl("init", name, *words, cwd=tmp_path)
        assert done.returncode == 2 and "made of letters, digits" in done.stderr, done.stderr
    assert not list(tmp_path.iterdir())


def test_a_scratch_file_that_is_not_there_needs_its_size(rig: Path, tmp_path: Path) -> None:
    """No run would make it: ``doctor`` said so, where ``init`` had found no mistake."""
    one = f"12V,fixed=3,amps={port_of(rig, 'i12')}"
    words = ("--drive", tmp_path / "scratch", "--rail", one)
    done = labctl("init", "mine", *map(str, words), cwd=tmp_path)
    assert done.returncode == 1 and "drive.size_bytes" in done.stdout, done.stdout


def test_a_person_is_asked_for_drive_meters_and_rails(rig: Path, tmp_path: Path) -> None:
    """An answer that is none is asked for again: what was answered before is not lost."""
    volts, amps = port_of(rig, "v12", "resource"), port_of(rig, "i12")
    scratch = str(tmp_path / "scratch")
    answers = ["99", scratch, "0", "1m", amps, volts, "nonsense", "", "a/b", "12V", "3", "1", "0"]
    answers += ["two", "2"]
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.environ.update(TERM="xterm", COLUMNS="80", LINES="24")
        os.execv(sys.executable, [*LABCTL, "init", "asked"])
    output = b""
    questions = (b"scratch file)", b"scratch file)", b"Size", b"Size", b"more)", b"more)", b"more)",
                 b"more)", b"names", b"names", b"current", b"current", b"meter)", b"none",
                 b"none")  # fmt: skip
    with contextlib.suppress(OSError):
        for question, answer in zip(questions, answers, strict=True):
            new = b""
            while question not in new or b": " not in new[new.index(question) :]:
                new += os.read(terminal, 4096)
            output += new
            os.write(terminal, f"{answer}\n".encode())
        while part := os.read(terminal, 4096):
            output += part
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, output.decode()
    assert "finds no mistake" in output.decode()
    lines = [line for line in output.decode().splitlines() if str(tmp_path.parent) not in line]
    assert [line for line in lines if len(line) > 80] == []
    assert labctl("check", "rigs/asked.toml", cwd=tmp_path).returncode == 0
