"""Rigs of other machines, from their messages at an MQTT broker (docs/mqtt.md)."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from labctl.capture.meters.acquisition import State
from labctl.capture.meters.live_values import LiveRail, View
from labctl.errors import ConfigurationError, LabctlError, Mistake
from labctl.fio.status import LiveRates
from labctl.installed import Extra, need
from labctl.printable import printable
from labctl.record.phase import Pattern, Phase, Role
from labctl.record.timebase import NS_PER_S
from labctl.sinks.mqtt.settings import at_broker
from labctl.sinks.sink import ReportLine

if TYPE_CHECKING:
    from labctl.sinks.mqtt.settings import MqttSettings

CONNECT_WITHIN_S = 10.0
VALUE_VALID_S = 15.0
MOST_PAYLOAD_BYTES = 65_536
MOST_RIGS = 200
MOST_NAMES = 64
"""Of the rails, sensors and directions of one rig."""
EVENTS_KEPT = 50
_MOST_NUMBER = 1e15


@dataclass
class RemoteRig:
    """One rig, from its topics; values are not trusted to have the right type."""

    name: str
    online: bool = False
    state: dict[str, Any] = field(default_factory=dict)
    last_run: dict[str, Any] = field(default_factory=dict)
    heartbeat: dict[str, Any] = field(default_factory=dict)
    phase: dict[str, Any] = field(default_factory=dict)
    power: dict[str, tuple[float, dict[str, Any]]] = field(default_factory=dict)
    temperature: dict[str, tuple[float, dict[str, Any]]] = field(default_factory=dict)
    io: dict[str, tuple[float, dict[str, Any]]] = field(default_factory=dict)
    events: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=EVENTS_KEPT))

    def copy(self) -> RemoteRig:
        """A copy that later messages do not change."""
        return replace(
            self,
            power=dict(self.power),
            temperature=dict(self.temperature),
            io=dict(self.io),
            events=self.events.copy(),
        )

    @property
    def waiting(self) -> int:
        """How many jobs wait for it."""
        return _broker_integer(self.heartbeat, "queue_length")

    @property
    def heartbeat_ns(self) -> int:
        """When it sent its last heartbeat, ns since the epoch by its own clock; 0: never."""
        return _broker_integer(self.heartbeat, "t_ns")

    def now(self, name: str) -> float | None:
        """A number of its last heartbeat."""
        return _broker_number(self.heartbeat, name)

    @property
    def heard_now(self) -> bool:
        """Whether live values of it have just come, whatever its clock says."""
        return bool(_fresh_broker_values(self.power) or _fresh_broker_values(self.temperature))

    @property
    def last_outcome(self) -> tuple[str, str]:
        """How its last run ended, and why so; empty where that is not known."""
        known = self.last_run or self.state  # before labctl had a topic for it
        return str(known.get("outcome") or ""), str(known.get("reason") or "")

    @property
    def phase_number(self) -> tuple[int, int] | None:
        """The number of its phase, counted from 1, and of how many; None where that is unknown."""
        phases = _broker_integer(self.phase, "phases")
        return (_broker_integer(self.phase, "index") + 1, phases) if phases else None

    @property
    def last_run_ended_ns(self) -> int:
        """When its last run ended, ns since the epoch; 0: not known."""
        return _broker_integer(self.last_run or self.state, "t_ns")

    def view(self) -> View:
        """The values as for a run on this machine, as far as the topics carry them."""
        phase = self._phase()
        rails = {
            name: LiveRail(*(_broker_number(fields, key) for key in ("volts", "amps", "watts")))
            for name, fields in _fresh_broker_values(self.power).items()
        }
        celsius = {
            name: value
            for name, fields in _fresh_broker_values(self.temperature).items()
            if (value := _broker_number(fields, "celsius")) is not None
        }
        io = _fresh_broker_values(self.io).values()
        rates = None
        if io:
            rates = LiveRates(
                iops=sum(_broker_number(fields, "iops") or 0.0 for fields in io),
                bytes_per_s=sum(_broker_number(fields, "bytes_per_s") or 0.0 for fields in io),
                latency_mean_us=None,
            )
        meters_ok = self.heartbeat.get("meters_ok")
        states = {} if meters_ok is None else {"meters": State.READING if meters_ok else State.LOST}
        return View(
            phase=phase,
            phase_begin_ns=_broker_integer(self.phase, "t_ns"),
            phases_total=_broker_integer(self.phase, "phases"),
            rails=rails,
            celsius=celsius,
            rates=rates,
            instruments=states,
        )

    def _phase(self) -> Phase | None:
        if self.phase.get("active") is not True or self.state.get("state") != "running":
            return None
        patterns = {one.value: one for one in Pattern}
        roles = {one.value: one for one in Role}
        return Phase(
            index=_broker_integer(self.phase, "index"),
            role=roles.get(str(self.phase.get("role")), Role.MEASURE),
            sweep="",
            pattern=patterns.get(str(self.phase.get("pattern")), Pattern.IDLE),
            duration_s=0.0,
            block_size_bytes=_broker_integer(self.phase, "block_size_bytes"),
            queue_depth=_broker_integer(self.phase, "queue_depth"),
            jobs=_broker_integer(self.phase, "jobs"),
            read_pct=_broker_integer(self.phase, "read_pct"),
        )


class RemoteRigs:
    """Every rig with messages below a prefix. Any thread may use it."""

    def __init__(self, prefix: str) -> None:
        self._prefix = f"{prefix}/"
        self._rigs: dict[str, RemoteRig] = {}
        self._left_out = False
        self._lock = threading.Lock()

    def rigs(self) -> list[RemoteRig]:
        """Every rig that has sent a message, sorted by name, as it is now."""
        with self._lock:
            return [self._rigs[name].copy() for name in sorted(self._rigs)]

    @property
    def problem(self) -> str:
        """That there are more rigs than are kept, in words; empty where there are not."""
        if not self._left_out:
            return ""
        return f"more than {MOST_RIGS} rigs: those beyond are left out, whatever their state"

    def take(self, topic: str, content: bytes) -> None:
        """Take a message; one that no rig would publish is ignored."""
        if not topic.startswith(self._prefix) or len(content) > MOST_PAYLOAD_BYTES:
            return
        level, _, path = topic.removeprefix(self._prefix).partition("/")
        kind, _, name = path.partition("/")
        with self._lock:
            if level not in self._rigs and len(self._rigs) >= MOST_RIGS:
                self._left_out = True
                return
            rig = self._rigs.setdefault(level, RemoteRig(printable(unquote(level))))
            if kind == "availability":
                rig.online = content == b"online"
                return
            try:
                fields = json.loads(content)
            except (ValueError, RecursionError):
                return
            if isinstance(fields, dict):
                _update_broker_rig(rig, kind, printable(unquote(name)), _plain_values(fields))


class BrokerListener:
    """Listens to a broker in a thread of its own, until closed; ``rigs`` holds what it received."""

    def __init__(self, settings: MqttSettings, report_line: ReportLine) -> None:
        """``report_line`` gets a sentence when the broker cannot be reached, and when it can again.

        Raises MissingPart when the client of MQTT is not installed.
        """
        need(Extra.MQTT)
        self.rigs = RemoteRigs(settings.prefix)
        self._settings = settings
        self._report_line = report_line
        self._ready = threading.Event()
        self._over: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="broker-listener", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait until the broker answers; whether it did."""
        return self._ready.wait(seconds)

    def close(self) -> None:
        """Stop listening."""
        loop, over = self._loop, self._over
        if loop is not None and over is not None:
            loop.call_soon_threadsafe(over.set)
        self._thread.join(5.0)

    def _run(self) -> None:
        asyncio.run(self._listen())

    async def _listen(self) -> None:
        from labctl.sinks.mqtt.connection import MqttPublisher

        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()

        async def on_connect(client: Any) -> None:
            await client.subscribe(f"{self._settings.prefix}/+/#", qos=0)

        publisher = MqttPublisher(
            self._settings,
            self._report_line,
            on_connect=on_connect,
            on_message=self.rigs.take,
            meanwhile="",
        )
        publisher.start()

        async def answered() -> None:
            await publisher.until_connected()
            self._ready.set()

        waiting = asyncio.create_task(answered(), name="answered")
        await self._over.wait()
        waiting.cancel()
        await publisher.stop()


def _update_broker_rig(rig: RemoteRig, kind: str, name: str, fields: dict[str, Any]) -> None:
    now = time.monotonic()
    match kind:
        case "state":
            rig.state = fields
        case "last_run":
            rig.last_run = fields
        case "heartbeat":
            rig.heartbeat = fields
        case "phase":
            rig.phase = fields
        case "power" | "temperature" | "io":
            values = {"power": rig.power, "temperature": rig.temperature, "io": rig.io}[kind]
            if name in values or len(values) < MOST_NAMES:
                values[name] = (now, fields)
        case "event":
            rig.events.append(fields)


def _plain_values(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        key: printable(value) if isinstance(value, str) else value for key, value in fields.items()
    }


def _fresh_broker_values(
    values: dict[str, tuple[float, dict[str, Any]]],
) -> dict[str, dict[str, Any]]:
    now = time.monotonic()
    return {name: fields for name, (at, fields) in values.items() if now - at < VALUE_VALID_S}


def _broker_number(fields: dict[str, Any], key: str) -> float | None:
    value = fields.get(key)
    if (
        not isinstance(value, int | float)
        or isinstance(value, bool)
        or not abs(value) < _MOST_NUMBER
    ):
        return None
    return float(value)


def _broker_integer(fields: dict[str, Any], key: str) -> int:
    value = fields.get(key)
    most = 1 << 62 if key == "t_ns" else NS_PER_S
    return value if isinstance(value, int) and 0 <= value <= most else 0


def listen(broker: str, errors: list[str]) -> BrokerListener:
    """Begin to listen to a broker. Raises LabctlError when it does not answer."""
    listener = BrokerListener(broker_settings(broker), errors.append)
    if not listener.wait(CONNECT_WITHIN_S):
        listener.close()
        problem = errors[0] if errors else f"MQTT broker {broker} does not answer"
        raise LabctlError(problem)
    return listener


def broker_settings(broker: str) -> MqttSettings:
    """The site's broker settings with another address: ``HOST`` or ``HOST:PORT``. Files that
    the site names (a password) are used for its own broker only.

    Raises ConfigurationError.
    """
    host, _, port = broker.rpartition(":") if broker.count(":") == 1 else (broker, "", "")
    try:
        return at_broker(host, int(port) if port else None)
    except ValueError as error:
        allowed = "must be HOST[:PORT], with a port from 1 to 65535"
        raise ConfigurationError([Mistake("--broker", "address", broker, allowed)]) from error
