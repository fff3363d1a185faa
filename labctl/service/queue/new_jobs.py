"""New jobs from an order or a matrix file, checked when they are queued.

A job holds the plan's text: editing a plan file never changes a queued job. It holds the rig's
name, and uses the rig file as it is when the job begins, but only for the drive that the rig had
when the job was queued (``docs/decisions/0011``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from labctl.capture.run.expand import expand_for
from labctl.config.estimate import estimate_on, timed_s
from labctl.config.plan import Plan, load_plan
from labctl.config.rig import Rig
from labctl.config.sweeps import one_or_many
from labctl.errors import ConfigurationError, Mistake
from labctl.service.queue.job import MOST_PLAN_CHARACTERS, Job, JobState, Tag
from labctl.service.queue.schedule import BETWEEN_JOBS_S
from labctl.toml_reading import mistakes_of, parse_toml, read_configuration, validated

MOST_REPEATS = 1_000
MOST_MATRIX_CHARACTERS = 1 << 18

_SPAN = re.compile(r"\+?(?:(\d{1,4})h)?(?:(\d{1,5})m)?")
CLOCK = re.compile(r"(\d{1,2}):(\d{2})")
AFTER_ALLOWED = "must be a time (22:00), a date and time (2026-11-21 22:00) or a span (+2h30m)"


@dataclass(frozen=True, slots=True)
class Order:
    """An order for jobs: a plan on a rig, how often, and not before when."""

    rig: Rig
    plan: Plan
    plan_text: str
    repeat: int = 1
    after_s: float | None = None
    tags: tuple[str, ...] = ()
    retries: int = 1
    command: str = ""
    """The id of the command over MQTT that asked for it."""


def parse_after(text: str, now: datetime) -> float:
    """The moment that a person means, in seconds since the epoch; ``now`` with its time zone.

    A time of day is the next one that comes. Raises ConfigurationError.
    """
    text = text.strip()
    span, clock = _SPAN.fullmatch(text), CLOCK.fullmatch(text)
    try:
        if span and (span[1] or span[2]):
            hours, minutes = int(span[1] or 0), int(span[2] or 0)
            return now.timestamp() + hours * 3600 + minutes * 60
        if clock:
            # local time: tomorrow at ten is at ten also when summer time begins or ends
            naive = now.replace(
                hour=int(clock[1]), minute=int(clock[2]), second=0, microsecond=0, tzinfo=None
            )
            if naive.astimezone().timestamp() <= now.timestamp():
                naive += timedelta(days=1)
            return naive.astimezone().timestamp()
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.astimezone()).timestamp()
    except (ValueError, OverflowError, OSError):
        raise ConfigurationError([Mistake("--after", "time", text, AFTER_ALLOWED)]) from None


def jobs_of(order: Order, now_s: float, earlier: list[Job]) -> Callable[[int, int], Job]:
    """Makes the jobs of an order: called with a job's number and which repetition it is.

    ``earlier`` jobs show how long the same plan took on the same rig. Raises ConfigurationError
    when rig and plan do not fit, or the order itself is wrong.
    """
    rig = order.rig
    phases = expand_for(rig, order.plan, order.plan.name)
    cost = estimate_on(rig, phases)
    took_s = _took_s(order, earlier)
    known_s = took_s if took_s is not None else cost.seconds
    values: dict[str, Any] = {
        "rig": rig.name,
        "plan": order.plan.name,
        "plan_text": order.plan_text,
        "drive_target": rig.targets,
        "drive_serial": rig.serials,
        "tags": order.tags,
        "after_s": order.after_s,
        "retries": order.retries,
        "command": order.command,
        "estimate_s": known_s if known_s is not None else timed_s(phases),
        "estimate_is_least": known_s is None,
        "added_s": now_s,
    }
    mistakes = []
    if not 1 <= order.repeat <= MOST_REPEATS:
        allowed = f"must be 1 to {MOST_REPEATS}"
        mistakes.append(Mistake("--repeat", "number", order.repeat, allowed))

    def make(number: int, repetition: int) -> Job:
        return Job(**values, id=number, repeat=(repetition, order.repeat))

    try:
        make(1, 1)
    except ValidationError as error:
        mistakes += mistakes_of(error, f"{order.plan.name} on {rig.name}")
    if mistakes:
        raise ConfigurationError(mistakes)
    return make


def _took_s(order: Order, earlier: list[Job]) -> float | None:
    """How long this very plan took on this rig when it was last completed in one attempt."""
    for job in sorted(earlier, key=lambda job: job.id, reverse=True):
        last = job.last
        if (
            job.state is JobState.DONE
            and job.rig == order.rig.name
            and job.plan_text == order.plan_text
            and len(job.attempts) == 1
            and last is not None
            and last.ended_s is not None
        ):
            return max(last.ended_s - last.begun_s - BETWEEN_JOBS_S, 0.0)
    return None


Names = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=1024)]],
    BeforeValidator(one_or_many),
    Field(min_length=1, max_length=100),
]


class _Block(BaseModel):
    """One block of a matrix: every rig with every plan."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rigs: Names
    plans: Names
    repeat: Annotated[int, Field(ge=1, le=MOST_REPEATS)] = 1
    after: Annotated[str, Field(max_length=64)] | None = None
    tags: Annotated[tuple[Tag, ...], Field(max_length=32)] = ()
    retries: Annotated[int, Field(ge=0, le=100)] = 1


class _Matrix(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    jobs: Annotated[list[_Block], Field(min_length=1, max_length=100)]


def read_matrix(file: Path, find_rig: Callable[[str], Rig], now: datetime) -> list[Order]:
    """The orders of a matrix file (TOML, ``[[jobs]]``): every rig with every plan, rigs fastest,
    so that rigs side by side begin the same plan together.

    Raises ConfigurationError with every mistake of the file and of the rigs and plans it names.
    """
    text = read_configuration(file)
    if len(text) > MOST_MATRIX_CHARACTERS:
        allowed = f"must be at most {MOST_MATRIX_CHARACTERS} characters"
        raise ConfigurationError([Mistake(str(file), "size", len(text), allowed)])
    matrix = validated(_Matrix, parse_toml(text, str(file)), str(file))
    mistakes: dict[Mistake, None] = {}
    orders = []
    for block in matrix.jobs:
        rigs, plans, after_s = [], [], None
        try:
            after_s = None if block.after is None else parse_after(block.after, now)
        except ConfigurationError as error:
            mistakes |= dict.fromkeys(error.mistakes)
        for name in block.rigs:
            try:
                rigs.append(find_rig(name))
            except ConfigurationError as error:
                mistakes |= dict.fromkeys(error.mistakes)
        for name in block.plans:
            try:
                plans.append(find_plan(name, file.parent))
            except ConfigurationError as error:
                mistakes |= dict.fromkeys(error.mistakes)
        orders += [
            Order(rig, plan, plan_text, block.repeat, after_s, block.tags, block.retries)
            for plan, plan_text in plans
            for rig in rigs
        ]
    if mistakes:
        raise ConfigurationError(tuple(mistakes))
    return orders


def find_plan(name_or_file: str, beside: Path) -> tuple[Plan, str]:
    """A built-in plan or a plan file (also one beside the matrix file), with its text.

    Raises ConfigurationError.
    """
    near = beside / name_or_file
    plan, text = load_plan(str(near) if near.suffix == ".toml" and near.is_file() else name_or_file)
    if len(text) > MOST_PLAN_CHARACTERS:
        allowed = f"must be at most {MOST_PLAN_CHARACTERS} characters to be queued"
        raise ConfigurationError([Mistake(name_or_file, "size", len(text), allowed)])
    return plan, text
