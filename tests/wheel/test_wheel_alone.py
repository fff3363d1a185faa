"""The wheel with nothing but what it requires: every command works, or says what to add."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import subprocess
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer.main
from packaging.requirements import Requirement

from labctl.cli.commands import COMMANDS
from labctl.cli.main import app
from labctl.installed import Extra
from labctl.record.layout import EVENTS_FILE
from labctl.record.reader import find_runs
from tests.servers.mqtt_server import free_port
from tests.wheel.installed_wheel import PACKAGES, ROOT, InstalledWheel, build, install

pytestmark = [pytest.mark.bench, pytest.mark.long, pytest.mark.timeout(300)]

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REQUIREMENTS: dict[str, list[str]] = PROJECT["optional-dependencies"]

PLAN = """
name = "short"
idle_before_s = 2
idle_after_s = 2
[[sweeps]]
pattern = "randread"
queue_depth = [1, 4]
duration_s = 2
"""
SINKS = """
[sinks.influxdb]
url = "http://127.0.0.1:{port}"
org = "lab"
bucket = "lab"
[sinks.mqtt]
host = "127.0.0.1"
port = {port}
"""
SITE = """
[service]
commands = true
notify = ["done"]
"""


@dataclass(frozen=True)
class Lab:
    """A folder with a simulated rig, a run of it, and the wheel at hand."""

    folder: Path
    wheel: InstalledWheel
    names: dict[str, str]

    def run(
        self, line: str, *extras: str, path: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Do a command, in which {rig} and the like stand for what there is."""
        surroundings = self.surroundings(*extras)
        surroundings["PATH"] = surroundings["PATH"] if path is None else path
        words = [word.format(**self.names) for word in shlex.split(line)]
        return subprocess.run(
            [self.wheel.labctl, *words], cwd=self.folder, env=surroundings,
            capture_output=True, text=True, check=False, timeout=200,
        )  # fmt: skip

    def start(self, line: str, *extras: str) -> subprocess.Popen[str]:
        """Begin a command that goes on until Ctrl-C; what it says in one stream."""
        words = [word.format(**self.names) for word in shlex.split(line)]
        return subprocess.Popen(
            [self.wheel.labctl, *words], cwd=self.folder, env=self.surroundings(*extras),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def surroundings(self, *extras: str) -> dict[str, str]:
        """The environment variables of every command here."""
        return {
            **self.wheel.surroundings(self.folder, *extras),
            "LABCTL_SITE": str(self.folder / "site.toml"),
            "LABCTL_NOTIFY": "json://127.0.0.1:9/",
        }


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> InstalledWheel:
    folder = tmp_path_factory.mktemp("wheel")
    return install(build(folder), folder)


@pytest.fixture(scope="module")
def lab(wheel: InstalledWheel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("lab")
    port = free_port()
    (folder / "short.toml").write_text(PLAN)
    (folder / "site.toml").write_text(SITE)
    shutil.copy(ROOT / "docs" / "examples" / "trace.csv", folder)
    names = {
        "rig": "bench/rig.toml", "sending": "sending.toml", "room": "room.toml",
        "plan": "short.toml", "away": f"127.0.0.1:{port}",
        "database": f"http://127.0.0.1:{port}?org=o&bucket=b",
    }  # fmt: skip
    one = Lab(folder, wheel, names)
    simulated = one.start("simulate bench --json")
    assert simulated.stdout is not None
    rig = Path(json.loads(simulated.stdout.readline())["rig"])
    text = rig.read_text()
    (folder / "sending.toml").write_text(text + SINKS.format(port=port))
    (folder / "room.toml").write_text(
        text + '\n[instruments.room]\ndriver = "mqtt"\nhost = "127.0.0.1"\n'
        f'port = {port}\ntopic = "room"\nquantity = "temperature"\ninterval_s = 1\n'
        "accuracy_pct_of_reading = 0\naccuracy_floor = 0.5\n"
    )
    made = one.run("run {rig} {plan}")
    assert made.returncode == 0, made.stdout + made.stderr
    names["run"] = str(find_runs(folder / "labctl-runs")[0])
    yield one
    simulated.send_signal(signal.SIGINT)
    simulated.communicate(timeout=30)


def every_command() -> list[str]:
    """``labctl`` and all that can stand after it."""
    group: Any = typer.main.get_command(app)
    found = [""]
    for name in COMMANDS:
        command = group.get_command(None, name)
        found += [name, *(f"{name} {below}" for below in getattr(command, "commands", {}))]
    return found


@pytest.mark.parametrize("command", every_command())
def test_every_command_lists_its_options(lab: Lab, command: str) -> None:
    done = lab.run(f"{command} --help")
    assert done.returncode == 0 and done.stdout.startswith("Usage: labctl"), done.stderr


NOTHING_MISSING = {
    "--version": "labctl 0",
    "run {rig} {plan} --dry-run": "4 phases",
    "run {sending} {plan} --dry-run": "4 phases",
    "measure {rig} --idle 0 -- sleep 2": "J ± U",
    "report {run}": "QD 4",
    "analyse {run} --from 1 --to 3": "J ± U",
    "analyse {run}": "",
    "review {run}": "",
    "compare {run} {run}": "",
    "repeats {run}": "",
    "trend": "undecided",
    "judge {run} --limits ocp-2.6": "UNDECIDED",
    "bundle {run} -o it.labctl.zip && verify it.labctl.zip": "",
    "status": "no daemon",
    "morning": "no job ran",
    "tidy --budget 1t": "0.0 MB freed",
    "runs": "short",
    "rigs": "examples, for labctl rigs --copy: elmorlabs-pmd, ina228, joulescope",
    "rigs --copy two-drives --as mine && check rigs/mine.toml": "without mistakes",
    "plans": "power-per-qd",
    "check {rig}": "without mistakes",
    "check {plan}": "without mistakes",
    "doctor {rig} {plan}": "sinks",
    "instruments": "",
    "help meters": "play-session",
    "completion bash": "_LABCTL_COMPLETE",
    "range {rig}": "",
    "read {rig} --seconds 2": "v12.voltage",
    "calibrate {rig} --show": "never calibrated",
    "record-session {rig} i12 --seconds 2 --to i12.session && play-session i12.session": "readings",
    "queue add {rig} {plan} && queue list && queue show 1 && queue move 1 1": "queued",
    "queue pause bench": "no further job",
    "queue resume bench": "begin again",
    "trace describe trace.csv": "",
    "trace convert trace.csv trace.iolog --drive-size 1g --wrap": "",
}
"""Commands that need no extra, and what they say."""

REFUSED = {
    "init": "nobody to ask",
    "mark hello": "nothing runs",
    "queue cancel 99": "no job 99",
    "stack": "make stack",
    "stack --native --state servers --without mosquitto": "is not installed",
    "trim-check {rig}": "name a block device",
}
"""Commands that have nothing to do here, and why."""

NEEDS = {
    "import psu.csv --fio fio": (Extra.PARQUET,),
    "run {sending} {plan}": (Extra.INFLUX, Extra.MQTT),
    "doctor {sending}": (Extra.INFLUX, Extra.MQTT),
    "check {sending}": (Extra.INFLUX, Extra.MQTT),
    "idle {sending}": (Extra.INFLUX, Extra.MQTT),
    "demo --to {database}": (Extra.INFLUX,),
    "ship {run} --to {database}": (Extra.INFLUX,),
    "status --broker {away}": (Extra.MQTT,),
    "mqtt forget {sending}": (Extra.MQTT,),
    "influxdb forget a-run --to {database}": (Extra.INFLUX,),
    "query 'SELECT 1'": (Extra.QUERY,),
    "compact": (Extra.QUERY,),
    "push {run} s3://lab/runs": (Extra.STORE, Extra.QUERY),
    "push {run} file:///tmp": (Extra.QUERY,),
    "pull latest s3://lab/runs": (Extra.STORE,),
    "tidy --export-after 0": (Extra.PARQUET,),
    "tidy --budget 1t --archive elsewhere": (Extra.PARQUET,),
}
"""Commands that need extras."""

UNTIL_STOPPED = ("simulate", "daemon", "idle", "watch")
"""Commands that go on until Ctrl-C, or need a terminal: they have tests of their own here."""


def test_every_command_is_tried() -> None:
    lines = (*NOTHING_MISSING, *REFUSED, *NEEDS, *UNTIL_STOPPED)
    tried = [command for line in lines for command in line.split(" && ")]
    for command in every_command():
        is_group = command in ("", "queue", "mqtt", "influxdb", "trace")
        assert is_group or any(re.match(rf"{command}\b", line) for line in tried), command


@pytest.mark.parametrize("line", NOTHING_MISSING)
def test_commands_without_extras_work(lab: Lab, line: str) -> None:
    output = ""
    for command in line.split(" && "):
        done = lab.run(command)
        output += done.stdout + done.stderr
        assert "Traceback" not in output, output
        assert done.returncode == 0, output
    assert NOTHING_MISSING[line] in output


@pytest.mark.parametrize("line", REFUSED)
def test_commands_that_have_nothing_to_do_say_so(lab: Lab, line: str) -> None:
    """Also where no server is installed that ``labctl stack`` could start."""
    done = lab.run(line, path=str(lab.folder))
    assert done.returncode in (1, 2) and REFUSED[line] in done.stderr
    assert "Traceback" not in done.stderr


def is_asked_for(extras: tuple[Extra, ...], done: subprocess.CompletedProcess[str]) -> bool:
    """Whether all that is printed is one line that asks for these extras alone."""
    asked = re.findall(r"needs the extra (\w+)", done.stderr)
    return done.returncode == 2 and done.stderr.count("\n") == 1 and asked == list(extras)


@pytest.mark.parametrize("line", NEEDS)
def test_what_is_missing_is_one_line_with_the_command_that_adds_it(lab: Lab, line: str) -> None:
    done = lab.run(line)
    assert is_asked_for(NEEDS[line], done), done.stdout + done.stderr
    assert done.stdout == ""
    wanted = [Requirement(text) for extra in NEEDS[line] for text in REQUIREMENTS[extra]]
    command = shlex.split(done.stderr.strip().partition("; add it: ")[2])
    assert command[:4] == [str(lab.wheel.python), "-m", "pip", "install"]
    assert [Requirement(text) for text in command[4:]] == wanted


def missing_with(extra: Extra) -> dict[str, tuple[Extra, ...]]:
    """Commands that need others than this one, and which."""
    others = {
        line: tuple(one for one in extras if one is not extra) for line, extras in NEEDS.items()
    }
    return {line: missing for line, missing in others.items() if missing}


@pytest.mark.parametrize(
    ("extra", "line"), [(extra, line) for extra in Extra for line in missing_with(extra)]
)
def test_with_one_extra_the_others_are_asked_for(lab: Lab, extra: Extra, line: str) -> None:
    done = lab.run(line, extra)
    assert is_asked_for(missing_with(extra)[line], done), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("line", "extras", "code", "words"),
    [
        ("query 'SELECT count(*) AS runs FROM runs'", (Extra.QUERY,), 0, "runs"),
        ("tidy --export-after 0 --dry-run", (Extra.PARQUET,), 0, "0.0 MB would be freed"),
        ("tidy --export-after 0", (Extra.PARQUET,), 0, "0.0 MB freed"),
        ("status --broker {away}", (Extra.MQTT,), 1, "cannot be reached"),
        ("mqtt forget {sending}", (Extra.MQTT,), 1, "{away}"),
        ("influxdb forget a-run --to {database}", (Extra.INFLUX,), 1, "cannot be asked"),
        ("check {sending}", (Extra.INFLUX, Extra.MQTT), 0, "without mistakes"),
        ("doctor {sending}", (Extra.INFLUX, Extra.MQTT), 0, "a run is kept"),
        ("run {sending} {plan}", (Extra.INFLUX, Extra.MQTT), 0, "QD 4"),
    ],
)
def test_with_its_extras_a_command_works(
    lab: Lab, line: str, extras: tuple[Extra, ...], code: int, words: str
) -> None:
    done = lab.run(line, *extras)
    output = done.stdout + done.stderr
    assert "Traceback" not in output, output
    assert done.returncode == code, output
    assert words.format(**lab.names) in output


@pytest.mark.parametrize("extra", ["", *Extra])
@pytest.mark.parametrize(
    "line", ["doctor {rig}", "status", "demo --plan short.toml", "rigs", "plans", "report {run}"]
)
def test_the_first_commands_work_with_any_extra_or_none(lab: Lab, line: str, extra: str) -> None:
    done = lab.run(line, *([extra] if extra else []))
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stdout + done.stderr


def test_a_meter_behind_a_broker_names_what_it_needs(lab: Lab) -> None:
    done = lab.run("doctor {room}")
    output = " ".join(done.stdout.split())
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    assert f"add it: {lab.wheel.python} -m pip install 'paho-mqtt" in output
    output = lab.run("doctor {room}", Extra.MQTT).stdout
    assert "paho-mqtt" not in output and "trouble  room" in output


def test_the_daemon_reports_what_it_cannot_do_and_works(lab: Lab) -> None:
    daemon = lab.start("daemon {sending}")
    lines = []
    assert daemon.stdout is not None
    for line in daemon.stdout:
        lines.append(line)
        if "no commands over MQTT" in line:
            break
    daemon.send_signal(signal.SIGINT)
    lines.append(daemon.communicate(timeout=60)[0])
    output = "".join(lines)
    assert daemon.returncode == 0, output
    assert "Traceback" not in output and "unexpected" not in output, output
    assert re.search(r"no notices: sending notices needs the extra notify, .*'apprise", output)
    assert re.search(r"no commands over MQTT: .* needs the extra mqtt, .*'aiomqtt", output)


def test_an_idle_record_is_made_until_ctrl_c(lab: Lab) -> None:
    idle = lab.start("idle {rig} --runs idle")
    while not list(lab.folder.glob(f"idle/*/{EVENTS_FILE}")) and idle.poll() is None:
        time.sleep(0.1)
    idle.send_signal(signal.SIGINT)
    output = idle.communicate(timeout=60)[0]
    assert idle.returncode == 0 and "Traceback" not in output, output
    assert len(find_runs(lab.folder / "idle")) == 1


def test_watch_without_a_terminal_says_so(lab: Lab) -> None:
    done = lab.run("watch --broker {away}")
    assert done.returncode == 1 and "needs a terminal" in done.stderr


@pytest.mark.parametrize("module", ["labctl", "labctl.cli.main"])
def test_the_package_is_the_command(lab: Lab, module: str) -> None:
    done = subprocess.run(
        [lab.wheel.python, "-m", module, "plans"], cwd=lab.folder, env=lab.surroundings(),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and "power-per-qd" in done.stdout, done.stderr


def test_the_dashboards_are_made_where_their_library_is(lab: Lab) -> None:
    words = [lab.wheel.python, "-m", "dashboards"]
    done = subprocess.run(
        words, cwd=lab.folder, env=lab.surroundings(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "make env" in done.stderr and "Traceback" not in done.stderr


OPTIONAL = {
    "labctl.sinks.influxdb.writer": "influx",
    "labctl.sinks.influxdb.sink": "influx",
    "labctl.sinks.influxdb.stored_runs": "influx",
    "labctl.sinks.mqtt.retained_topics": "mqtt",
    "labctl.sinks.mqtt.connection": "mqtt",
    "labctl.sinks.mqtt.sink": "mqtt",
}
"""Modules of labctl that cannot be imported without an extra."""

IMPORT_ALL = """
import importlib, json, pkgutil, sys
import dashboards, instruments, labctl
failed = {}
for package in (dashboards, instruments, labctl):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except ModuleNotFoundError as error:
                failed[module.name] = error.name
print(json.dumps(failed))
"""


@pytest.mark.parametrize("extra", ["", *Extra, "dashboards"])
def test_only_these_modules_need_an_extra(lab: Lab, extra: str) -> None:
    done = subprocess.run(
        [lab.wheel.python, "-c", IMPORT_ALL], cwd=lab.folder, capture_output=True, text=True,
        env=lab.surroundings(*([extra] if extra else [])), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    failed = json.loads(done.stdout)
    of_labctl = {name for name in failed if name.startswith("labctl.")}
    assert of_labctl == {name for name, needed in OPTIONAL.items() if needed != extra}
    rest = {missing for name, missing in failed.items() if not name.startswith("labctl.")}
    assert rest == (set() if extra == "dashboards" else {"grafana_foundation_sdk"})


def test_every_file_that_is_no_code_is_in_the_wheel(wheel: InstalledWheel) -> None:
    site = next(wheel.folder.glob("lib/python*/site-packages"))
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert (site / path.relative_to(ROOT)).is_file(), path.relative_to(ROOT)
