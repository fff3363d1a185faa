"""No program that labctl starts is given the secrets in labctl's own environment."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from instruments.transports.process_line import ProcessLine
from instruments.transports.ssh import CONFIG_VARIABLE
from labctl.capture.host.drive_host import LocalHost
from labctl.capture.host.machine import LocalMachine
from labctl.capture.host.ssh import HostUnreachable, SshMachine
from labctl.record.timebase import Timebase
from labctl.service.daemon.settings import NOTIFY_VARIABLE
from labctl.sinks.influxdb.settings import TOKEN_VARIABLE
from labctl.sinks.mqtt.settings import PASSWORD_VARIABLE

ROOT = Path(__file__).parents[3]
SECRETS = (TOKEN_VARIABLE, PASSWORD_VARIABLE, NOTIFY_VARIABLE, "LABCTL_INFLUX_READ_TOKEN")
STARTS = {"Popen", "run", "call", "check_call", "check_output"}
STARTED_WITH_SECRETS = {
    "labctl/service/daemon/run_process.py": "a run of the daemon's, which sends itself",
}


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SECRETS:
        monkeypatch.setenv(name, "hunter2")
    monkeypatch.setenv("LABCTL_OF_NO_SECRET", "known")


def assert_clean(environment: str) -> None:
    assert "LABCTL_OF_NO_SECRET=known" in environment
    assert "hunter2" not in environment


def test_a_tool_of_the_drive() -> None:
    assert_clean(LocalMachine().run(["env"]).stdout)


async def test_fio(tmp_path: Path) -> None:
    spawned = await LocalHost(Timebase()).spawn(["env"], tmp_path)
    assert_clean((await spawned.stdout.read()).decode())
    await spawned.wait()


def test_the_program_of_a_meter() -> None:
    line = ProcessLine("meter", ["env"], "env", "")
    line.open()
    output = b""
    while not output.endswith(b"\n") or b"LABCTL_OF" not in output:
        output += line.read_some(5.0)
    line.close()
    assert_clean(output.decode())


def test_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose own configuration could send them on (SendEnv), or start programs (ProxyCommand)."""
    seen = tmp_path / "seen"
    config = tmp_path / "config"
    config.write_text(f"Host box\nProxyCommand sh -c 'env > {seen}; true'\n")
    monkeypatch.setenv(CONFIG_VARIABLE, str(config))
    with pytest.raises(HostUnreachable):
        SshMachine("box").run(["true"])
    assert_clean(seen.read_text())


def started() -> Iterator[tuple[str, ast.Call]]:
    """Every place that starts a program: its file, and the call."""
    for folder in ("labctl", "instruments"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    whose = node.func.value
                    of_subprocess = isinstance(whose, ast.Name) and whose.id == "subprocess"
                    name = node.func.attr
                    if (of_subprocess and name in STARTS) or name.startswith("create_subprocess"):
                        yield str(file.relative_to(ROOT)), node


def test_every_program_that_is_started_is_given_an_environment_without_secrets() -> None:
    found = [
        (file, {word.arg: ast.unparse(word.value) for word in call.keywords}.get("env", ""))
        for file, call in started()
    ]
    assert {"labctl/capture/host/programs.py", "instruments/transports/process_line.py"} <= {
        it[0] for it in found
    }
    others = {
        file for file, environment in found if "environment_without_secrets" not in environment
    }
    assert others == set(STARTED_WITH_SECRETS)
