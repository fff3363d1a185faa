"""Files that are read back may hold anything: what comes of it is a message, or what is whole."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labctl.analysis.run.summary import summarise
from labctl.capture.run.resumption import resumption
from labctl.config.plan import load_plan
from labctl.config.rig import load_rig, parse_rig
from labctl.config.site import SITE_VARIABLE
from labctl.errors import ConfigurationError, JournalError, LabctlError
from labctl.record.layout import CHANNELS_DIR, EVENTS_FILE, HEADER_FILE, READING
from labctl.record.reader import RunRecord
from labctl.service.daemon.daemon import _daemon_notice_addresses
from labctl.service.daemon.recovery import outcome_of, phases_done
from labctl.service.daemon.settings import ServiceSettings
from labctl.service.data_dir import Home
from labctl.service.runs.event_tail import EventTail
from labctl.service.runs.run_view import RunView
from labctl.service.status.local_rigs import daemon_info
from labctl.sinks.cursor import Cursor
from labctl.sinks.follow.follower import Follower
from labctl.sinks.influxdb.settings import influx_settings
from tests.servers.influx_run import MadeRun, drained
from tests.unit.config.test_rig import RIG

DEEP = "[" * 3_000
LONG = "9" * 5_000
BENCH = parse_rig(RIG, "bench.toml")
WRONG: tuple[Any, ...] = (
    None, True, -1, 1.5, 1 << 70, float("inf"), float("nan"), 1e300, "", "x", "../../etc/passwd",
    "\0", [], {}, [None], {"a": {}},
)  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    return MadeRun(folder, seconds=6.0, rig_text=RIG).whole().path


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "run"))


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of everything in a JSON document but the whole."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


def spoilt(document: Any, seed: int) -> Any:
    """The document with something wrong in one or two places."""
    rng = random.Random(seed)
    made = json.loads(json.dumps(document))
    for _ in range(rng.choice((1, 1, 2))):
        *path, last = rng.choice(list(places(made)))
        parent = made
        for key in path:
            parent = parent[key]
        if rng.random() < 0.2:
            del parent[last]
        else:
            parent[last] = rng.choice(WRONG)
    return made


def read_back(run: Path) -> None:
    """Everything that reads a run; only its own errors may come out."""
    for read in (
        lambda: summarise(RunRecord(run)),
        lambda: drained(Follower(run, Cursor())),
        lambda: EventTail(run).new_events(),
        lambda: (outcome_of(run), phases_done(run)),
        lambda: RunView(run).view(),
        lambda: resumption(run, BENCH),
    ):
        try:
            read()
        except LabctlError as error:
            assert str(error)


FUZZ = int(os.environ.get("LABCTL_FUZZ", "0"))
"""How many files of each kind to spoil at random; 0: the same few each time."""

many = settings(
    max_examples=FUZZ or 60,
    derandomize=not FUZZ,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@many
@given(seed=st.integers(0, 1 << 40))
def test_a_spoilt_header(whole: Path, run: Path, seed: int) -> None:
    header = json.loads((whole / HEADER_FILE).read_text())
    (run / HEADER_FILE).write_text(json.dumps(spoilt(header, seed)))
    read_back(run)


@many
@given(seed=st.integers(0, 1 << 40))
def test_spoilt_events(whole: Path, run: Path, seed: int) -> None:
    lines = (whole / EVENTS_FILE).read_text().splitlines()
    number = random.Random(seed).randrange(len(lines))
    lines[number] = json.dumps(spoilt(json.loads(lines[number]), seed))
    (run / EVENTS_FILE).write_text("\n".join(lines) + "\n")
    read_back(run)


@many
@given(seed=st.integers(0, 1 << 40), data=st.binary(max_size=40))
def test_spoilt_channels(whole: Path, run: Path, seed: int, data: bytes) -> None:
    files = sorted(file.name for file in (whole / CHANNELS_DIR).iterdir())
    name = random.Random(seed).choice(files)
    content = bytearray((whole / CHANNELS_DIR / name).read_bytes())
    place = seed % len(content)
    content[place : place + len(data)] = data
    (run / CHANNELS_DIR / name).write_bytes(content)
    read_back(run)


@pytest.mark.parametrize("text", [DEEP, '{"t": 1e999}', f'{{"t": {LONG}}}', '{"t": -5, "kind": 1}'])
def test_a_line_that_is_no_event_costs_itself(run: Path, text: str) -> None:
    before = len(RunRecord(run).events)
    with (run / EVENTS_FILE).open("a") as file:
        file.write(f"{text}\n")
    record = RunRecord(run)
    assert len(record.events) == before and len(record.problems) == 1
    read_back(run)


def test_the_name_of_a_channel_leaves_no_folder(run: Path) -> None:
    header = json.loads((run / HEADER_FILE).read_text())
    for name in ("../../secret", "/etc/passwd", "a/b", "..", "", "a\0b"):
        header["channels"][0]["name"] = name
        (run / HEADER_FILE).write_text(json.dumps(header))
        with pytest.raises(JournalError, match="no name of a channel"):
            RunRecord(run)


@pytest.mark.parametrize("t_ns", [5, 4 * 10**18])
def test_a_reading_of_another_century_does_not_hold_up_who_follows(run: Path, t_ns: int) -> None:
    """One wrong time is no reason to make billions of empty bins."""
    file = run / CHANNELS_DIR / "v12.voltage"
    with file.open("ab") as channel:
        channel.write(np.array([(t_ns, 12.0)], READING).tobytes())
    assert len(drained(Follower(run, Cursor()))) > 10
    read_back(run)


@many
@given(seed=st.integers(0, 1 << 40))
def test_a_spoilt_cursor_is_the_beginning_or_a_place(run: Path, seed: int) -> None:
    follower = Follower(run, Cursor())
    drained(follower)
    good = {
        "format": 1, "destination": "d", "bin_ns": 10**9, "events": 300, "summarised": 0,
        "bins": {"power.12V": 1_700_000_003_000_000_000}, "records": {"fio.read.iops": 3},
        "throttling": [[5, "warning"]],
    }  # fmt: skip
    Cursor.from_json(json.dumps(good))
    try:
        cursor = Cursor.from_json(json.dumps(spoilt(good, seed)))
    except ValueError:
        return
    drained(Follower(run, cursor))


@pytest.mark.parametrize("text", [f"a = {DEEP}", f"a = {LONG}", "a = ", "\0"])
def test_no_toml_at_all(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file.toml"
    file.write_text(text)
    monkeypatch.setenv(SITE_VARIABLE, str(file))
    reads: tuple[Callable[[], object], ...] = (
        lambda: load_rig(file),
        lambda: load_plan(str(file)),
        lambda: influx_settings("", "rig"),
    )
    for read in reads:
        with pytest.raises(ConfigurationError, match="TOML"):
            read()


def test_a_daemon_file_and_a_place_of_addresses_that_are_none(tmp_path: Path) -> None:
    home = Home(tmp_path)
    good = {"pid": 1, "pid_ticks": 1, "boot_id": "b", "since_s": 1.0, "runs": "r", "rigs": {}}
    for key in good:
        for wrong in WRONG:
            home.daemon_file.write_text(json.dumps({**good, key: wrong}))
            daemon_info(home)
    messages: list[str] = []
    assert _daemon_notice_addresses(ServiceSettings(notify_file="a\0b"), messages.append) == ()
    assert len(messages) == 1
