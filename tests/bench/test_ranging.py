"""``labctl range`` on a bench whose rig names ranges that are too small and too large."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from instruments.simulated.bench import Bench, configure
from tests.json_schemas import validate

pytestmark = [pytest.mark.bench, pytest.mark.timeout(170)]

WRONG = {"i12": 0.1, "i33": 0.1, "v12": 200.0}
RIGHT = {"i12": 1.0, "i33": 1.0, "v12": 20.0}


@pytest.mark.long
def test_ranges_too_small_and_too_large_are_put_right(tmp_path: Path) -> None:
    changes = {name: {"settings": {"range": value}} for name, value in WRONG.items()}
    with Bench(tmp_path / "bench", configure(**changes)) as bench:
        done = subprocess.run(
            [sys.executable, "-m", "labctl.cli.main", "range", str(bench.rig), "demo",
             "--runs", str(tmp_path / "runs"), "--json"],
            capture_output=True, text=True, timeout=150, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    validate("range", json.loads(done.stdout))
    found = {item["instrument"]: item for item in json.loads(done.stdout)["ranges"]}
    suggested = {name: found[name]["suggested"] for name in RIGHT}
    # what a busy host held up comes at once, and the next range may be the right one for that
    assert suggested in (RIGHT, RIGHT | {"i33": 3.0})
    assert found["v33"]["suggested"] == found["v33"]["range"]
