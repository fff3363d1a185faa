"""What commands find on the machine of a lab."""

from __future__ import annotations

import shutil
from pathlib import Path

from labctl.config.find_rig import EXAMPLES
from tests.unit.synthetic_run import WORK, Bench, build


def lab_in(folder: Path) -> Path:
    """Two runs in ``home/runs``, the example rigs in ``rigs`` and an empty ``site.toml``; gives the
    run of which both are copies."""
    made = build(folder / "made", Bench(WORK)).path
    for name in ("20270101T000000Z_one_sweep", "20270102T000000Z_other_sweep"):
        shutil.copytree(made, folder / "home" / "runs" / name)
    shutil.copytree(EXAMPLES, folder / "rigs")
    (folder / "site.toml").write_text("")
    return made
