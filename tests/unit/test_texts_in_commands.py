"""Texts of a rig, a plan or a record where they could be more than a text: in a shell, in the name
of a file."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from instruments.drivers.hwmon import SensorName
from instruments.drivers.sigrok import PartOfDriver, SafeWord
from instruments.transports.host_files import parse_printed_files, print_files_script
from labctl.capture.host.remote_host import TOKEN_BYTES
from labctl.capture.run.resumption import host_session
from labctl.config.rail import ChannelName, Name
from labctl.config.rig import parse_rig
from labctl.errors import ConfigurationError, JournalError
from labctl.record.events import Event, EventKind
from labctl.record.layout import EVENTS_FILE, HEADER_FILE
from labctl.record.phase import Pattern, Phase, Replay, Role
from labctl.record.reader import RunRecord
from labctl.service.daemon.mqtt_commands import CommandId
from labctl.service.data_dir import Home
from labctl.service.queue.job import PlanName, RunName, Tag
from labctl.service.queue.store import Queue
from tests.unit.config.test_rig import RIG
from tests.unit.synthetic_run import EPOCH_NS, Bench, Load, build


@pytest.fixture(scope="module")
def good_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("good"), Bench((Load(0.5, 0.6, 4.0, iops=10_000),))).path


@pytest.mark.parametrize(
    "pattern",
    ["[$(touch ran)]", "[`touch ran`]", "[;touch ran;]", "[\ntouch ran\n]", "[a]$(touch ran)",
     "*;touch ran;", "$(touch ran)", "'; touch ran; '", "[!$(touch ran)]*", "-e [${IFS}touch ran]"],
)  # fmt: skip
def test_a_pattern_of_files_is_no_word_for_the_shell_of_a_host(
    pattern: str, tmp_path: Path
) -> None:
    """``directory`` of the drivers hwmon and ina2xx; the shell is the one that ssh would begin."""
    script = print_files_script([f"/sys/{pattern}", pattern], "mark")
    done = subprocess.run(["sh"], input=script.encode(), cwd=tmp_path, capture_output=True)
    assert not list(tmp_path.iterdir())
    assert done.returncode == 0 and done.stdout == b"mark=\n" and not done.stderr


def test_a_pattern_still_names_files(tmp_path: Path) -> None:
    for name in ("a1", "a2", "b1", "[x]", "c d", "e*"):
        (tmp_path / name).write_text(f"{name}\n")
    patterns = [f"{tmp_path}/{one}" for one in ("a[0-9]", "b?", "[!abe]*", "e*")]
    done = subprocess.run(
        ["sh"], input=print_files_script(patterns, "mark").encode(), capture_output=True
    )
    found = {Path(path).name for path in parse_printed_files(done.stdout, "mark")}
    assert found == {"a1", "a2", "b1", "[x]", "c d", "e*"}


@pytest.mark.parametrize("token", ["../../home/me", "a b", "$(x)", "", "0123456789ab\n", "0" * 300])
def test_a_record_names_no_folder_of_the_drives_host(
    token: str, good_run: Path, tmp_path: Path
) -> None:
    """What a killed run left on the host is removed below the token of its record."""
    run = Path(shutil.copytree(good_run, tmp_path / "run"))
    with (run / EVENTS_FILE).open("a") as journal:
        journal.write(Event(EPOCH_NS + 10**11, EventKind.HOST_SESSION, {"token": token}).to_line())
    assert host_session(RunRecord(run)) is None
    with (run / EVENTS_FILE).open("a") as journal:
        journal.write(
            Event(
                EPOCH_NS + 10**11, EventKind.HOST_SESSION, {"token": "5f" * TOKEN_BYTES}
            ).to_line()
        )
    assert host_session(RunRecord(run)) is not None


@pytest.mark.parametrize("sensor", ["x" * 250, "x" * 5_000])
def test_a_channel_whose_file_could_not_be_named_is_refused_with_the_rig(sensor: str) -> None:
    text = RIG.replace('sensors = ["composite"]', f'sensors = ["{sensor}"]')
    with pytest.raises(ConfigurationError, match="no name of a file"):
        parse_rig(text.replace("drive_temp.composite", f"drive_temp.{sensor}"), "rig.toml")


@pytest.mark.parametrize(
    "kind",
    [Name, ChannelName, PlanName, Tag, RunName, CommandId, SensorName, SafeWord, PartOfDriver],
)
def test_a_pattern_of_a_name_ends_with_the_name(kind: Any) -> None:
    """In Python's re a "$" also stands before a line feed at the end."""
    good = "v.x" if kind is ChannelName else "a"
    assert TypeAdapter(kind).validate_python(good) == good
    with pytest.raises(ValidationError):
        TypeAdapter(kind).validate_python(f"{good}\n")


def test_the_folder_of_a_phase_is_a_name_that_any_filesystem_takes() -> None:
    long = Replay("/traces/" + "x" * 251 + ".csv")
    phase = Phase(7, Role.MEASURE, "s", Pattern.REPLAY, 1.0, queue_depth=32, replay=long)
    assert len(phase.slug) <= 255 and phase.slug.startswith("007_replay-x")
    short = Phase(7, Role.MEASURE, "s", Pattern.RANDREAD, 1.0, 4096, 8)
    assert short.slug == "007_randread-4k-qd8"


def test_the_name_of_a_drive_in_a_record_is_no_path(good_run: Path, tmp_path: Path) -> None:
    """It begins the names of the review's files."""
    run = Path(shutil.copytree(good_run, tmp_path / "run"))
    header = json.loads((run / HEADER_FILE).read_text())
    for name in ("../../left", "/left", "a\0b", "", "left\n"):
        header["drives"] = {name: header["drive"]}
        (run / HEADER_FILE).write_text(json.dumps(header))
        with pytest.raises(JournalError, match="no name of a drive"):
            RunRecord(run)


@pytest.mark.parametrize("name", ["bench\n", "bench\0", "../bench", "\x1b"])
def test_a_rig_is_paused_by_a_name_that_is_one(name: str, tmp_path: Path) -> None:
    queue = Queue(Home(tmp_path))
    for act in (queue.pause, queue.resume, queue.is_paused):
        with pytest.raises(ValueError, match="no name of a rig"):
            act(name)
