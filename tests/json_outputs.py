"""What commands print with ``--json``, as types: their schemas are made of these.

Each key of a type says below it what it is, where its name does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from labctl.analysis.compare.comparison import Comparison
from labctl.analysis.compare.gate import GateResult
from labctl.analysis.compare.planning import RepeatsPlan
from labctl.analysis.compare.trend_results import Trend
from labctl.analysis.methods.method_results import MethodResults
from labctl.analysis.methods.power_verdicts import Judgement, PowerVerdict
from labctl.analysis.run.stretch import StretchResult
from labctl.analysis.run_summary import RunSummary
from labctl.capture.drive.trim_check import TrimCheck
from labctl.capture.meters.find_ranges import Suggestion
from labctl.config.calibration_file import Calibration
from labctl.fio.status import LiveRates
from labctl.importing.clock import FileClock
from labctl.record.calibration_used import CrossCheck, Zero
from labctl.record.phase import Phase
from labctl.record.point_end import PointState
from labctl.service.doctor.checks import Check
from labctl.service.queue.job import Job
from labctl.service.status.morning import Morning
from labctl.sinks.sink import SinkReport
from labctl.trace.convert import Conversion
from labctl.trace.describe import Description


class RunEnded(TypedDict):
    """How a run ended."""

    run: str | None
    """Its directory; null: it did not begin."""
    outcome: Literal["completed", "aborted", "failed", "interrupted", "refused"]
    reason: str
    """Why it is not completed; else empty."""
    summary: NotRequired[dict[str, Any]]
    """As report.v1.json says; not there if it did not begin."""


class WattsOfPhase(TypedDict):
    """Watts with their U (about 95 %)."""

    value: float
    u: float


class Truth(TypedDict):
    """A phase against what the simulated drive drew."""

    phase: str
    watts: WattsOfPhase
    true_watts: float
    inside: bool
    """Whether the truth is inside the U."""


class DemoEnded(RunEnded):
    """A run on the simulated rig."""

    truth: list[Truth]


class DryRun(TypedDict):
    """What a plan would do on a rig."""

    phases: list[Phase]
    seconds: float | None
    """Null: it depends on the size of the drive, which is not known. With points that may end early
    it is the longest time."""
    shortest_seconds: float | None
    """If all points that may end early do so at once. Null: as ``seconds``."""
    expected_seconds: float | None
    """If they end as in the earlier runs of the rig. Null: also where there are none."""
    bytes_written: int | None


class ImportedPhase(TypedDict):
    """A phase that fio printed. Times are ns since 1970, by fio's clock."""

    phase: str
    file: str
    begin_ns: int
    end_ns: int
    boundary_u_ns: int
    """Half-width of what is unknown of its begin and end."""
    timed_by: str
    """How they are known."""


class ImportedRun(TypedDict):
    """The run that was made of files."""

    run: str
    """Its directory."""
    clocks: list[FileClock]
    """Of each file of a meter."""
    phases: list[ImportedPhase]
    notes: list[str]
    """What was odd in the files, with file and line."""


class Simulated(TypedDict):
    """The simulated rig that was started."""

    rig: str
    """Its rig file."""
    meters: dict[str, dict[str, str]]
    """By name: the settings of a rig that say where a meter is (``port``, ``resource`` …)."""


@dataclass(frozen=True)
class ComparedWithGate(Comparison):
    """Runs, or repeats of them, side by side; others are held against the first side."""

    gate: CheckedGate = None  # type: ignore[assignment]
    """Where limits were given."""


@dataclass(frozen=True)
class TrendWithGate(Trend):
    """What moved in series of runs, each of one drive, rig and plan."""

    gate: CheckedGate = None  # type: ignore[assignment]
    """Where limits were given: the newest level of each point against its first."""


@dataclass(frozen=True)
class CheckedGate(GateResult):
    """The limits, and which of them are broken."""

    passed: bool = False


@dataclass(frozen=True)
class Judged(Judgement):
    """A run against limits of power."""

    verdict: PowerVerdict = PowerVerdict.UNDECIDED  # type: ignore[assignment]
    """That of the run: it fails with one check, and passes with all."""
    passed: bool = False  # type: ignore[assignment]
    """Whether nothing fails."""


class Bundled(TypedDict):
    """The archive that was written."""

    bundle: str
    members: int
    """Files in it."""
    bytes: int
    """Of these files, before packing."""


class NumberDiffers(TypedDict):
    """A number of the summary that was not derived again."""

    where: str
    stated: Any
    derived: Any


class Verified(TypedDict):
    """A bundle, derived again."""

    verified: bool
    run_id: str
    versions: dict[str, str]
    """Of what made it."""
    problems: list[str]
    """Files that differ, are missing or cannot be read."""
    mismatches: list[NumberDiffers]


class RigRow(TypedDict):
    """A rig file."""

    rig: str
    """The name that commands take."""
    rails: str | None
    """Names of its rails, with blanks between them; null: the file has mistakes."""
    drive: str
    """Model or target of its drives; of a file with mistakes how many."""
    file: str


class PlanRow(TypedDict):
    """A built-in plan."""

    plan: str
    phases: int
    hours: float
    """At most, for a drive of 1 TB that writes 1 GB/s."""
    TB_written: float
    """For the same drive, 10^12 bytes."""
    what: str


class CheckedMistake(TypedDict):
    """A mistake in a file."""

    key: str
    value: Any
    allowed: str
    """What may stand there."""


class Checked(TypedDict):
    """A rig or plan file."""

    file: str
    kind: Literal["rig", "plan"]
    mistakes: list[CheckedMistake]
    """Empty: it has none."""
    too_slow: list[str]
    """With a plan: the limits of power that the rig's meters are too slow for."""


class Doctored(TypedDict):
    """What would go wrong tonight."""

    rig: str
    plan: str
    """Empty: none was given."""
    level: Literal["ok", "warning", "trouble"]
    """The worst of all checks."""
    checks: list[Check]


class Connected(TypedDict):
    """A serial port or VISA resource."""

    address: str
    what: str
    usb: str
    """Vendor and product on USB; else empty."""
    stays: str
    """The name under /dev/serial/by-id that stays when ports are counted anew; else empty."""


class Asked(TypedDict):
    """What answered at an address."""

    address: str
    identity: str
    driver: str
    rig: list[str]
    """Lines for the rig file."""
    error: str
    """Why there is no identity; else empty."""


class Instruments(TypedDict):
    """What is connected, and who answered."""

    connected: list[Connected]
    asked: list[Asked]


class LiveValue(TypedDict):
    """One line for each channel, each time."""

    t_ns: int
    """Nanoseconds since 1970."""
    channel: str
    value: float | None
    """The mean of the new readings; null: there was none."""
    unit: str
    readings: int
    """New ones since the line before."""
    status: str
    """"overload" and the like; else empty."""
    state: str
    """Of the instrument: connecting, reading, lost …"""
    reason: str


class SampledMeter(TypedDict):
    """How much of the time a meter integrates."""

    instrument: str
    integrated: float
    """The part of the time, 0 to 1."""
    interval_s: float
    dither: float
    """Of an interval: by how much moments of readings are moved at random; 0: not at all."""
    misread: float
    """How far a load in step with it can be misread, as a part of its swing."""
    remedies: list[str]
    """Settings that close the gap."""


class Ranged(RunEnded):
    """The ranges to lock, from a short run."""

    ranges: list[Suggestion]
    sampling: list[SampledMeter]


class Zeroed(TypedDict):
    """Zeros that were taken, and the file in which they are."""

    file: str
    zeros: list[Zero]


class BudgetLine(TypedDict):
    """A part of an uncertainty. ``u``: standard uncertainty, in the unit of the check."""

    name: str
    kind: str
    how: str
    dof: float | None
    """Degrees of freedom; null: infinitely many."""
    source: str
    part: str
    distribution: str
    u: float


@dataclass(frozen=True)
class MadeCheck(CrossCheck):
    """Two channels that measured the same, and what the U of their difference is made of."""

    agree: bool = False
    budget: tuple[BudgetLine, ...] = ()


class CrossChecked(TypedDict):
    """Checks of two meters against each other, and the file in which they are."""

    file: str
    checks: list[MadeCheck]


class SessionReading(TypedDict):
    """A reading of a recorded session. ``t_ns``: on the session's clock."""

    t_ns: int
    channel: str
    value: float


class SessionStatus(TypedDict):
    """A reading that is none."""

    t_ns: int
    channel: str
    status: str
    detail: str
    count: int


class ExpectedTimes(TypedDict):
    """When a job begins and ends, seconds since 1970; null: that is not known."""

    begin_s: float | None
    end_s: float | None
    at_least: bool
    """It takes longer: a fill of unknown size."""


class QueuedJob(Job):
    """A job of the queue. Times are seconds since 1970."""

    expected: ExpectedTimes | None


class Paused(TypedDict):
    """Whether a rig begins jobs."""

    rig: str
    paused: bool


class RunningDaemon(TypedDict):
    """The daemon that was started last."""

    pid: int
    alive: bool
    since_s: float
    rigs: list[str]
    runs: str
    """Where its runs go."""


class RailNow(TypedDict):
    """A rail in the last second."""

    volts: float | None
    amps: float | None
    watts: float | None


class Now(TypedDict):
    """A run at this moment."""

    phase: Phase | None
    phases: int
    rails: dict[str, RailNow]
    celsius: dict[str, float]
    host_watts: dict[str, float]
    """Of the drive's host, by the meter: in no watts of the drive."""
    point: PointState | None
    """How well the numbers of the phase are known, where its end depends on them."""
    io: LiveRates | None
    instruments: dict[str, str]
    """The state of each."""


class RigNow(TypedDict):
    """A rig of this machine."""

    rig: str
    state: str
    paused: bool
    served: bool
    """A daemon works on it."""
    run: str | None
    pid: int | None
    phases_done: int | None
    share_done: float | None
    """The part of the run's time, 0 to 1."""
    now: Now | None
    job: QueuedJob | None
    waiting: list[QueuedJob]
    last: list[QueuedJob]


class StatusNow(TypedDict):
    """Daemon, rigs and jobs of this machine."""

    daemon: RunningDaemon | None
    rigs: list[RigNow]
    problems: list[str]


class BrokerRig(TypedDict):
    """A rig that tells an MQTT broker of itself. State, last run and heartbeat are as in
    docs/mqtt.md."""

    rig: str
    online: bool
    condition: Literal[
        "lost", "silent", "failed", "aborted", "no meter", "running", "idle", "offline"
    ]
    why: str
    """What is wrong; empty where the rig needs nobody."""
    state: dict[str, Any]
    last_run: dict[str, Any]
    heartbeat: dict[str, Any]
    now: Now


class Tidied(TypedDict):
    """What was (or would be) done with a run."""

    run: str
    step: Literal["export", "delete", "keep"]
    reason: str
    bytes: int
    problem: str
    """Why it could not be done; else empty."""


@dataclass(frozen=True)
class Shipped(SinkReport):
    """A run in a database or broker."""

    run: str = ""
    complete: bool = False
    """Everything recorded is stored."""
    problem: str = ""


class CompactedPart(TypedDict):
    """The rows of some runs, a Parquet file a table."""

    month: str
    """In which they began (UTC): 2026-11; undated: of runs without a begin."""
    runs: int
    files: dict[str, str]
    """By table (phases, runs, drives): where the file is."""


class CompactedPlace(TypedDict):
    """The tables of a folder of runs, or of a store."""

    place: str
    written: int
    """How many of the parts were written now: none where nothing changed."""
    left_out: list[str]
    """A line for each run that cannot be read."""
    parts: list[CompactedPart]


class PushedRun(TypedDict):
    """A run that was to go into a store."""

    run: str
    store: str
    """The store's address."""
    state: Literal["pushed", "there", "failed"]
    """there: the store had all of it."""
    sent_bytes: int
    problem: str
    """Why it failed; else empty."""


class PulledRun(TypedDict):
    """A run that was to come out of a store."""

    run: str
    store: str
    """The store's address."""
    state: Literal["pulled", "here", "failed"]
    """here: the same run was here already."""
    path: str | None
    """Its directory; null: it failed."""
    problem: str
    """Why it failed; else empty."""


class RunsForgotten(TypedDict):
    """Runs that were removed from a database, or with --dry-run would be."""

    destination: str
    runs: list[str]
    bins_only: bool
    removed: bool


class Forgotten(TypedDict):
    """What was taken back from a broker."""

    rig: str
    destination: str
    forgotten: int
    """Messages."""


@dataclass(frozen=True)
class Output:
    """What a command prints; ``lines``: one JSON text a line."""

    call: str
    type: Any
    lines: bool = False
    plain: bool = False
    """Printed by ``plain_json``: a number that is infinite is null."""


OUTPUTS: Mapping[str, Output] = {
    "run": Output("labctl run --json, labctl measure --json", RunEnded),
    "dry-run": Output("labctl run --dry-run --json", DryRun),
    "import": Output("labctl import --json", ImportedRun),
    "demo": Output("labctl demo --json", DemoEnded),
    "simulate": Output("labctl simulate --json", Simulated),
    "trace-describe": Output("labctl trace describe --json", Description),
    "trace-convert": Output("labctl trace convert --json", Conversion),
    "report": Output("labctl report --json, and summary.json", RunSummary, plain=True),
    "analyse": Output("labctl analyse --json", MethodResults, plain=True),
    "stretch": Output("labctl analyse --from … --to … --json", StretchResult, plain=True),
    "compare": Output("labctl compare --json", ComparedWithGate, plain=True),
    "repeats": Output("labctl repeats --json", RepeatsPlan, plain=True),
    "trend": Output("labctl trend --json", TrendWithGate, plain=True),
    "judge": Output("labctl judge --json", Judged, plain=True),
    "query": Output("labctl query --json", list[dict[str, Any]]),
    "bundle": Output("labctl bundle --json", Bundled),
    "verify": Output("labctl verify --json", Verified),
    "rigs": Output("labctl rigs --json", list[RigRow]),
    "plans": Output("labctl plans --json", list[PlanRow]),
    "check": Output("labctl check --json", Checked),
    "doctor": Output("labctl doctor --json", Doctored),
    "trim-check": Output("labctl trim-check --json", TrimCheck),
    "instruments": Output("labctl instruments --json", Instruments),
    "read": Output("labctl read --json", LiveValue, lines=True),
    "range": Output("labctl range --json", Ranged),
    "calibrate": Output("labctl calibrate --json", Zeroed),
    "calibrate-compare": Output("labctl calibrate --compare --json", CrossChecked),
    "calibrate-show": Output("labctl calibrate --show --json", Calibration | None),
    "play-session": Output(
        "labctl play-session --json", SessionReading | SessionStatus, lines=True
    ),
    "jobs": Output("labctl queue add, list, move, cancel --json", list[QueuedJob]),
    "job": Output("labctl queue show --json", QueuedJob),
    "paused": Output("labctl queue pause, resume --json", Paused),
    "status": Output("labctl status --json", StatusNow),
    "status-broker": Output("labctl status --broker --json", list[BrokerRig]),
    "morning": Output("labctl morning --json", Morning),
    "tidy": Output("labctl tidy --json", list[Tidied]),
    "ship": Output("labctl ship --json", list[Shipped]),
    "compact": Output("labctl compact --json", list[CompactedPlace]),
    "push": Output("labctl push --json", list[PushedRun]),
    "pull": Output("labctl pull --json", list[PulledRun]),
    "influxdb-forget": Output("labctl influxdb forget --json", RunsForgotten),
    "mqtt-forget": Output("labctl mqtt forget --json", Forgotten),
}
"""By the name of the file; ``runs`` (labctl runs --json) is the one written by hand."""
