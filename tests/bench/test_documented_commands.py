"""Every command of the README and the docs is run, in a lab like the one that they describe.

What stands in the docs for something of the reader's (a run, a server, a folder) is replaced by
the lab's own; the plan that takes 74 minutes is replaced by one that takes seconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from labctl.cli.main import INTERRUPTED
from labctl.config.site import SITE_VARIABLE
from labctl.record.layout import EVENTS_FILE
from labctl.record.reader import find_runs
from labctl.sinks.influxdb.settings import TOKEN_VARIABLE
from labctl.store.address import StoreAddress, is_address
from labctl.store.marker import make_store
from labctl.store.open_place import open_place
from tests.forked_labctl import labctl
from tests.json_schemas import validate
from tests.servers.influx_server import ORG, InfluxServer, InfluxServer1, influxd, influxd1
from tests.unit.test_docs import ROOT, commands

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

SHORT_PLAN = """
name = "power-per-qd"
idle_before_s = 2
idle_after_s = 2
[[sweeps]]
pattern = "randread"
queue_depth = [1, 4]
duration_s = 2
"""

ELSEWHERE = {
    "make test": "this is it",
    "labctl run /tmp/bench/rig.toml demo": "make demo runs this plan on such a rig",
    "make stack": "needs a Docker engine; its files are checked by test_dashboards_stack",
    "make demo STACK=1": "needs a Docker engine; its files are checked by test_dashboards_stack",
    **dict.fromkeys(
        (
            "make judge",
            "make judge SEED=4711",
            'make judge REGIMES="moments lost"',
            "make judge JUDGE=--page",
        ),
        "minutes; tests/judge/test_judge.py has a smaller draw",
    ),
    **dict.fromkeys(
        (
            "make judge-stopping",
            # with the seed of the tables there, which is drawn anew for each
            *(line for line in commands() if line.startswith("make judge-stopping STOPPING=")),
        ),
        "minutes; tests/judge_stopping/test_judge.py has a smaller draw",
    ),
    **dict.fromkeys(
        ("make bench-hours", "make bench-hours HOURS=--page"),
        "a quarter of an hour; tests/bench/test_end_of_points.py runs such points",
    ),
    **dict.fromkeys(
        (
            "make chaos",
            "make chaos MINUTES=120 SEED=4711",
            'make chaos CHAOS="--kills 200 --page"',
            "make soak",
        ),
        "twenty minutes and more: tests/chaos",
    ),
    "labctl stack --native": "tests/unit/dashboards/stack/test_native.py starts what is installed",
    "labctl init my-rig": "tests/bench/test_read_and_instruments.py answers its questions",
    **dict.fromkeys(
        ('labctl mark "fan off"', 'labctl mark "fan on" --rig my-rig'),
        "tests/bench/test_measure.py sets marks while something runs",
    ),
    "labctl watch": "tests/faults/test_watch.py runs it on a terminal",
    "labctl trim-check my-rig": "tests/unit/capture/drive/test_trim_check.py on a loop device",
    "labctl trim-check my-rig --folder /mnt/ssd": "tests/unit/capture/drive/test_trim_check.py",
    **dict.fromkeys(
        (
            "labctl calibrate my-rig.toml --yes",
            "labctl calibrate my-rig.toml --against i12.voltage psu.current",
            "labctl calibrate my-rig.toml --compare",
        ),
        "tests/bench/test_calibrate.py runs it: the drive of this lab cannot be switched off",
    ),
    **dict.fromkeys(
        (
            "labctl influxdb forget --older-than 90 --bins --dry-run",
            "labctl influxdb forget --older-than 90 --bins",
            "labctl influxdb forget --older-than 730",
            "labctl influxdb forget 20260101T000000Z_bench_demo",
        ),
        "tests/servers/test_influx_forget.py runs them with runs of that age",
    ),
    "labctl mqtt forget my-rig.toml": "tests/servers/test_mqtt_sink.py runs it with a broker",
}
"""Commands that are not run here, and why. Nor is what needs sudo (see daemon/test_unit.py), nor
what installs labctl (see test_install_lines.py)."""

LONG = {
    "labctl measure my-rig -- cp -r /usr/share/doc /mnt/ssd/copy",
    "make demo",
    "labctl run my-rig --resume 20261120T220000Z_my-rig_power-per-qd",
    "labctl run my-rig --resume 20261121T220000Z_my-rig_power-per-qd",
    "labctl run --resume 20261121T220000Z_my-rig_power-per-qd",
    "labctl run my-rig power-per-qd --job nightly-2026-11-21",
    "labctl analyse 20260101T200000Z_bench_power-per-qd",
    'labctl analyse latest --from "step load" --to "step index"',
    'labctl report A --title "Firmware 2" --note "after the heat sink was changed"',
}
"""Commands that ``make test-long`` runs: each is the same as another one with more work or another
option. What the demo does is tested below with a short plan."""

UNTIL_STOPPED = ("daemon", "idle")
"""Commands that run until they are stopped."""

MEASURES = ("run", "measure")
"""Commands that get a process of their own from the beginning, as other programs do; the rest are
forked from one that has the modules."""

MATRIX = re.compile(r"```toml\n(\[\[jobs\]\].*?)```", re.DOTALL)


@dataclass
class Lab:
    folder: Path
    rig: Path
    server: InfluxServer | None
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def runs(self) -> Path:
        return self.folder / "home" / "runs"

    def run(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        if words[0] == "labctl" and (words[1] not in MEASURES or "--dry-run" in words):
            return labctl(*words[1:], cwd=self.folder, env=self.environment, timeout=240)
        return subprocess.run(
            words, cwd=self.folder, env=self.environment, timeout=240,
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    def run_for_a_while(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        """Start it, let it be for some seconds, and stop it as a person would."""
        process = subprocess.Popen(
            words, cwd=self.folder, env=self.environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
        code = 0 if process.returncode == INTERRUPTED else process.returncode
        return subprocess.CompletedProcess(words, code, output, errors)

    def cut_a_run_off(self) -> None:
        """The newest run is one that was killed in its second phase."""
        before = find_runs(self.runs)
        words = ["labctl", "run", "my-rig.toml", "short.toml"]
        process = subprocess.Popen(words, cwd=self.folder, env=self.environment)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            new = [path for path in find_runs(self.runs) if path not in before]
            if new and _events(new[0]).count("phase_started") > 1:
                break
            time.sleep(0.1)
        process.kill()
        process.wait()

    def own(self, word: str) -> str:
        """A word of the docs as it is called in this lab."""
        for theirs in ("/srv/labctl", "~/.local/share/labctl/idle"):
            if word == theirs:
                return str(self.folder / "elsewhere")
        if word.startswith("/mnt/ssd/"):
            return str(self.folder / f"on-ssd-{Path(word).name}")
        if re.match(r"~/labctl-runs/|\d{8}T\d{6}Z_|RUN$", word):
            fio = [
                run for run in find_runs(self.runs)
                if "measure" not in run.name and "phase_ended" in _events(run)
            ]  # fmt: skip
            return str(fio[-1])
        if word.startswith("http://other:8086"):
            assert self.server is not None
            return f"{self.server.url}?org={ORG}&bucket=main"
        if is_address(word):  # tests/servers/test_store.py has a real server
            return (self.folder / "store").as_uri()
        plans = dict.fromkeys(("power-per-qd", "my-plan.toml"), "short.toml")
        return {"/tmp/bench/rig.toml": str(self.rig), **plans}.get(word, word)


def called(rig: str, name: str) -> str:
    """The text of a rig with another name."""
    return re.sub(r'^name = ".*"$', f'name = "{name}"', rig, count=1, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("lab")
    (folder / "rigs").mkdir()
    shutil.copytree(ROOT / "docs" / "examples", folder / "docs" / "examples")
    (folder / "store").mkdir()
    make_store(open_place(StoreAddress(folder=folder / "store")))
    (folder / "short.toml").write_text(SHORT_PLAN)
    (folder / "site.toml").write_text("")
    bench = folder / "bench"
    script = Path(sys.executable).with_name("labctl")
    assert script.exists(), "the environment of the tests has the command labctl"
    simulated = subprocess.Popen(
        [script, "simulate", bench, "--json"], stdout=subprocess.PIPE, text=True
    )
    assert simulated.stdout is not None
    ready = json.loads(simulated.stdout.readline())
    validate("simulate", ready)
    rig = Path(ready["rig"])
    text = rig.read_text()
    for name in ("my-rig.toml", "rigs/my-rig.toml"):
        (folder / name).write_text(called(text, "my-rig"))
    matrix = MATRIX.search((ROOT / "docs" / "overnight.md").read_text())
    assert matrix is not None
    (folder / "night.toml").write_text(matrix[1])
    for name in {name for job in tomllib.loads(matrix[1])["jobs"] for name in job["rigs"]}:
        (folder / "rigs" / f"{name}.toml").write_text(called(text, name))
    (folder / "my-plan.toml").write_text(SHORT_PLAN)
    kind = InfluxServer if influxd() else InfluxServer1 if influxd1() else None
    server = kind(tmp_path_factory.mktemp("influxdb")) if kind else None
    if server is not None:
        server.start()
    environment = {
        **os.environ,
        "PATH": f"{script.parent}:{os.environ['PATH']}",
        "HOME": str(folder),
        "LABCTL_HOME": str(folder / "home"),
        "LABCTL_RIGS": str(folder / "rigs"),
        SITE_VARIABLE: str(folder / "site.toml"),
        TOKEN_VARIABLE: server.token if server else "",
    }
    one = Lab(folder, rig, server, environment)
    made = one.run(["labctl", "run", "my-rig.toml", "short.toml"])
    assert made.returncode == 0, made.stderr
    (run,) = find_runs(one.runs)
    for name in ("A", "B", "C", "A1", "A2", "A3", "B1", "B2", "B3"):
        shutil.copytree(run, folder / name)
    for _ in range(8):
        queued = one.run(["labctl", "queue", "add", "my-rig", "short.toml"])
        assert queued.returncode == 0, queued.stderr
    yield one
    simulated.send_signal(signal.SIGINT)
    assert simulated.wait(20) == 0
    if server is not None:
        server.kill()


def _events(run: Path) -> str:
    file = run / EVENTS_FILE
    return file.read_text() if file.exists() else ""


RUN_HERE = sorted(
    (
        line
        for line in commands()
        if line not in ELSEWHERE and not line.startswith(("sudo ", "pipx "))
    ),
    key=lambda line: line.startswith("labctl queue cancel"),  # nothing is done with that job after
)


@pytest.mark.parametrize(
    "line",
    [pytest.param(line, marks=pytest.mark.long) if line in LONG else line for line in RUN_HERE],
)
def test_every_command_in_the_docs_runs(lab: Lab, line: str) -> None:
    words = shlex.split(line)
    if words[:2] == ["labctl", "simulate"]:
        assert lab.rig.is_file()  # it runs behind every other command here
        return
    if words[:2] == ["labctl", "ship"]:
        if lab.server is None:
            pytest.skip("no InfluxDB: put influxd on PATH or name it in $INFLUXD")
        (lab.folder / "site.toml").write_text(
            f'[sinks.influxdb]\nurl = "{lab.server.url}"\norg = "{ORG}"\nbucket = "main"\n'
        )
    if "--resume" in words:
        lab.cut_a_run_off()
    if "step load" in words:
        marks = ["--marks", "step", "--", "sh", "-c", "echo step load; sleep 3; echo step index"]
        made = lab.run(["labctl", "measure", "my-rig", "--idle", "0", *marks])
        assert made.returncode == 0, made.stderr
    if words[1] != "push" and any(map(is_address, words)):
        pushed = lab.run(["labctl", "push", "latest", (lab.folder / "store").as_uri()])
        assert pushed.returncode == 0, pushed.stderr
    if words[0] == "cp":
        assert (lab.folder / words[2]).parent.is_dir()
        shutil.copy(lab.folder / words[1], lab.folder / f"copied-{Path(words[2]).name}")
        return
    if words == ["make", "demo"]:
        lab.environment["LABCTL_RUNS"] = str(lab.folder / "demos")
        words = ["make", "-C", str(ROOT), "demo"]
    own = [lab.own(word) for word in words]
    done = lab.run_for_a_while(own) if words[1] in UNTIL_STOPPED else lab.run(own)
    (lab.folder / "site.toml").write_text("")
    lab.environment.pop("LABCTL_RUNS", None)
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr


def test_what_is_not_run_here_is_still_in_the_docs() -> None:
    assert {*ELSEWHERE, *LONG} <= set(commands())


@pytest.mark.long
def test_the_demo_finds_the_truth_inside_its_uncertainty(lab: Lab) -> None:
    # A voltmeter of the bench averages over half seconds: two lie wholly in a phase, however busy.
    plan = SHORT_PLAN.replace("_s = 2", "_s = 4")
    (lab.folder / "for-the-demo.toml").write_text(plan)
    done = lab.run(["labctl", "demo", "--plan", "for-the-demo.toml", "--runs", "demos", "--json"])
    assert done.returncode == 0, done.stderr
    reported = json.loads(done.stdout)
    validate("demo", reported)
    assert reported["outcome"] == "completed"
    notes = [phase["notes"] for phase in reported["summary"]["phases"]]
    assert [item["phase"] for item in reported["truth"]] == [
        "idle before", "randread 4k QD1", "randread 4k QD4", "idle after",
    ], notes  # fmt: skip
    assert sum(item["inside"] for item in reported["truth"]) >= 3
    assert all(item["watts"]["u"] < 0.05 * item["true_watts"] for item in reported["truth"])
