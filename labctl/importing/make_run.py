"""Makes an ordinary run directory of a meter's files and what fio printed.

The files go into it untouched, with their checksums; readings keep the times of their file, as a
device clock, and the samples of that clock are what aligns them. So the same analysis makes watts
and U of it as of any run, and it can be made anew.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from labctl.errors import ConfigurationError, JournalError, Mistake
from labctl.importing.clock import (
    ClockRules,
    FileClock,
    Recording,
    clock_of,
    is_given,
    shared_clock,
)
from labctl.importing.mapping import Mapping, mapping_text
from labctl.importing.meter_channels import MeterFile, Opened, open_source, rails_of, with_names
from labctl.importing.meter_readings import Progress, clock_samples, write_readings
from labctl.importing.phases import (
    Idle,
    fio_channels,
    of_fio,
    phases_of,
    plan_text,
    write_idle,
    write_phase,
)
from labctl.importing.work import Work
from labctl.installed import labctl_version
from labctl.record import journal
from labctl.record.events import EventKind, Outcome
from labctl.record.header import DriveInfo, Header
from labctl.record.layout import IMPORT_DIR
from labctl.record.phase import Phase, Role
from labctl.record.timebase import NS_PER_S, Anchor

MOST_AROUND = 0.25
LEAST_AROUND_NS = 10 * NS_PER_S
"""Of a recording before and after the phases that belongs to the run: a part of their length."""


@dataclass(frozen=True, slots=True)
class Labels:
    """What the run is called, and whose drive it was."""

    rig: str
    plan: str
    drive: str = ""
    plan_text: str = ""
    """The plan that was given; empty: it is inferred."""


@dataclass(frozen=True, slots=True)
class Imported:
    """The run that was made."""

    path: Path
    clocks: tuple[FileClock, ...]
    notes: tuple[str, ...]
    works: tuple[Work, ...]
    """The phases, where the steps of the watts are if fio did not print when they were."""


def import_run(
    works: Sequence[Work],
    sources: Sequence[MeterFile],
    root: Path,
    labels: Labels,
    rules: ClockRules,
    progress: Progress = lambda _file, _share: None,
    idle: Idle | None = None,
) -> Imported:
    """Make the run in ``root``; nothing is left there where it cannot be made.

    Raises ConfigurationError (what is wrong with a file, or its clock), JournalError.
    """
    opened = [open_source(source) for source in with_names(sources)]
    rails = rails_of(opened)
    phases = phases_of(works, idle)
    begin_ns = works[0].begin_ns
    name = datetime.fromtimestamp(begin_ns // NS_PER_S, UTC).strftime("%Y%m%dT%H%M%SZ")
    mapping = Mapping(meters=[one.source.meter for one in opened])
    header = Header(
        run_id=f"{name}_{labels.rig}_{labels.plan}",
        rig_name=labels.rig,
        plan_name=labels.plan,
        rig_text=mapping_text(mapping),
        plan_text=labels.plan_text or plan_text(labels.plan, phases),
        phases=phases,
        channels=(
            *(output.info for one in opened for output in one.outputs),
            *fio_channels(works, phases),
        ),
        rails=rails,
        temperatures={},
        drive=DriveInfo(model=labels.drive),
        anchor=Anchor(wall_ns=begin_ns, monotonic_ns=0, boot_id=""),
        versions={"labctl": labctl_version()},
        identities={
            one.source.meter.name: f"imported from {one.source.file.name}" for one in opened
        },
    )
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=root, prefix=".importing-") as staging:
            header = replace(header, run_id=_free_name(root, header.run_id))
            path = journal.create(Path(staging), header)
            found = _fill(path, works, phases, opened, rules, progress)
            final = root / path.name
            path.rename(final)
    except OSError as error:
        raise JournalError(f"cannot make a run in {root}: {error.strerror or error}") from error
    return Imported(final, *found)


def _free_name(root: Path, name: str) -> str:
    number, free = 1, name
    while (root / free).exists():
        number += 1
        free = f"{name}-{number}"
    return free


def _fill(
    path: Path,
    works: Sequence[Work],
    phases: Sequence[Phase],
    opened: Sequence[Opened],
    rules: ClockRules,
    progress: Progress,
) -> tuple[tuple[FileClock, ...], tuple[str, ...], tuple[Work, ...]]:
    """Write everything behind the header."""
    begin_ns = works[0].begin_ns
    files = [
        *_kept_in_made_run(path, "meters", [one.source.file for one in opened]),
        *_kept_in_made_run(path, "fio", list(_files_of(works))),
    ]
    writer = journal.Journal(path, now_ns=lambda: begin_ns)
    try:
        recordings = [write_readings(writer, path, one, progress) for one in opened]
        clocks, works = _clocks_of_made_run(recordings, works, rules)
        for one, recording, clock in zip(opened, recordings, clocks, strict=True):
            writer.clock_pairs(recording.instrument, clock_samples(one, recording, clock, begin_ns))
        covered = _made_run_coverage(begin_ns, recordings, clocks)
        first_ns, last_ns = _span_shown(works, *covered)
        off_s = max(one.u_s for one in clocks) + max(one.interval_s for one in recordings)
        rests = list(_rests_of_made_run(phases, works, off_s, *covered))
        for phase, rest_ns in rests:
            first_ns = min(first_ns, rest_ns)
            last_ns = max(last_ns, rest_ns + round(phase.duration_s * NS_PER_S))
        notes = [line for work in works for line in work.notes]
        notes += [line for one in opened for line in one.table.seen.lines(one.source.file.name)]
        sure = [one.confirmed for one in clocks if one.confirmed]
        unconfirmed = [
            phase.index
            for number, phase in enumerate(of_fio(phases))
            if sure and not any(one[number] for one in sure)
        ]
        writer.event(EventKind.RUN_STARTED, first_ns)
        writer.event(
            EventKind.IMPORTED,
            first_ns,
            files=files,
            clocks=[{**asdict(one), "words": one.text()} for one in clocks],
            unconfirmed=unconfirmed,
            notes=notes,
        )
        for phase, rest_ns in rests:
            if phase.role is Role.IDLE_BEFORE:
                write_idle(writer, phase, rest_ns)
        for work, phase in zip(works, of_fio(phases), strict=True):
            write_phase(writer, path, work, phase)
        for phase, rest_ns in rests:
            if phase.role is Role.IDLE_AFTER:
                write_idle(writer, phase, rest_ns)
        writer.event(EventKind.RUN_ENDED, last_ns, outcome=Outcome.COMPLETED, reason="")
        writer.flush(600.0)
    finally:
        writer.close()
    return tuple(clocks), tuple(notes), tuple(works)


def _files_of(works: Sequence[Work]) -> Iterator[Path]:
    """What fio wrote, each file once."""
    yield from dict.fromkeys(work.file for work in works)
    yield from dict.fromkeys(log for work in works for log in work.logs)


def _kept_in_made_run(path: Path, folder: str, files: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """Copies of files, with their checksums; those of one name get a number."""
    target = path / IMPORT_DIR / folder
    target.mkdir(parents=True, exist_ok=True)
    for number, file in enumerate(files, 1):
        name = file.name if not (target / file.name).exists() else f"{number}-{file.name}"
        digest = hashlib.sha256()
        with file.open("rb") as source, (target / name).open("wb") as copy:
            while data := source.read(1 << 22):
                digest.update(data)
                copy.write(data)
            copy.flush()
            os.fsync(copy.fileno())
        yield {
            "file": f"{IMPORT_DIR}/{folder}/{name}",
            "from": str(file),
            "bytes": file.stat().st_size,
            "sha256": digest.hexdigest(),
        }


def _clocks_of_made_run(
    recordings: Sequence[Recording], works: Sequence[Work], rules: ClockRules
) -> tuple[list[FileClock], tuple[Work, ...]]:
    """The clock of each file, in their order; and the phases, at the times that are told by the
    steps of the file that has most readings a second, if nobody says what a file's clock is."""
    tied = any(is_given(one, rules) for one in recordings)
    found: dict[str, FileClock] = {}
    origin_ns, works = works[0].begin_ns, tuple(works)
    for recording in sorted(recordings, key=lambda one: one.interval_s):
        if len(recording.watts) or is_given(recording, rules):
            clock, works = clock_of(recording, works, rules, origin_ns, tied=tied)
            found[recording.instrument] = clock
    known = [(one, found[one.instrument]) for one in recordings if one.instrument in found]
    for recording in recordings:
        if recording.instrument not in found:
            found[recording.instrument] = shared_clock(recording, known)
    return [found[one.instrument] for one in recordings], works


def _made_run_coverage(
    begin_ns: int, recordings: Sequence[Recording], clocks: Sequence[FileClock]
) -> tuple[list[int], list[int]]:
    """When each recording begins and ends, on fio's clock. ``begin_ns``: what its clock counts
    from."""
    firsts = [begin_ns + round(one.first_offset_s * NS_PER_S) for one in clocks]
    lasts = [
        begin_ns + round(one.last_offset_s * NS_PER_S) + recording.last_ns - recording.first_ns
        for recording, one in zip(recordings, clocks, strict=True)
    ]
    return firsts, lasts


def _rests_of_made_run(
    phases: Sequence[Phase],
    works: Sequence[Work],
    off_s: float,
    firsts: Sequence[int],
    lasts: Sequence[int],
) -> Iterator[tuple[Phase, int]]:
    """Each idle phase and its begin: as near to fio's phases as is surely not one of them.
    ``off_s``: what is unknown of the recordings, which begin and end at ``firsts`` and ``lasts``.

    Raises ConfigurationError where the recordings do not reach so far.
    """
    for phase in phases:
        if phase.pattern.io:
            continue
        before = phase.role is Role.IDLE_BEFORE
        work = works[0] if before else works[-1]
        gap_ns = round(off_s * NS_PER_S) + work.boundary_u_ns
        length_ns = round(phase.duration_s * NS_PER_S)
        begin_ns = work.begin_ns - gap_ns - length_ns if before else work.end_ns + gap_ns
        there_ns = work.begin_ns - max(firsts) if before else min(lasts) - work.end_ns
        if length_ns + 2 * gap_ns > there_ns:
            where = "before the first phase" if before else "after the last one"
            most_s = max((there_ns - 2 * gap_ns) / NS_PER_S, 0.0)
            option = f"--{phase.role.value.replace('_', '-')}"
            allowed = (
                f"the recordings have {max(there_ns, 0) / NS_PER_S:.1f} s {where}, of which "
                f"{most_s:.1f} s are surely outside fio's phases"
            )
            raise ConfigurationError([Mistake("command line", option, phase.duration_s, allowed)])
        yield phase, begin_ns


def _span_shown(
    works: Sequence[Work], firsts: Sequence[int], lasts: Sequence[int]
) -> tuple[int, int]:
    """Begin and end of the run: the phases, and of the recording around them as much as shows what
    was before and after. A recording may be of a whole day."""
    begin_ns, end_ns = works[0].begin_ns, works[-1].end_ns
    around_ns = max(MOST_AROUND * (end_ns - begin_ns), LEAST_AROUND_NS)
    first_ns = max(min(firsts), round(begin_ns - around_ns))
    last_ns = min(max(lasts), round(end_ns + around_ns))
    return min(first_ns, begin_ns), max(last_ns, end_ns)


def import_json(found: Imported) -> dict[str, Any]:
    """What was made of what, for a program."""
    return {
        "run": str(found.path),
        "clocks": [asdict(one) for one in found.clocks],
        "phases": [
            {
                "phase": phase.label,
                "file": str(work.file),
                "begin_ns": work.begin_ns,
                "end_ns": work.end_ns,
                "boundary_u_ns": work.boundary_u_ns,
                "timed_by": work.timed_by,
            }
            for work, phase in zip(found.works, phases_of(found.works), strict=True)
        ],
        "notes": list(found.notes),
    }
