"""Commands over MQTT, where the site allows them: queue what exists here, cancel, pause, resume.

A command is a JSON object on ``<prefix>/<rig>/command``; the answer comes on
``<prefix>/<rig>/reply`` with the command's own ``id``. A command never holds a path, a file's
content or text for a shell: it names a rig of this daemon and a plan that is built in or in the
data directory's ``plans``.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from labctl.capture.run.expand import expand_for
from labctl.config.estimate import estimate_on, more_than_usual_on
from labctl.config.plan import Plan, built_in_plans, load_plan
from labctl.config.rig import Rig, load_rig
from labctl.errors import ConfigurationError, LabctlError, MissingPart, Refused
from labctl.installed import Extra, need
from labctl.printable import printable
from labctl.service.daemon.settings import ServiceSettings
from labctl.service.data_dir import Home
from labctl.service.queue.job import PlanName, Tag
from labctl.service.queue.new_jobs import Order, jobs_of, parse_after
from labctl.service.queue.store import Queue
from labctl.sinks.mqtt.settings import MqttSettings, mqtt_settings
from labctl.sinks.mqtt.topics import command_topic, reply_topic
from labctl.sinks.sink import ReportLine

if TYPE_CHECKING:
    from labctl.service.daemon.daemon import Daemon

MOST_PAYLOAD_BYTES = 4_096
MOST_REPEATS = 100
MOST_WAITING = 100
"""Commands that wait to be executed; more are dropped."""
MOST_ANSWERS_KEPT = 1_000
"""Answers by command id: QoS 1 may deliver a command twice, and it is executed once. A job keeps
the id of the command that queued it, so a daemon started later does not queue it again."""

SETTINGS_EVERY_S = 1.0
"""How often to check whether the settings allow commands by now."""

CommandId = Annotated[str, Field(pattern=r"^[A-Za-z0-9._:-]{1,64}$")]


class _Command(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: CommandId


class Add(_Command):
    """Queue a plan that exists here."""

    do: Literal["add"]
    plan: PlanName
    after: Annotated[str, Field(max_length=64)] | None = None
    repeat: Annotated[int, Field(ge=1, le=MOST_REPEATS)] = 1
    tags: Annotated[list[Tag], Field(max_length=8)] = []
    retries: Annotated[int, Field(ge=0, le=10)] = 1


class Cancel(_Command):
    """Cancel a job of this rig."""

    do: Literal["cancel"]
    job: Annotated[int, Field(ge=1, le=999_999)]


class PauseCommand(_Command):
    """Begin no further job, or begin jobs again."""

    do: Literal["pause", "resume"]


class List(_Command):
    """List the jobs that run and wait on this rig."""

    do: Literal["list"]


Command = Annotated[Add | Cancel | PauseCommand | List, Field(discriminator="do")]
_PARSER: TypeAdapter[Add | Cancel | PauseCommand | List] = TypeAdapter(Command)
_ID_PARSER = TypeAdapter(CommandId)


class Commander:
    """Executes commands on the rigs of a daemon."""

    def __init__(
        self, home: Home, rig_files: dict[str, str], settings: Callable[[], ServiceSettings]
    ) -> None:
        """``rig_files``: the file of each rig that takes commands, by the rig's name. ``settings``
        is called at each command, since the daemon may read them again."""
        self._home = home
        self._settings = settings
        self._queue = Queue(home)
        self._rig_files = rig_files
        self._answers: OrderedDict[tuple[str, str], dict[str, Any]] = OrderedDict()

    def answer(self, rig: str, content: bytes) -> dict[str, Any]:
        """Execute a command for a rig; the reply. Never raises: wrong ``content`` is refused."""
        if not self._settings().commands:
            return _mqtt_command_refusal(None, "this site takes no commands any more")
        if rig not in self._rig_files:
            return _mqtt_command_refusal(None, "no such rig here")
        if len(content) > MOST_PAYLOAD_BYTES:
            return _mqtt_command_refusal(None, f"larger than {MOST_PAYLOAD_BYTES} bytes")
        try:
            command = _PARSER.validate_json(content)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            key = ".".join(map(str, first["loc"])) or "command"
            return _mqtt_command_refusal(_id_of(content), f"{key}: {first['msg']}")
        known = self._answers.get((rig, command.id))
        if known is not None:
            return known
        try:
            done = {"id": command.id, "ok": True, **self._execute(rig, command)}
        except LabctlError as error:
            done = _mqtt_command_refusal(command.id, str(error))
        self._answers[rig, command.id] = done
        while len(self._answers) > MOST_ANSWERS_KEPT:
            self._answers.popitem(last=False)
        return done

    def _execute(self, rig: str, command: Add | Cancel | PauseCommand | List) -> dict[str, Any]:
        match command:
            case Add():
                return {"jobs": self._add(load_rig(self._rig_files[rig]), command)}
            case Cancel():
                job = self._queue.job(command.job)
                if job.rig != rig:
                    raise LabctlError(f"job {command.job} is not one of {rig}")
                return {"state": self._queue.cancel(command.job).state.value}
            case PauseCommand(do="pause"):
                self._queue.pause(rig)
                return {"paused": True}
            case PauseCommand():
                self._queue.resume(rig)
                return {"paused": False}
            case List():
                return {
                    "paused": self._queue.is_paused(rig),
                    "jobs": [
                        {"job": job.id, "plan": job.plan, "state": job.state.value}
                        for job in self._queue.jobs()
                        if job.rig == rig and not job.state.over
                    ][:100],
                }

    def _add(self, rig: Rig, command: Add) -> list[int]:
        now = datetime.now().astimezone()
        jobs = self._queue.jobs()
        known = [job.id for job in jobs if job.rig == rig.name and job.command == command.id]
        if known:
            return sorted(known)
        plan, text = self._plan(command.plan)
        after_s = None if command.after is None else parse_after(command.after, now)
        order = Order(
            rig, plan, text, command.repeat, after_s, tuple(command.tags), command.retries,
            command=command.id,
        )  # fmt: skip
        if not self._settings().large_commands:
            _refuse_large(order)
        make = jobs_of(order, now.timestamp(), jobs)
        repetitions = iter(range(1, command.repeat + 1))
        added = self._queue.add(lambda number: make(number, next(repetitions)), command.repeat)
        return [job.id for job in added]

    def _plan(self, name: str) -> tuple[Plan, str]:
        """A plan of this name that exists here. Raises LabctlError."""
        if name in built_in_plans():
            return load_plan(name)
        file = self._home.plans / f"{name}.toml"
        if not file.is_file():
            own = sorted(path.stem for path in self._home.plans.glob("*.toml"))
            raise LabctlError(f"no such plan; there are: {', '.join([*built_in_plans(), *own])}")
        return load_plan(str(file))


def _refuse_large(order: Order) -> None:
    """At a terminal a person is asked whether a large plan is meant (``labctl queue add``); here
    nobody can be. Raises Refused, ConfigurationError when rig and plan do not fit."""
    phases = expand_for(order.rig, order.plan, order.plan.name)
    reasons = more_than_usual_on(order.rig, phases, order.repeat)
    if estimate_on(order.rig, phases).bytes_written is None:
        reasons += ("fills a drive of unknown size (say drive.size_bytes in the rig)",)
    if reasons:
        raise Refused(
            f"{order.plan.name} on {order.rig.name}, {order.repeat} times: {'; '.join(reasons)}; "
            "if that is meant, queue it on the machine itself, or allow it with "
            "[service] large_commands = true in its site file"
        )


async def take_commands(daemon: Daemon) -> None:
    """Take and answer commands for the daemon's rigs, once the site allows them."""
    while not daemon.settings.commands:
        await asyncio.sleep(SETTINGS_EVERY_S)
    brokers = _brokers(daemon.rigs, daemon.report_line)
    try:
        if brokers:
            need(Extra.MQTT)
    except MissingPart as missing:
        daemon.report_line(f"no commands over MQTT: {missing}")
        return
    files = {rig.name: str(Path(rig.path).absolute()) for rig in daemon.rigs}
    commander = Commander(daemon.home, files, lambda: daemon.settings)
    async with asyncio.TaskGroup() as tasks:
        for settings, rigs in brokers:
            tasks.create_task(
                _listen(settings, rigs, commander, daemon.report_line), name="commands"
            )


async def _listen(
    settings: MqttSettings, rigs: Sequence[str], commander: Commander, report_line: ReportLine
) -> None:
    from labctl.sinks.mqtt.connection import MqttPublisher
    from labctl.sinks.mqtt.messages import Message

    by_topic = {command_topic(settings, rig): rig for rig in rigs}
    waiting: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue(MOST_WAITING)

    async def on_connect(client: Any) -> None:
        for topic in by_topic:
            await client.subscribe(topic, qos=1)

    def on_message(topic: str, content: bytes) -> None:
        if topic in by_topic and not waiting.full():
            waiting.put_nowait((by_topic[topic], content[: MOST_PAYLOAD_BYTES + 1]))

    publisher = MqttPublisher(settings, report_line, on_connect=on_connect, on_message=on_message)
    publisher.start()
    try:
        while True:
            rig, content = await waiting.get()
            answer = await asyncio.to_thread(commander.answer, rig, content)
            result = "done" if answer["ok"] else answer["reason"]
            report_line(f"{rig}: command over MQTT: {_for_log(content)}: {result}")
            data = json.dumps({**answer, "t_ns": time.time_ns()}).encode()
            publisher.deliver([Message(reply_topic(settings, rig), data, 1, False)])
    finally:
        await publisher.stop()


def _brokers(rigs: Sequence[Rig], report_line: ReportLine) -> list[tuple[MqttSettings, list[str]]]:
    """The brokers of the rigs, each with its rigs."""
    found: list[tuple[MqttSettings, list[str]]] = []
    for rig in rigs:
        try:
            settings = mqtt_settings(rig.text, rig.path)
        except ConfigurationError as error:
            report_line(f"{rig.name}: no commands over MQTT: {error}")
            continue
        if settings is None:
            report_line(f"{rig.name}: no commands over MQTT: neither rig nor site names a broker")
            continue
        for known, names in found:
            if known == settings:
                names.append(rig.name)
                break
        else:
            found.append((settings, [rig.name]))
    return found


def _id_of(content: bytes) -> str | None:
    """The id of a command that is otherwise wrong, so that its sender knows which was refused."""
    try:
        fields = json.loads(content)
        return _ID_PARSER.validate_python(fields["id"], strict=True)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _mqtt_command_refusal(number: str | None, reason: str) -> dict[str, Any]:
    return {"id": number, "ok": False, "reason": reason[:1000]}


def _for_log(content: bytes) -> str:
    """A command for the log: one line of printable characters."""
    return printable(content[:200].decode("utf-8", "replace"))
