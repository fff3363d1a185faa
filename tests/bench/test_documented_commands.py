"""Every command of the README and the docs is run, in a lab like the one that they describe.

What stands in the docs for something of the reader's (a run, a server, a folder) is replaced by
the lab's own; the plan that takes 74 minutes is replaced by one that takes seconds.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from labctl.record import find_runs
from labctl.sinks.settings import SITE_VARIABLE, TOKEN_VARIABLE
from tests.servers.influx_server import ORG, TOKEN, InfluxServer, influxd
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
    "make stack": "needs a Docker engine; its files are checked by test_dashboards_stack",
    "make demo STACK=1": "needs a Docker engine; its files are checked by test_dashboards_stack",
    "labctl stack --native": "tests/unit/test_dashboards_stack.py starts what is installed",
    "pipx install .": "pip install . is what makes the environment of these tests",
}
"""Commands that are not run here, and why."""


@dataclass
class Lab:
    folder: Path
    rig: Path
    server: InfluxServer | None
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, cwd=self.folder, env=self.environment, timeout=240,
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    def own(self, word: str) -> str:
        """A word of the docs as it is called in this lab."""
        if word.startswith("runs/") or word == "RUN":
            return str(find_runs(self.folder / "runs")[-1])
        if word.startswith("http://other:8086"):
            assert self.server is not None
            return f"{self.server.url}?org={ORG}&bucket=main"
        return {"/tmp/bench/rig.toml": str(self.rig), "power-per-qd": "short.toml"}.get(word, word)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("lab")
    shutil.copytree(ROOT / "rigs", folder / "rigs")
    shutil.copytree(ROOT / "docs" / "examples", folder / "docs" / "examples")
    (folder / "short.toml").write_text(SHORT_PLAN)
    (folder / "site.toml").write_text("")
    bench = folder / "bench"
    script = Path(sys.executable).with_name("labctl")
    assert script.exists(), "the environment of the tests has the command labctl"
    simulated = subprocess.Popen(
        [script, "simulate", bench, "--json"], stdout=subprocess.PIPE, text=True
    )
    assert simulated.stdout is not None
    rig = Path(json.loads(simulated.stdout.readline())["rig"])
    shutil.copy(rig, folder / "my-rig.toml")
    server = InfluxServer(tmp_path_factory.mktemp("influxdb")) if influxd() else None
    if server is not None:
        server.start()
    environment = {
        **os.environ,
        "PATH": f"{script.parent}:{os.environ['PATH']}",
        SITE_VARIABLE: str(folder / "site.toml"),
        TOKEN_VARIABLE: TOKEN,
    }
    one = Lab(folder, rig, server, environment)
    made = one.run(["labctl", "run", "my-rig.toml", "short.toml"])
    assert made.returncode == 0, made.stderr
    yield one
    simulated.send_signal(signal.SIGINT)
    assert simulated.wait(20) == 0
    if server is not None:
        server.kill()


@pytest.mark.parametrize("line", [line for line in commands() if line not in ELSEWHERE])
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
    if words[0] == "cp":
        source, target = words[1], lab.folder / words[2]
        shutil.copy(lab.folder / source, target.with_name(f"copied-{target.name}"))
        return
    if words == ["make", "demo"]:
        lab.environment["LABCTL_RUNS"] = str(lab.folder / "demos")
        words = ["make", "-C", str(ROOT), "demo"]
    done = lab.run([lab.own(word) for word in words])
    (lab.folder / "site.toml").write_text("")
    lab.environment.pop("LABCTL_RUNS", None)
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr


def test_what_is_not_run_here_still_stands_in_the_docs() -> None:
    assert set(ELSEWHERE) <= {*commands(), "pipx install ."}


def test_the_demo_finds_the_truth_inside_its_uncertainty(lab: Lab) -> None:
    done = lab.run(["labctl", "demo", "--plan", "short.toml", "--runs", "demos", "--json"])
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["outcome"] == "completed"
    assert [item["phase"] for item in told["truth"]] == [
        "idle before", "randread 4k QD1", "randread 4k QD4", "idle after",
    ]  # fmt: skip
    assert sum(item["inside"] for item in told["truth"]) >= 3
    assert all(item["watts"]["u"] < 0.05 * item["true_watts"] for item in told["truth"])
