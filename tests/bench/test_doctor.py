"""``labctl doctor`` on a bench where all is well, and on benches that are broken."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from instruments.reading import Status
from instruments.simulated.bench import Bench
from instruments.simulated.meter_kit.faults import Fault
from labctl.capture.identity.nvme_pages import parse_smart_log
from labctl.config.rig import load_rig
from labctl.service.doctor import examination
from labctl.service.doctor.meters import TODO_OF_STATUS
from tests.forked_labctl import labctl
from tests.json_schemas import validate

pytestmark = [pytest.mark.bench, pytest.mark.timeout(120)]

BUSY = TODO_OF_STATUS[Status.UNREADABLE]
"""What is said of a meter whose answers a busy host takes too late to know their time."""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with Bench(tmp_path_factory.mktemp("doctor") / "bench") as running:
        yield running


@pytest.fixture
def variant(bench: Bench, tmp_path: Path) -> Any:
    """The bench's rig with a pattern of its text replaced, and with more text."""

    def make(pattern: str = "$^", by: str = "", more: str = "") -> Path:
        text = bench.rig.read_text() + more
        changed = re.sub(pattern, by, text, count=1)
        assert changed != text or pattern == "$^"
        path = tmp_path / "rig.toml"
        path.write_text(changed)
        return path

    return make


def doctor(
    rig: Path, *words: str, path: str = os.environ["PATH"]
) -> tuple[int, list[dict[str, str]]]:
    runs = rig.parent / "runs"
    environment = {**os.environ, "PATH": path}
    done = labctl("doctor", rig, *words, "--runs", runs, "--json", env=environment)
    assert done.stdout, done.stderr
    validate("doctor", json.loads(done.stdout))
    return done.returncode, json.loads(done.stdout)["checks"]


def troubles(checks: list[dict[str, str]]) -> list[dict[str, str]]:
    """Without those that are only of a busy host."""
    return [one for one in checks if one["level"] == "trouble" and one["todo"] != BUSY]


def test_a_bench_in_order_has_no_trouble_and_a_page_of_80_columns(bench: Bench) -> None:
    done = labctl("doctor", bench.rig, "demo", cwd=bench.directory.parent)
    assert done.returncode == 0 or BUSY in done.stdout, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    one_word = 80 - 22  # of a path or a command may take more: they stay whole, to be copied
    wide = [line for line in lines if len(line) > 80]
    assert [line for line in wide if max(map(len, line.split())) <= one_word] == []
    for subject in ("host", "drive", "plan", "disk", *bench.addresses, "drive_temp", "12V", "3V3"):
        # a meter may be warned of, or be in trouble, whose answers a busy host took late
        level = "(ok|warning|trouble)" if subject in bench.addresses else "ok"
        assert any(re.match(rf"{level} +{subject}\b", line) for line in lines), subject
    assert not (bench.directory.parent / "runs").exists()


def test_nothing_is_written_to_the_drive(bench: Bench, variant: Any) -> None:
    def written() -> int:
        log = parse_smart_log((bench.directory / "nvme-state" / "log-2.bin").read_bytes())
        assert log is not None and log.host_write_commands is not None
        return log.host_write_commands

    before = written()
    _, checks = doctor(variant(), "demo")
    assert troubles(checks) == []
    assert written() == before


def test_a_meter_that_is_not_there(bench: Bench, variant: Any) -> None:
    resource = bench.addresses["i12"]["resource"]
    code, checks = doctor(variant(re.escape(resource), "TCPIP0::127.0.0.1::9::SOCKET"))
    assert code == 1
    assert {check["subject"] for check in troubles(checks)} == {"i12"}
    # it may be warned of, where a busy host took its answers late
    assert any(check["subject"] == "v12" for check in checks)


def test_a_meter_that_is_another_model(variant: Any) -> None:
    code, checks = doctor(variant('model = "34470A"', 'model = "34460A"'))
    assert code == 1
    assert [check["subject"] for check in troubles(checks)] == ["i33"]
    assert "34470A" in troubles(checks)[0]["text"]


def test_a_meter_on_hold(bench: Bench, variant: Any) -> None:
    bench.inject("v33", Fault.HOLD, 60.0)
    try:
        code, checks = doctor(variant())
    finally:
        bench.inject("v33", Fault.HOLD, 0.0)
    assert code == 1
    found = troubles(checks)
    assert found[0]["subject"] == "v33"
    assert "HOLD" in found[0]["todo"]


def test_another_drive_than_the_rig_names(variant: Any) -> None:
    code, checks = doctor(variant('serial = "SIM[0-9]+"', 'serial = "SOMEBODYS"'))
    assert code == 1
    assert "SOMEBODYS: this is another drive" in troubles(checks)[0]["text"]


def test_a_plan_that_writes_where_writing_is_not_allowed(variant: Any, tmp_path: Path) -> None:
    plan = tmp_path / "w.toml"
    plan.write_text('name = "w"\n[[sweeps]]\npattern = "randwrite"\nduration_s = 5\n')
    rig = variant("destructive = true", "destructive = false")
    code, checks = doctor(rig, str(plan))
    assert code == 1
    assert "drive.destructive = true" in troubles(checks)[0]["text"]
    _, checks = doctor(rig)
    assert troubles(checks) == []


def test_a_disk_without_room(variant: Any) -> None:
    code, checks = doctor(variant(more='\n[limits]\nfree_disk = "900t"\ncelsius = 75\n'))
    assert code == 1
    assert [check["subject"] for check in troubles(checks)] == ["disk"]
    assert "labctl tidy" in troubles(checks)[0]["todo"]


def test_a_plan_that_takes_longer_than_the_limit(variant: Any) -> None:
    code, checks = doctor(variant(more="\n[limits]\nhours = 0.01\n"), "demo")
    assert code == 1
    assert [check["subject"] for check in troubles(checks)] == ["limits"]


def test_no_fio(variant: Any, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("setpriv", "sh", "env", "python3"):
        (tools / name).symlink_to(str(shutil.which(name)))
    code, checks = doctor(variant(), path=str(tools))
    assert code == 1
    assert "fio is not installed" in troubles(checks)[0]["text"]
    assert "apt install fio" in troubles(checks)[0]["text"]


def test_a_drive_that_is_not_there(bench: Bench, variant: Any) -> None:
    code, checks = doctor(variant(r"drive\.sock", "no.sock"))
    assert code == 1
    assert "is the drive on?" in troubles(checks)[0]["text"]


def test_servers_that_are_away_stop_no_run(variant: Any) -> None:
    more = '\n[sinks.influxdb]\nurl = "http://127.0.0.1:9"\nbucket = "b"\norg = "o"\n'
    more += '[sinks.mqtt]\nhost = "127.0.0.1"\nport = 9\n'
    _, checks = doctor(variant(more=more))
    assert troubles(checks) == []
    levels = {check["subject"]: check["level"] for check in checks}
    assert (levels["influxdb"], levels["mqtt"]) == ("warning", "warning")


def test_a_host_that_there_is_not_is_one_check_of_several(variant: Any) -> None:
    code, checks = doctor(variant('host = "local"', 'host = "no-such-host.invalid"'))
    assert code == 1
    assert {check["subject"] for check in troubles(checks)} >= {"host"}
    assert {"ok", "warning"} & {check["level"] for check in checks if check["subject"] == "v12"}


def test_a_fault_of_labctl_is_reported_while_a_host_is_being_connected_to(
    variant: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """asyncio waits for ever for a process whose start is cancelled (Python 3.11)."""

    def faulty(text: str, source: str) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(examination, "influx_settings", faulty)
    rig = load_rig(variant('host = "local"', 'host = "no-such-host.invalid"'))
    with pytest.raises(ZeroDivisionError):
        examination.examine(rig, None, tmp_path)


def test_mistakes_of_the_files_are_reported_as_everywhere(variant: Any) -> None:
    done = labctl("doctor", variant(), "no-such-plan")
    assert done.returncode == 2
    assert "no-such-plan" in done.stderr
