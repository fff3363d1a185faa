"""Plans: what to do, as data, expanded to a list of phases before anything is touched.

A plan is a TOML file::

    name = "power-per-qd"
    summary = "Watts, IOPS and IOPS per watt at each queue depth"
    idle_before_s = 30
    idle_after_s = 30

    [[sweeps]]
    name = "4 KiB random read"
    pattern = "randread"
    block_size = "4k"
    queue_depth = [1, 2, 4, 8, 16, 32]
    duration_s = 180

Every axis takes one value or a list; lists multiply, the last axis fastest.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    field_validator,
    model_validator,
)

from labctl.config.scaling import scaled_axes, scaled_bytes
from labctl.config.steps import Fill, Step, sync_burst
from labctl.config.sweeps import LONGER, EndOfPoints, Resume, Sweep, WhenPhaseFails
from labctl.errors import ConfigurationError, Mistake
from labctl.record.phase import Pattern, Phase, Role
from labctl.record.power_limits import built_in_limits
from labctl.toml_reading import (
    FOLDER,
    is_file,
    is_folder,
    meant,
    parse_toml,
    read_configuration,
    validated,
)

BUILT_IN = Path(__file__).parent / "plans"


class Plan(EndOfPoints):
    """What to do, as data. What it says of the end of points is for every sweep that says nothing
    of it."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
    summary: str = ""
    source: str = ""
    idle_before_s: Annotated[float, Field(ge=0, le=86400)] = 10.0
    idle_after_s: Annotated[float, Field(ge=0, le=86400)] = 10.0
    idle_power_states: list[Annotated[int, Field(ge=0, le=31)]] = Field(default=[])
    """NVMe power states that it idles in, one after the other, before the work; empty: the drive's
    own alone."""
    fill: Fill | None = None
    """Short for one step of preparation: a fill."""
    prepare: list[Step] = Field(default=[])
    """Steps before anything is measured, in their order."""
    sync_burst: bool = False
    """A short on/off load before the first idle phase, for the check of the clocks by the data."""
    governor: Annotated[str, Field(pattern=r"^[a-z_]*$", max_length=32)] = ""
    """The CPU frequency governor while the run is on; the one before is put back."""
    report: Literal["", "review"] = ""
    """"review": the review page is written after the run, too."""
    limits: str = ""
    """Limits of power that labctl judge holds its runs against: the name of built-in ones."""
    scale: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Below 1: shorter, and on a smaller part of the drive (see :mod:`labctl.config.scaling`)."""
    resume: Resume = "repeat"
    """What a run does when it goes on after it was cut off, or after its host was away: repeat the
    phase that was on; prepare the drive again before that; or not at all, since it must be in one
    piece."""
    when_phase_fails: WhenPhaseFails = "go_on"
    """Whether the other phases are done all the same, or the run ends as failed."""
    sweeps: Annotated[list[Sweep], Field(min_length=1)]

    @field_validator("limits")
    @classmethod
    def _known_limits(cls, value: str) -> str:
        if value and value not in built_in_limits():
            raise ValueError(f"one of {', '.join(built_in_limits())}")
        return value

    @model_validator(mode="after")
    def _idles_in_each_state_once(self) -> Plan:
        if self.idle_power_states and not self.idle_before_s:
            raise ValueError("idle_power_states needs idle_before_s: how long it idles in each")
        if len(set(self.idle_power_states)) < len(self.idle_power_states):
            raise ValueError("idle_power_states: each state once")
        return self

    @model_validator(mode="after")
    def _one_way_to_fill(self) -> Plan:
        if self.fill is not None and self.prepare:
            raise ValueError("fill is short for a step of prepare: say it there")
        return self

    @model_validator(mode="after")
    def _least_is_for_an_early_end(self) -> Plan:
        for name, least_s, early in (
            ("min_duration_s", self.min_duration_s, self.says_when),
            *(
                (f"sweeps.{number}.min_duration_s", one.min_duration_s, one.says_when)
                for number, one in enumerate(self.sweeps)
            ),
        ):
            if least_s is not None and not (early or self.says_when):
                raise ValueError(f"{name}: only with until or until_pct")
        for number, one in enumerate(self.sweeps):
            until = one.until_of(self)
            least_s = until.min_duration_s if until is not None else None
            if least_s is not None and one.duration_s is not None and least_s > one.duration_s:
                raise ValueError(f"sweeps.{number}: {LONGER.format(least_s, one.duration_s)}")
        return self

    def expand(self, drive_bytes: int | None = None) -> tuple[Phase, ...]:
        """Every phase, in order. ``drive_bytes`` limits spans and sizes fills.

        Raises TraceError when a trace to replay cannot be read, or is larger than the drive.
        """
        phases: list[Phase] = []
        whole_bytes = drive_bytes
        if drive_bytes and self.scale < 1:
            drive_bytes = scaled_bytes(drive_bytes, self.scale)

        def add(role: Role, **axes: Any) -> None:
            if self.scale < 1:
                axes = scaled_axes(axes, self.scale, drive_bytes)
            if drive_bytes and axes.get("span_bytes"):
                axes["span_bytes"] = min(axes["span_bytes"], drive_bytes)
            phases.append(Phase(index=len(phases), role=role, **axes))

        def prepare(steps: Sequence[Step]) -> None:
            for step in steps:
                for axes in step.phases(drive_bytes):
                    add(Role.PREPARE, **axes)

        prepare(self.prepare if self.fill is None else [self.fill])
        for axes in sync_burst() if self.sync_burst else ():
            add(Role.PREPARE, **axes)
        idle = {"sweep": "idle", "pattern": Pattern.IDLE}
        states: Sequence[int | None] = self.idle_power_states or (None,)
        for state in states if self.idle_before_s else ():
            add(Role.IDLE_BEFORE, **idle, duration_s=self.idle_before_s, power_state=state)
        for number, sweep in enumerate(self.sweeps, start=1):
            prepare(sweep.prepare)
            until = sweep.until_of(self)
            points = sweep.points(drive_bytes, until)
            for axes in sweep.replays(whole_bytes) if sweep.replay else points:
                named = {"sweep": sweep.name or f"sweep {number}", "sweep_number": number}
                if sweep.start_celsius is not None:
                    add(Role.PREPARE, **named, **sweep.cooling(axes))
                add(Role.MEASURE, **named, **axes)
        if self.idle_after_s:
            add(Role.IDLE_AFTER, **idle, duration_s=self.idle_after_s)
        return tuple(phases)


def parse_plan(text: str, file: str) -> Plan:
    """The plan that ``text`` (TOML) says. Raises ConfigurationError with every mistake."""
    data = parse_toml(text, file)
    _resolve_plan_traces(data, Path(file).parent)
    return validated(Plan, data, file)


def _resolve_plan_traces(data: dict[str, Any], folder: Path) -> None:
    """Make the paths of traces, which are relative to the plan's file, those of this process."""
    sweeps = data.get("sweeps")
    for sweep in sweeps if isinstance(sweeps, list) else ():
        if isinstance(sweep, dict) and isinstance(sweep.get("replay"), str):
            sweep["replay"] = str((folder / sweep["replay"]).absolute())


def built_in_plans() -> dict[str, Path]:
    """The plans that come with labctl, by name."""
    return {path.stem: path for path in sorted(BUILT_IN.glob("*.toml"))}


def load_plan(
    name_or_file: str, scale: float | None = None, until: str | None = None
) -> tuple[Plan, str]:
    """A built-in plan by its name or a plan file, with its text.

    ``scale`` scales it down, ``until`` says when its points end; the text then says so, too, for
    the record of the run. Raises ConfigurationError when there is none, naming those that there
    are.
    """
    path = built_in_plans().get(name_or_file, Path(name_or_file))
    if not is_file(path):
        plans = built_in_plans()
        known = meant(name_or_file, plans) or f"; built-in plans: {', '.join(plans)}"
        allowed = f"no such file{known}"
        if is_folder(path):
            allowed = FOLDER
        raise ConfigurationError([Mistake("plan", "name", name_or_file, allowed)])
    text, file = read_configuration(path), str(path)
    said = parse_toml(text, file).keys()
    if scale is not None and scale != 1:
        _refuse_option_of_plan(said & {"scale"}, "--scale", scale)
        text, file = f"scale = {scale}\n{text}", f"{file} with --scale"
    if until is not None:
        if until != "settled":
            mistake = Mistake("command line", "--until", until, "must be 'settled'")
            raise ConfigurationError([mistake])
        _refuse_option_of_plan(said & {"until", "until_pct"}, "--until", until)
        text, file = f'until = "{until}"\n{text}', f"{file} with --until"
    return parse_plan(text, file), text


def _refuse_option_of_plan(said: Collection[str], option: str, value: object) -> None:
    """Raise ConfigurationError where the plan says itself what an option of the command says."""
    if said:
        allowed = "is also in the plan: leave one of them out"
        raise ConfigurationError([Mistake("command line", option, value, allowed)])
