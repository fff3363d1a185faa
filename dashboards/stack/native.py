"""The servers as child processes: started, waited for, watched, stopped."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from dashboards import HOME_DASHBOARD, JSON_DIR, PROVISIONING_DIR
from dashboards.stack.errors import StackError
from dashboards.stack.influx_setup import InfluxSetup, answers_healthy
from dashboards.stack.mosquitto_password import password_line
from dashboards.stack.programs import NAMES, find_programs
from dashboards.stack.secrets_file import load_or_create, write

LOOPBACK = "127.0.0.1"
NAME = "labctl"
"""User, organisation, bucket."""

READ_TOKEN = "LABCTL_INFLUX_READ_TOKEN"

HEALTHY_WITHIN_S = 90.0
STOPPED_WITHIN_S = 10.0
POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the servers listen, on loopback."""

    influxdb: int = 8086
    mosquitto: int = 1883
    grafana: int = 3000


@dataclass(frozen=True, slots=True)
class Server:
    """One child: its name, its process, and its log file."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def log_end(self) -> str:
        """The end of its log."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-5:])


def default_state() -> Path:
    """Where data and secrets of the stack are kept: the user's state directory."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "labctl" / "stack"


class NativeStack:
    """The servers, running while this context is entered."""

    def __init__(self, state: Path, ports: Ports, without: frozenset[str] = frozenset()) -> None:
        """``state`` keeps data, logs and secrets; ``without`` names servers to leave out."""
        self.state = state.absolute()
        self.names = tuple(name for name in NAMES if name not in without)
        self.secrets_path = self.state / "secrets.env"
        self.secrets: dict[str, str] = {}
        self._ports = ports
        self._servers: list[Server] = []

    def __enter__(self) -> NativeStack:
        """Start and wait for health. Raises StackError."""
        programs = find_programs(self.names)
        self._refuse_taken_ports()
        self.state.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.secrets = load_or_create(self.secrets_path)
        starts = {
            "influxdb": self._start_influxdb,
            "mosquitto": self._start_mosquitto,
            "grafana": self._start_grafana,
        }
        try:
            for name, command in programs.items():
                starts[name](command)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End every server: SIGTERM, then SIGKILL after 10 s."""
        for server in reversed(self._servers):
            server.process.terminate()
        deadline = time.monotonic() + STOPPED_WITHIN_S
        for server in reversed(self._servers):
            try:
                server.process.wait(max(deadline - time.monotonic(), POLL_S))
            except subprocess.TimeoutExpired:
                server.process.kill()
                server.process.wait()
        self._servers.clear()

    def addresses(self) -> dict[str, str]:
        """The address of each server, by its name."""
        schemes = {"influxdb": "http", "mosquitto": "mqtt", "grafana": "http"}
        return {name: f"{schemes[name]}://{LOOPBACK}:{self._port(name)}" for name in self.names}

    def ended(self) -> Server | None:
        """A server that has ended by itself, if any."""
        return next((item for item in self._servers if item.process.poll() is not None), None)

    def _port(self, name: str) -> int:
        return int(asdict(self._ports)[name])

    def _refuse_taken_ports(self) -> None:
        taken = [
            f"port {self._port(name)} is taken: give another one (--{name}-port)"
            for name in self.names
            if _native_server_listens(self._port(name))
        ]
        if taken:
            raise StackError("\n".join(taken), usage=True)

    def _start(
        self,
        name: str,
        command: list[str],
        healthy: Callable[[], bool],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        log = self.state / f"{name}.log"
        # The servers end with this process, also when it is killed; Ctrl-C is for it alone.
        die_with_parent = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*die_with_parent, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
                cwd=self.state,
            )
        server = Server(name, process, log)
        self._servers.append(server)
        deadline = time.monotonic() + HEALTHY_WITHIN_S
        while not healthy():
            if process.poll() is not None:
                raise StackError(f"{name} ended at once; {log} ends:\n{server.log_end()}")
            if time.monotonic() > deadline:
                raise StackError(f"{name} is not well after {HEALTHY_WITHIN_S:.0f} s: see {log}")
            time.sleep(POLL_S)

    def _start_influxdb(self, command: list[str]) -> None:
        folder = _native_server_folder(self.state / "influxdb")
        address = self.addresses()["influxdb"]
        options = {
            "--http-bind-address": f"{LOOPBACK}:{self._ports.influxdb}",
            "--bolt-path": str(folder / "influxd.bolt"),
            "--engine-path": str(folder / "engine"),
            "--sqlite-path": str(folder / "influxd.sqlite"),
        }
        arguments = [part for option in options.items() for part in option]
        self._start(
            "influxdb",
            [*command, *arguments, "--reporting-disabled"],
            lambda: answers_healthy(f"{address}/health"),
        )
        setup = InfluxSetup(address, NAME)
        token = self.secrets["LABCTL_INFLUX_TOKEN"]
        setup.once(self.secrets["LABCTL_INFLUX_PASSWORD"], token)
        if not self.secrets.get(READ_TOKEN):
            self.secrets[READ_TOKEN] = setup.read_token(token)
            write(self.secrets_path, self.secrets)

    def _start_mosquitto(self, command: list[str]) -> None:
        folder = _native_server_folder(self.state / "mosquitto")
        passwords = folder / "passwords"
        passwords.touch(mode=0o600)
        passwords.write_text(password_line(NAME, self.secrets["LABCTL_MQTT_PASSWORD"]), "utf-8")
        configuration = folder / "mosquitto.conf"
        lines = (
            f"listener {self._ports.mosquitto} {LOOPBACK}",
            "allow_anonymous false",
            f"password_file {passwords}",
            "persistence true",
            f"persistence_location {folder}/",
            f"user {getpass.getuser()}",
            "log_dest stdout",
        )
        configuration.write_text("\n".join(lines) + "\n", "utf-8")
        self._start(
            "mosquitto",
            [*command, "-c", str(configuration)],
            lambda: _native_server_listens(self._ports.mosquitto),
        )

    def _start_grafana(self, command: list[str]) -> None:
        folder = _native_server_folder(self.state / "grafana")
        environment = {
            "GF_PATHS_DATA": str(folder),
            "GF_PATHS_LOGS": str(folder / "log"),
            "GF_PATHS_PLUGINS": str(folder / "plugins"),
            "GF_PATHS_PROVISIONING": str(PROVISIONING_DIR),
            "GF_SERVER_HTTP_ADDR": LOOPBACK,
            "GF_SERVER_HTTP_PORT": str(self._ports.grafana),
            "GF_SECURITY_ADMIN_PASSWORD": self.secrets["LABCTL_GRAFANA_PASSWORD"],
            "GF_AUTH_ANONYMOUS_ENABLED": "true",
            "GF_AUTH_ANONYMOUS_ORG_ROLE": "Viewer",
            "GF_ANALYTICS_REPORTING_ENABLED": "false",
            "GF_ANALYTICS_CHECK_FOR_UPDATES": "false",
            "GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH": str(HOME_DASHBOARD),
            "LABCTL_DASHBOARDS": str(JSON_DIR),
            "LABCTL_INFLUX_URL": f"http://{LOOPBACK}:{self._ports.influxdb}",
            "LABCTL_INFLUX_BUCKET": NAME,
            READ_TOKEN: self.secrets.get(READ_TOKEN, ""),
        }
        health = f"{self.addresses()['grafana']}/api/health"
        self._start("grafana", command, lambda: answers_healthy(health), environment)


def _native_server_folder(folder: Path) -> Path:
    folder.mkdir(exist_ok=True, mode=0o700)
    return folder


def _native_server_listens(port: int) -> bool:
    with socket.socket() as connection:
        connection.settimeout(1.0)
        return connection.connect_ex((LOOPBACK, port)) == 0
