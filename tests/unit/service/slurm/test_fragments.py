"""The files for Slurm. Slurm itself reads them in tests/servers/test_slurm.py."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from labctl.config.find_rig import example_rigs
from labctl.config.rig import Rig, parse_rig
from labctl.errors import NOT_NOW, ConfigurationError
from labctl.service.slurm.fragments import RESOURCES, SCRIPT, SETTINGS, write_fragments

JOB = "JobId=7 JobState=RUNNING\n   JOB_GRES={given}\n   TresPerNode={asked}\n"


def rig(model: str = "") -> Rig:
    text = example_rigs()["nvme-adapter"].read_text()
    return parse_rig(text.replace('model = ""', f'model = "{model}"', 1), "rig.toml")


def test_each_rig_is_a_resource_and_meters_and_drives_are_features(tmp_path: Path) -> None:
    rigs = {"left": rig("ACME (Pro), 1 TB & more"), "right": rig()}
    assert [file.name for file in write_fragments(tmp_path, rigs)] == [SCRIPT, SETTINGS, RESOURCES]
    settings = (tmp_path / SETTINGS).read_text()
    (node,) = re.findall(r"^NodeName=(\S+) CPUs=\d+ (.*)$", settings, re.MULTILINE)
    resources, features = node[1].split()
    assert resources == "Gres=rig:left:1,rig:right:1"
    words = features.partition("=")[2].split(",")
    assert {"truevolt", "34465A", "scpi_dmm", "ACME_Pro_1_TB_more"} <= set(words)
    assert len(words) == len(set(words))
    lines = (tmp_path / RESOURCES).read_text()
    named = re.findall(r"^NodeName=(\S+) Name=rig Type=(\w+) Count=1", lines, re.MULTILINE)
    assert named == [(node[0], "left"), (node[0], "right")]


def test_what_slurm_requeues_is_what_labctl_says_may_be_begun_again(tmp_path: Path) -> None:
    write_fragments(tmp_path, {"left": rig()})
    assert f"\nRequeueExit={NOT_NOW}\n" in (tmp_path / SETTINGS).read_text()


def test_nothing_is_overwritten_and_names_that_slurm_does_not_take_are_mistakes(
    tmp_path: Path,
) -> None:
    (tmp_path / SETTINGS).write_text("of the cluster")
    with pytest.raises(ConfigurationError, match="is there already"):
        write_fragments(tmp_path, {"left": rig()})
    assert (tmp_path / SETTINGS).read_text() == "of the cluster"
    with pytest.raises(ConfigurationError, match="Slurm takes letters"):
        write_fragments(tmp_path / "other", {"left:1,x": rig()})
    with pytest.raises(ConfigurationError, match="labctl init"):
        write_fragments(tmp_path / "other", {})
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("asked", "given", "expected"),
    [
        ("gres:rig:left:1", "rig:left:1", "left"),
        ("gres/rig:left:1", "rig:left:1", "left"),
        ("gres:rig:left", "rig:left:1,rig:right:1", "left"),
        ("gres:rig:right:1", "rig:left:1,rig:right:1", "right"),
        ("gres:rig:1", "rig:left:1", "left"),
        ("gres:rig:1", "gpu:a100:1,rig:left:1", "left"),
        ("gres:gpu:1", "gpu:a100:1", ""),
        ("gres:rig:1", "", ""),
    ],
)
def test_the_script_runs_labctl_on_the_rig_that_the_job_was_given(
    tmp_path: Path, asked: str, given: str, expected: str
) -> None:
    write_fragments(tmp_path, {"left": rig()})
    for name, text in (
        ("labctl", 'for word; do echo "$word"; done'),
        ("scontrol", f"cat <<'END'\n{JOB.format(given=given, asked=asked)}END"),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    variables = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "7"}
    done = subprocess.run(
        ["bash", str(tmp_path / SCRIPT), "power-per-qd", "--scale", "0.1"],
        env={**variables, "SLURM_CLUSTER_NAME": "lab"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    words = ["run", expected, "power-per-qd", "--scale", "0.1", "--yes", "--job", "slurm-lab-7"]
    if expected:
        assert (done.returncode, done.stdout.splitlines()) == (0, words), done.stderr
    else:
        assert done.returncode == 2 and "needs a rig" in done.stderr and not done.stdout
