"""``labctl judge`` and ``labctl check RIG PLAN``, as they are asked on a command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from labctl.cli.main import app
from labctl.config.find_rig import EXAMPLES
from labctl.config.plan import load_plan
from labctl.errors import ConfigurationError
from labctl.record.layout import HEADER_FILE
from tests.json_schemas import validate
from tests.unit.synthetic_run import IDLE, Bench, Load, build

LIMITS = """
name = "ours"
[[limits]]
name = "idle"
over = "phase"
at = "idle"
max_watts = {idle}
[[limits]]
name = "work"
over = "phase"
max_watts = 100
[[limits]]
name = "peak"
over = "100 us"
max_watts = 100
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("runs"), Bench([IDLE, Load(0.6, 0.5, iops=1000)])).path


def labctl(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def test_the_exit_code_says_whether_one_fails(run: Path, tmp_path: Path) -> None:
    limits, page = tmp_path / "limits.toml", tmp_path / "judge.html"
    for idle, code, verdict in ((5.0, 0, "undecided"), (3.0, 1, "fail")):
        limits.write_text(LIMITS.format(idle=idle))
        made = labctl("judge", run, "--limits", limits, "--html", page)
        assert made.exit_code == code, made.output
        assert made.stdout.startswith(verdict.upper())
        assert made.stdout.endswith(f"page: {page}\n")
        text = page.read_text(encoding="utf-8")
        assert "Decision rule: ISO 14253-1" in text
        assert "over the phase" in text and "black line" not in text, "in the dark it is white"
        found = json.loads(labctl("judge", run, "--limits", limits, "--json").stdout)
        validate("judge", found)
        assert (found["verdict"], found["passed"]) == (verdict, not code)
        assert [check["verdict"] for check in found["checks"]] == [
            "fail" if code else "pass",
            "pass",
            "undecided",
        ]
    limits.write_text(LIMITS.format(idle=5.0))
    assert labctl("judge", run, "--limits", limits, "--strict").exit_code == 1


def test_the_plans_own_limits_are_taken(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / run.name
    shutil.copytree(run, copy)
    header = json.loads((copy / HEADER_FILE).read_text())
    header["plan_text"] = 'limits = "ocp-2.5"\n'
    (copy / HEADER_FILE).write_text(json.dumps(header))
    made = labctl("judge", copy)
    assert made.exit_code == 0, made.output
    assert "by ocp-2.5" in made.stdout


def test_a_rig_that_is_too_slow_is_told_before_the_run() -> None:
    rig = EXAMPLES / "nvme-adapter.toml"
    assert labctl("check", rig, "power-per-qd").exit_code == 0
    made = labctl("check", rig, "ocp-power", "--json")
    found = json.loads(made.stdout)
    validate("check", found)
    assert made.exit_code == 0
    assert any("peak power (100 µs) cannot pass: i12" in line for line in found["too_slow"])
    of_rig, *printed = labctl("check", rig, "ocp-power").stdout.splitlines()
    assert of_rig == f"{rig}: a rig without mistakes"  # as long as its path is
    assert printed and max(map(len, printed)) <= 80
    dry = labctl("run", rig, "ocp-power", "--dry-run").stdout.splitlines()
    assert dry[-len(printed) :] == printed
    assert "cannot pass" not in labctl("run", rig, "power-per-qd", "--dry-run").stdout


def test_a_plan_is_no_rig_whose_meters_could_be_too_slow(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(load_plan("ocp-power")[1])
    assert labctl("check", plan).exit_code == 0
    found = labctl("check", plan, "ocp-power").exception
    assert isinstance(found, ConfigurationError)
    words = f"PLAN = 'ocp-power': goes with a rig, and {plan} is a plan"
    assert str(found) == f"command line: {words}"
