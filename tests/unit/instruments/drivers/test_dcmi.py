"""DCMI: what ipmitool prints, a program that does not do what it should, and the real one."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from instruments.drivers.dcmi import Dcmi, DcmiSettings, decode_reading
from instruments.errors import ConnectionLost, SettingRefused, WrongInstrument
from instruments.reading import Batch, Status

PRINTED = """
    Instantaneous power reading:                   214 Watts
    Minimum during sampling period:                  2 Watts
    Maximum during sampling period:                468 Watts
    Average power reading over sample period:      184 Watts
    IPMI timestamp:                           11/25/26 23:21:44 UTC    Sampling period:           \
               00000001 Seconds.
    Power reading state is:                   activated


"""
"""What ipmitool 1.8.19 printed of a controller with these watts."""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (PRINTED, 214.0),
        (PRINTED.replace("   214", "     0"), 0.0),
        (PRINTED.replace("is:                   activated", "is: deactivated"), Status.NO_VALUE),
        ("", None),
        (PRINTED.partition("    Power reading")[0], None),
        (PRINTED.replace("214", "-14"), None),
        (PRINTED.replace("214 Watts", "214 mW"), None),
    ],
)
def test_watts_are_those_of_the_moment_and_none_where_they_are_not_measured(
    text: str, found: float | Status | None
) -> None:
    assert decode_reading(text) == found


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"user": "a"}, "belong together"),
        ({"host": "bmc"}, "asked with user"),
        ({"user": "a", "password_file": "p"}, "this machine without"),
        ({"host": "-oProxy", "user": "a", "password_file": "p"}, "host"),
        ({"host": "bmc", "user": "-f", "password_file": "p"}, "user"),
        ({"host": "bmc", "user": "a", "password_file": "p", "privilege": "root"}, "privilege"),
        ({"host": "bmc", "user": "a", "password_file": "~nobody-of-this-name/p"}, "no such home"),
    ],
)
def test_settings_that_contradict_or_would_be_options_are_refused(
    keys: dict[str, str], said: str
) -> None:
    with pytest.raises(ValidationError, match=said):
        DcmiSettings(**keys)  # type: ignore[arg-type]


@pytest.fixture
def ipmitool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a shell script in the place of ipmitool; it notes its arguments and environment."""

    def put(script: str) -> None:
        program = tmp_path / "ipmitool"
        noted = f'echo "$@" >>{tmp_path}/arguments; env >{tmp_path}/environment'
        program.write_text(f"#!/bin/sh\n{noted}\n{script}\n")
        program.chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return put


def over_the_network(folder: Path, port: int = 623, **keys: object) -> Dcmi:
    password = folder / "password"
    password.write_text("hidden\n")
    settings = DcmiSettings(
        host="127.0.0.1", port=port, user="labctl", password_file=str(password), interval_s=1.0,
        dither=False, **keys,  # type: ignore[arg-type]
    )  # fmt: skip
    return Dcmi("bmc", settings, time.time_ns)


def next_reading(meter: Dcmi) -> Batch:
    while True:
        batch = meter.read()
        if batch.blocks or batch.statuses:
            return batch


def test_each_reading_is_a_run_of_ipmitool_that_is_not_told_the_password(
    ipmitool: Callable[[str], None], tmp_path: Path
) -> None:
    (tmp_path / "printed").write_text(PRINTED)
    ipmitool(f"cat {tmp_path}/printed")
    meter = over_the_network(tmp_path)
    meter.open()
    meter.start()
    (block,) = next_reading(meter).blocks
    assert block.channel == "power" and block.values.tolist() == [214.0]
    assert abs(time.time_ns() - int(block.t_ns[0])) < 60e9
    meter.close()
    arguments = (tmp_path / "arguments").read_text()
    lan = f"-I lanplus -H 127.0.0.1 -p 623 -U labctl -f {tmp_path}/password -L USER"
    assert arguments.splitlines() == [f"{lan} dcmi power reading"] * 2
    assert "hidden" not in arguments + (tmp_path / "environment").read_text()


@pytest.mark.parametrize(
    ("script", "error", "said"),
    [
        ("echo 'Error: no session' >&2; exit 1", ConnectionLost, "no session.*know DCMI"),
        ("echo nothing of the kind", WrongInstrument, "shows no power reading: nothing of"),
        ("exit 0", WrongInstrument, "shows no power reading: nothing"),
    ],
)
def test_what_ipmitool_says_instead_of_watts_is_handed_on(
    ipmitool: Callable[[str], None],
    tmp_path: Path,
    script: str,
    error: type[Exception],
    said: str,
) -> None:
    ipmitool(script)
    meter = over_the_network(tmp_path)
    with pytest.raises(error, match=said):
        meter.open()
    meter.close()


def test_a_password_file_that_is_not_there_is_said_before_anything_is_asked(
    ipmitool: Callable[[str], None], tmp_path: Path
) -> None:
    ipmitool("exit 0")
    meter = over_the_network(tmp_path)
    (tmp_path / "password").unlink()
    with pytest.raises(SettingRefused, match="password_file cannot be read"):
        meter.open()
    assert not (tmp_path / "arguments").exists()


CONTROLLER = """
import struct, sys
from pyghmi.ipmi.bmc import Bmc

class Controller(Bmc):
    watts = [214, 220, 231]

    def handle_raw_request(self, request, session):
        if (request["netfn"], request["command"]) != (0x2C, 2):
            return super().handle_raw_request(request, session)
        watts = self.watts.pop(0) if self.watts else 99
        power = struct.pack("<BHHHHIIB", 0xDC, watts, 2, 468, 184, 1, 1000, 0x40)
        session.send_ipmi_response(data=list(power))

controller = Controller({"labctl": "hidden"}, port=int(sys.argv[1]), address="127.0.0.1")
print("ready", flush=True)
controller.listen()
"""


@pytest.fixture
def controller() -> Iterator[int]:
    """The port of a board controller of another project, which answers with DCMI's bytes."""
    pytest.importorskip("pyghmi", reason="no pyghmi: a board controller to be asked")
    if shutil.which("ipmitool") is None:
        pytest.skip("no ipmitool")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    command = [sys.executable, "-c", CONTROLLER, str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield port
        process.kill()


def test_the_real_ipmitool_reads_a_board_controller(controller: int, tmp_path: Path) -> None:
    meter = over_the_network(tmp_path, controller)
    meter.open()
    meter.start()
    watts = [next_reading(meter).blocks[0].values.tolist() for _ in range(2)]
    meter.close()
    assert watts == [[220.0], [231.0]]
