"""Runs into a real S3 server and out of it: refused, full, read-only, killed, slow."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from labctl.errors import INTERRUPTED
from labctl.record.record_digest import record_sha256
from labctl.service.doctor.checks import Check, Level
from labctl.service.doctor.servers import check_place
from labctl.service.runs.push import push
from labctl.store.address import parse_address
from labctl.store.open_place import open_place
from labctl.store.place import Place, get_many, holds
from tests.forked_labctl import labctl
from tests.json_schemas import validate
from tests.loop_device import loop_device, mounted
from tests.servers.influx_run import MadeRun
from tests.servers.s3_server import BUCKET, KEY, S3Server, SlowLine, running

RUN = "20260101T000000Z_bench_made-up"
STORE = f"s3://{BUCKET}/runs"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with running(tmp_path_factory.mktemp("s3")) as one:
        yield one


@pytest.fixture(scope="module")
def made(server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with its report, in the store ``made``."""
    run = MadeRun(tmp_path_factory.mktemp("made"), run_id=RUN).whole().path
    done = labctl("push", run, f"s3://{BUCKET}/made", env=server.environment())
    assert done.returncode == 0, done.stderr
    assert "verified" in done.stdout
    return run


@pytest.fixture
def place(
    server: S3Server, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Place:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    return open_place(parse_address(f"s3://{BUCKET}/{request.node.name[:60]}"))


def test_a_run_goes_into_a_bucket_and_comes_back(
    server: S3Server, made: Path, tmp_path: Path
) -> None:
    words = ("push", made, f"s3://{BUCKET}/made", "--json")
    done = labctl(*words, env=server.environment())
    (row,) = json.loads(done.stdout)
    validate("push", [row])
    assert (done.returncode, row["state"], row["sent_bytes"]) == (0, "there", 0)
    words = ("pull", "latest", f"s3://{BUCKET}/made", "--runs", tmp_path, "--json")
    done = labctl(*words, env=server.environment())
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    validate("pull", [row])
    assert record_sha256(Path(row["path"])) == record_sha256(made)


def test_objects_are_written_once_listed_and_read(place: Place) -> None:
    assert place.put_if_absent("a/one", b"12345") and not place.put_if_absent("a/one", b"other")
    assert place.put_if_absent("a/two", b"")
    listed = {one.key: one.size for one in place.list("a")}
    assert listed == {"a/one": 5, "a/two": 0} == {one.key: one.size for one in place.list()}
    assert list(place.list("nothing")) == [] and place.head("a") is None
    assert place.get("a/one", 1, 3) == b"23" and place.get("a/one", 3) == b"45"
    assert holds(place, "a/one", b"12345")
    assert not holds(place, "a/one", b"other") and not holds(place, "a/three", b"")
    assert dict(get_many(place, ["a/two", "a/one"])) == {"a/two": b"", "a/one": b"12345"}


@pytest.mark.parametrize(
    ("change", "store", "words"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "other"}, STORE, "does not take these credentials"),
        ({"AWS_ACCESS_KEY_ID": "nobody"}, STORE, "does not take these credentials"),
        ({}, "s3://not-there/runs", "has no bucket not-there"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, STORE, "cannot be reached"),
    ],
)
def test_what_a_server_refuses_is_one_line(
    server: S3Server, made: Path, change: dict[str, str], store: str, words: str
) -> None:
    done = labctl("push", made, store, env={**server.environment(), **change})
    assert done.returncode == 1 and done.stdout == ""
    assert words in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert "secret" not in done.stderr.lower()


async def test_doctor_says_whether_the_store_can_be_read(
    server: S3Server, made: Path, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And stores nothing."""
    assert (await asked(f"s3://{BUCKET}/made")).text == f"s3://{BUCKET}/made can be read"
    found = await asked(str(place.address))
    assert found.level is Level.OK and "the first run" in found.text
    assert list(place.list()) == []
    assert "has no bucket" in (await asked("s3://not-there")).text
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "other")
    found = await asked(f"s3://{BUCKET}/made")
    assert found.level is Level.WARNING and "does not take these credentials" in found.text


async def asked(address: str) -> Check:
    (found,) = [check async for check in check_place(parse_address(address))]
    return found


def test_a_profile_has_the_key(server: S3Server, made: Path, tmp_path: Path) -> None:
    secret = server.environment()["AWS_SECRET_ACCESS_KEY"]
    (tmp_path / "credentials").write_text(
        f"[lab]\naws_access_key_id={KEY}\naws_secret_access_key={secret}\n"
    )
    (tmp_path / "config").write_text(f"[profile lab]\nendpoint_url = {server.endpoint}\n")
    environment = {
        name: value for name, value in server.environment().items() if not name.startswith("AWS_")
    }
    files = {
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_PROFILE": "lab",
    }
    done = labctl("push", made, f"s3://{BUCKET}/made", env={**environment, **files})
    assert done.returncode == 0 and "already" in done.stdout, done.stderr


def test_two_machines_push_the_same_run(made: Path, place: Place, tmp_path: Path) -> None:
    """At the same time: one entry, and no error."""
    runs = [Path(shutil.copytree(made, tmp_path / name / RUN)) for name in "ab"]
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda run: push(run, place), runs))
    assert done[0].entry == done[1].entry
    assert [one.key for one in place.list("index")] == [done[0].entry.key]


def test_a_store_that_may_only_be_read_is_read(
    server: S3Server, made: Path, tmp_path: Path
) -> None:
    with running(server.folder, read_only=True) as locked:
        environment = locked.environment()
        again = labctl("push", made, f"s3://{BUCKET}/made", env=environment)
        assert again.returncode == 0 and "already" in again.stdout, again.stderr
        done = labctl("push", made, f"s3://{BUCKET}/new", env=environment)
        assert done.returncode == 1 and "refuses it" in done.stderr
        pulled = labctl("pull", RUN, f"s3://{BUCKET}/made", "--runs", tmp_path, env=environment)
        assert pulled.returncode == 0, pulled.stderr


def test_etags_that_are_no_md5_are_not_taken_for_one(made: Path, tmp_path: Path) -> None:
    with running(tmp_path / "s3", options=("--data-integrity-etag",)) as server:
        done = labctl("push", made, STORE, env=server.environment())
        assert done.returncode == 0 and "verified" in done.stdout, done.stderr


def big_run(folder: Path) -> Path:
    """A run of some hundred MB that no compression makes smaller."""
    run = MadeRun(folder, run_id=RUN).whole().path
    (run / "fio" / "x").mkdir(parents=True)
    (run / "fio" / "x" / "log").write_bytes(random.Random(1).randbytes(120 << 20))
    return run


def started(server: S3Server, run: Path, endpoint: str | None = None) -> subprocess.Popen[str]:
    """A push in a process of its own, whose bundle stays with the test when it is killed."""
    return subprocess.Popen(
        [sys.executable, "-m", "labctl", "push", run, STORE],
        env={**server.environment(endpoint), "TMPDIR": str(run.parent)}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def wait_for_objects(server: S3Server, count: int) -> None:
    deadline = time.monotonic() + 120
    folder = server.folder / BUCKET / "runs" / "runs"
    while time.monotonic() < deadline:
        if sum(file.is_file() for file in folder.rglob("*")) >= count:
            return
        time.sleep(0.02)
    raise AssertionError("no objects arrive")


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("who", ["client", "server"])
def test_a_push_that_is_killed_in_the_middle_is_gone_on_with(tmp_path: Path, who: str) -> None:
    run = big_run(tmp_path / "here")
    with running(tmp_path / "s3") as server:
        line = SlowLine(server.port, 0.002)
        process = started(server, run, line.endpoint)
        wait_for_objects(server, 1)
        if who == "client":
            process.kill()
            process.communicate()
        else:
            server.kill()
            line.close()
            said = process.communicate(timeout=300)[1]
            assert process.returncode == 1 and "cannot be reached" in said, said
            assert said.count("\n") == 1
            server.start()
        line.close()
        place_environment = server.environment()
        listed = labctl("pull", RUN, STORE, "--runs", tmp_path / "no", env=place_environment)
        assert listed.returncode == 2 and "no run" in listed.stderr  # half of it is none
        before = {
            file: file.stat().st_mtime_ns
            for file in (server.folder / BUCKET).rglob("*")
            if file.is_file()
        }
        again = labctl("push", run, STORE, env=place_environment, timeout=300)
        assert again.returncode == 0, again.stderr
        assert "MB were there" in again.stdout
        assert all(file.stat().st_mtime_ns == was for file, was in before.items())
        back = labctl("pull", RUN, STORE, "--runs", tmp_path / "back", env=place_environment)
        assert back.returncode == 0, back.stderr
        assert record_sha256(tmp_path / "back" / RUN) == record_sha256(run)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_full_store_says_so_and_has_no_half_run(tmp_path: Path) -> None:
    run = big_run(tmp_path / "here")
    with (
        loop_device(tmp_path) as (device, _),
        mounted(device, tmp_path) as folder,
        running(folder) as server,
    ):
        done = labctl("push", run, STORE, env=server.environment(), timeout=300)
        assert done.returncode == 1 and "the store is full" in done.stderr, done.stderr
        assert done.stderr.count("\n") == 1
        pulled = labctl("pull", RUN, STORE, "--runs", tmp_path / "no", env=server.environment())
        assert pulled.returncode == 2 and "no run" in pulled.stderr


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_slow_store_gets_all_of_it(tmp_path: Path) -> None:
    run = MadeRun(tmp_path / "here", run_id=RUN).whole().path
    with running(tmp_path / "s3") as server:
        line = SlowLine(server.port, 0.3)
        done = labctl("push", run, STORE, env=server.environment(line.endpoint), timeout=300)
        line.close()
        assert done.returncode == 0, done.stderr
        again = labctl("push", run, STORE, env=server.environment())
        assert "already" in again.stdout


@pytest.mark.long
@pytest.mark.timeout(600)
def test_ctrl_c_ends_a_push_that_hangs(tmp_path: Path) -> None:
    """A network that broke without a word: nothing is answered, nothing refused."""
    run = big_run(tmp_path / "here")
    with running(tmp_path / "s3") as server:
        line = SlowLine(server.port, 0.0, most_bytes=90 << 20)
        process = started(server, run, line.endpoint)
        assert line.stuck.wait(300)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=30)[1]
        line.close()
        assert process.returncode == INTERRUPTED and "Traceback" not in said, said
        again = labctl("push", run, STORE, env=server.environment(), timeout=300)
        assert again.returncode == 0 and "MB were there" in again.stdout, again.stderr
