"""A run from elsewhere with links in it, or with files without end: nothing outside of it is read
or written, and no more is read than any run has."""

from __future__ import annotations

import json
import os
import shutil
import tracemalloc
from pathlib import Path

import pytest

from labctl.analysis.run.summary import summarise
from labctl.errors import JournalError
from labctl.record.layout import CHANNELS_DIR, EVENTS_FILE, FIO_DIR, HEADER_FILE
from labctl.record.reader import RunRecord
from labctl.sinks.cursor import Cursor
from labctl.sinks.follow.follower import Follower
from tests.forked_labctl import labctl
from tests.servers.influx_run import MadeRun, drained
from tests.unit.config.test_rig import RIG

MADE_LATER = ("charts", "review", "sinks", "report.html", "phases.csv", "summary.json")
PARTS = (EVENTS_FILE, HEADER_FILE, f"{CHANNELS_DIR}/v12.voltage", CHANNELS_DIR, FIO_DIR)
COMMANDS = (
    "report {run}", "report {run} --json", "analyse {run}", "compare {run} {run}", "bundle {run}",
    "ship {run} --to http://127.0.0.1:9?bucket=b", "run --resume {run} --yes",
    "query --runs {root} from~phases", "runs --runs {root}",
)  # fmt: skip
"""``~`` stands for a space."""
SPARSE_BYTES = 400 << 20
MOST_BYTES = 160 << 20


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    return MadeRun(folder, seconds=6.0, rig_text=RIG).whole().path


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "runs" / whole.name))


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Somebody's folder, with something in it."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "precious").write_text("precious")
    return folder


def seen(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def plant(run: Path, name: str, outside: Path) -> None:
    """Put a link in the place of a part of the run, to what it was or to what is precious."""
    place = run / name
    if place.exists():
        shutil.move(place, outside / place.name)
        place.symlink_to(outside / place.name)
    else:
        place.symlink_to(outside if "." not in name else outside / "precious")


@pytest.mark.parametrize("name", [*MADE_LATER, *PARTS])
def test_a_run_with_a_link_is_refused_and_nothing_outside_is_touched(
    run: Path, outside: Path, name: str
) -> None:
    plant(run, name, outside)
    before = seen(outside)
    with pytest.raises(JournalError, match="is a link"):
        RunRecord(run)
    done = labctl("report", run)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert seen(outside) == before


@pytest.mark.parametrize("words", COMMANDS)
def test_so_does_every_command(run: Path, outside: Path, tmp_path: Path, words: str) -> None:
    (run / FIO_DIR).mkdir(exist_ok=True)
    (run / FIO_DIR / "x").symlink_to(outside / "precious")
    for name in ("charts", "review", "sinks"):
        (run / name).symlink_to(outside)
    before = seen(outside)
    arguments = [word.replace("~", " ") for word in words.format(run=run, root=run.parent).split()]
    done = labctl(
        *arguments, cwd=tmp_path, env={**os.environ, "LABCTL_HOME": str(tmp_path / "home")}
    )
    assert "Traceback" not in done.stderr
    # a table wraps where its column ends
    assert "is a link" in " ".join((done.stderr + done.stdout).split())
    assert seen(outside) == before
    assert not list(tmp_path.glob("*.zip"))


def test_a_broken_run_hides_no_other(run: Path, outside: Path, tmp_path: Path) -> None:
    good = shutil.copytree(run, run.parent / "another")
    (run / "charts").symlink_to(outside)
    done = labctl("runs", "--runs", run.parent)
    assert done.returncode == 0 and Path(good).name in done.stdout


@pytest.mark.parametrize("name", ["charts", FIO_DIR + "/stdout", HEADER_FILE])
def test_a_pipe_blocks_nobody(run: Path, name: str) -> None:
    place = run / name
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    os.mkfifo(place)
    with pytest.raises(JournalError, match="no file"):
        RunRecord(run)


def test_the_run_itself_may_be_behind_a_link(run: Path, tmp_path: Path) -> None:
    """It is the person who named it."""
    (tmp_path / "latest").symlink_to(run)
    assert RunRecord(tmp_path / "latest").events


def grown(file: Path) -> None:
    """Make a file that takes no room and never ends."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as stream:
        stream.truncate(SPARSE_BYTES)


@pytest.mark.long
@pytest.mark.parametrize("name", [HEADER_FILE, EVENTS_FILE, "fio", "sinks/influxdb.json"])
def test_no_more_is_read_than_any_run_has(run: Path, name: str) -> None:
    if name == "fio":
        header = json.loads((run / HEADER_FILE).read_text())
        assert header["phases"]
        name = str(RunRecord(run).fio_dir(RunRecord(run).header.phases[1]) / "stdout")
    grown(run / name)
    tracemalloc.start()
    try:
        if name == HEADER_FILE:
            with pytest.raises(JournalError, match="larger than"):
                RunRecord(run)
        else:
            record = RunRecord(run)
            assert len(record.events) > 5
            summarise(record)
            drained(Follower(run, Cursor()))
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
    finally:
        tracemalloc.stop()
