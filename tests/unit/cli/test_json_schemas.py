"""What commands print with ``--json`` is what their schemas say, and no more."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer.main

from labctl.capture.drive.discard_support import Discard, Promise
from labctl.capture.drive.trim_check import Contents, Extent, TrimCheck, TrimVerdict
from labctl.cli.commands import COMMANDS
from labctl.cli.main import app
from labctl.cli.servers.ship import _ship_report_json as shipped_json
from labctl.cli.terminal.schemas import FOLDER
from labctl.config.calibration_file import Calibration, calibration_file, save_calibration
from labctl.config.rig import load_rig
from labctl.service.runs.shipping import Shipped
from labctl.sinks.sink import SinkReport
from tests.forked_labctl import labctl
from tests.json_schemas import DRAFT, OUTPUTS, file_of, schema, validate
from tests.unit.cli.lab_folder import lab_in
from tests.unit.config.test_calibration_file import ZERO

ROOT = Path(__file__).parents[3]
TRACE = ROOT / "docs" / "examples" / "trace.csv"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, rigs, a broken rig, a calibration."""
    folder = tmp_path_factory.mktemp("lab")
    lab_in(folder)
    rig = folder / "rigs" / "nvme-adapter.toml"
    rig.write_text(rig.read_text().replace("[drive]", "[drive]\nsize_bytes = 1000000000000"))
    (folder / "rigs" / "broken.toml").write_text('name = "broken"\nnonsense = 1\n')
    save_calibration(calibration_file(rig), Calibration(load_rig(rig).fingerprint, (ZERO,)))
    return folder


def said(lab: Path, *words: str, codes: tuple[int, ...] = (0,)) -> str:
    environment = {
        **os.environ, "LABCTL_HOME": str(lab / "home"), "LABCTL_SITE": str(lab / "site.toml"),
    }  # fmt: skip
    done = labctl(*words, cwd=lab, env=environment)
    assert done.returncode in codes, done.stderr
    return done.stdout


def test_the_shipped_schemas_are_those_of_the_types_that_are_printed() -> None:
    """As far as keys and what is said of them go: how pydantic words a type differs between its
    versions."""
    for name in OUTPUTS:
        shipped = json.loads(file_of(name).read_text("utf-8"))
        jsonschema.Draft202012Validator.check_schema(shipped)
        assert shipped["$schema"] == DRAFT
        assert shipped["$id"] == f"labctl/{name}.v1.json"
        assert keys(shipped) == keys(schema(name)), "python -m tests.json_schemas"
    assert {file.name for file in FOLDER.iterdir()} == {
        *(file_of(name).name for name in OUTPUTS), "runs.v1.json",
    }  # fmt: skip


def keys(value: dict[str, Any]) -> dict[str, Any]:
    """The names in a schema, at every depth, and what is said of each key of an output."""
    found = {name: keys(item) for name, item in value.items() if isinstance(item, dict)}
    for name, item in value.get("properties", {}).items():
        if isinstance(item, dict):
            found["properties"][name]["description"] = item.get("description")
    return found


def test_every_command_with_json_has_a_schema() -> None:
    group: Any = typer.main.get_command(app)
    calls = [json.loads(file.read_text("utf-8"))["title"] for file in FOLDER.iterdir()]
    page = (ROOT / "docs" / "json.md").read_text()
    for name in COMMANDS:
        command = group.get_command(None, name)
        below = getattr(command, "commands", {"": command})
        for word, one in below.items():
            if any("--json" in parameter.opts for parameter in one.params):
                own = re.compile(rf"labctl {name} (.* )?{word}[ ,-].*json")
                assert any(own.search(call) for call in calls), f"labctl {name} {word}"
    for name in (*OUTPUTS, "runs"):
        assert f"`{name}.v1.json`" in page


def test_help_prints_the_schemas_of_a_command() -> None:
    assert labctl("help", "runs", "--schema").stdout == (FOLDER / "runs.v1.json").read_text()
    both = labctl("help", "analyse", "--schema").stdout
    assert both == file_of("analyse").read_text() + file_of("stretch").read_text()
    for wrong in (("help", "review", "--schema"), ("help", "--schema")):
        assert labctl(*wrong).returncode == 2


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("report", "report one"),
        ("analyse", "analyse one"),
        ("stretch", "analyse one --from 1 --to 9"),
        ("compare", "compare one other"),
        ("compare", "compare one other --allow iops=3"),
        ("repeats", "repeats one other"),
        ("trend", "trend"),
        ("trend", "trend one other --allow iops=3"),
        ("judge", "judge one --limits ocp-2.6"),
        ("query", "query 'SELECT * FROM phases'"),
        ("compact", "compact ."),
        ("bundle", "bundle one -o one.zip"),
        ("verify", "verify one.zip"),
        ("rigs", "rigs"),
        ("plans", "plans"),
        ("check", "check rigs/nvme-adapter.toml"),
        ("check", "check rigs/broken.toml"),
        ("dry-run", "run nvme-adapter power-per-qd --dry-run"),
        ("dry-run", "run nvme-adapter snia-iops --dry-run"),
        ("run", "run nvme-adapter no-such-plan"),
        ("jobs", "queue add nvme-adapter power-per-qd --repeat 3 --tag night"),
        ("jobs", "queue list"),
        ("job", "queue show 2"),
        ("jobs", "queue move 3 1"),
        ("jobs", "queue cancel 2"),
        ("paused", "queue pause nvme-adapter"),
        ("status", "status"),
        ("morning", "morning"),
        ("tidy", "tidy --delete-after 1 --dry-run"),
        ("trace-describe", f"trace describe {TRACE}"),
        ("trace-convert", f"trace convert {TRACE} t.log --drive-size 100g"),
        ("instruments", "instruments /dev/no-such-port"),
        ("calibrate-show", "calibrate nvme-adapter --show"),
    ],
)  # fmt: skip
def test_the_output_is_what_its_schema_says(lab: Path, name: str, line: str) -> None:
    if name == "verify" and not (lab / "one.zip").exists():
        said(lab, "bundle", "one", "-o", "one.zip")
    validate(name, json.loads(said(lab, *shlex.split(line), "--json", codes=(0, 1, 2))))


def test_what_needs_a_server_or_a_drive_is_what_its_schema_says() -> None:
    report = SinkReport("influxdb", "http://db:8086", 5, 1, "refused")
    validate("ship", [shipped_json(Shipped(Path("run"), report, True, "why"))])
    contents, discard = Contents(1, 2, 3, 4), Discard(1 << 20, 512, Promise.ZEROS)
    for before in (contents, None):
        found = TrimCheck(
            "/dev/sdx", "", (Extent(0, 16),), discard, before, before, TrimVerdict.WORKS, "so"
        )
        validate("trim-check", json.loads(json.dumps(found.to_json())))
