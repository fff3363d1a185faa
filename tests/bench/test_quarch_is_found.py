"""``labctl instruments`` finds the modules of a QIS on this machine, and is silent without one."""

from __future__ import annotations

import re
import socket
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from instruments import identify
from labctl.cli.meters.instruments import list_instruments
from tests.bench.running_meters import Running, running_meters
from tests.bench.test_quarch import meter


@pytest.fixture
def qis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setenv("LABCTL_HOME", str(tmp_path / "home"))
    with running_meters(tmp_path, [meter("frame_numbers")], seed=1) as running:
        host, _, port = running.addresses["ppm"]["server"].partition(":")
        monkeypatch.setattr(identify, "_QIS", (host, int(port)))
        yield running


def test_a_module_is_listed_and_its_rig_lines_are_printed(
    qis: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    module = qis.addresses["ppm"]["resource"]
    assert list_instruments() == 0
    listed = capsys.readouterr().out
    assert all(len(line) <= 80 for line in listed.splitlines())
    assert re.search(f"{module} +Quarch HD Programmable Power Module", listed)
    assert list_instruments([module.lower()]) == 0
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    assert lines[0].endswith(": Quarch HD Programmable Power Module +Triggering")
    entry = tomllib.loads("\n".join(line.strip() for line in lines[1:]))["instruments"]["meter1"]
    assert entry == {"driver": "quarch", "resource": module}
    assert "# rails =" in printed and "# current_floor_amps =" in printed


def test_a_module_that_is_not_there(qis: Running, capsys: pytest.CaptureFixture[str]) -> None:
    qis.inject("ppm", "unplugged", 60)
    assert identify.quarch_modules() == []
    assert list_instruments([qis.addresses["ppm"]["resource"]]) == 1
    assert "does QIS run, and is the module on?" in capsys.readouterr().out


@pytest.mark.parametrize("greeting", [None, b"", b"220 mail\r\n", b"$t v1.55.1 now\r\n"])
def test_what_else_may_listen_there(
    greeting: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing, something that says nothing, another server, a QIS that hangs."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(identify, "_QIS", server.getsockname())
        if greeting is None:
            server.close()
        else:
            threading.Thread(target=lambda: server.accept()[0].sendall(greeting)).start()
        assert identify.quarch_modules() == []


def test_an_address_of_visa_is_not_taken_for_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(identify, "identify_visa", asked.append)
    addresses = ["USB::0x2A8D::0x0101::MY1::INSTR", "TCPIP::192.0.2.1::5025::SOCKET"]
    for address in addresses:
        identify.identify_address(address)
    assert asked == addresses
