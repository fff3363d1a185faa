"""Compare the rig and plan in a record with those of this machine.

A record may come from anywhere: nothing that it names is opened, run or connected to. The rig of
this machine is used, and the record shows whether that is the rig it was made with (see
docs/decisions/0017).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any

from labctl.config.plan import parse_plan
from labctl.config.rig import Rig, parse_rig_file
from labctl.config.rig_file import RigFile
from labctl.errors import masked
from labctl.printable import printable
from labctl.record.layout import HEADER_FILE
from labctl.record.phase import Phase
from labctl.record.reader import RunRecord

MAY_DIFFER = frozenset({"sinks"})
"""Tables of a rig that neither the phases nor their numbers depend on."""
MOST_SHOWN = 5
LONGEST_SHOWN = 80


def rig_differences(record: RunRecord, rig: Rig) -> list[str]:
    """Differences between the rig of a record and ``rig``: key, there and here, in words.

    Raises ConfigurationError when this labctl does not take the record's rig.
    """
    there, here = (
        file.model_dump(mode="json", exclude=set(MAY_DIFFER))
        for file in (recorded_rig(record), rig.file)
    )
    there["rig_name"], here["rig_name"] = record.header.rig_name, rig.name
    return list(_resume_differences(there, here))


def recorded_rig(record: RunRecord) -> RigFile:
    """The rig of a record, as data. Raises ConfigurationError."""
    return parse_rig_file(record.header.rig_text, f"{record.path / HEADER_FILE}: rig")


def drive_differences(record: RunRecord, rig: Rig) -> list[str]:
    """Differences between the rig of a record and ``rig`` in where the drives are.

    Raises ConfigurationError.
    """
    there, here = (
        {"host": file.host, "drive": file.drive and file.drive.target}
        | {f"drives.{name}": drive.target for name, drive in file.drives.items()}
        for file in (recorded_rig(record), rig.file)
    )
    return list(_resume_differences(there, here))


def plan_differences(record: RunRecord, plan_text: str) -> list[str]:
    """Differences between the plan of a record and another plan. Raises ConfigurationError."""
    where = f"{record.path / HEADER_FILE}: plan"  # of both: paths of traces are beside the file
    there, here = (
        parse_plan(text, where).model_dump(mode="json")
        for text in (record.header.plan_text, plan_text)
    )
    return list(_resume_differences(there, here))


def phase_differences(record: RunRecord, phases: Sequence[Phase]) -> list[str]:
    """What the phases of a record are otherwise than ``phases``."""
    recorded = record.header.phases
    if len(recorded) != len(phases):
        return list(_resume_differences({"phases": len(recorded)}, {"phases": len(phases)}))
    found = (
        difference
        for there, here in zip(recorded, phases, strict=True)
        if there != here
        for difference in _resume_differences(asdict(there), asdict(here), f"phases[{here.index}]")
    )
    return list(islice(found, MOST_SHOWN + 1))


def in_words(differences: Sequence[str]) -> str:
    """Differences as one text, the first of many."""
    more = len(differences) - MOST_SHOWN
    shown = [*differences[:MOST_SHOWN], *([f"and {more} more"] if more > 0 else [])]
    return "; ".join(shown)


def _resume_differences(there: Any, here: Any, key: str = "") -> Iterator[str]:
    if isinstance(there, Mapping | None) and isinstance(here, Mapping | None):
        there, here = there or {}, here or {}
        for name in dict.fromkeys([*there, *here]):
            below = f"{key}.{name}" if key else str(name)
            yield from _resume_differences(there.get(name), here.get(name), below)
    elif isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        for number, pair in enumerate(zip(there, here, strict=True)):
            yield from _resume_differences(*pair, f"{key}[{number}]")
    elif there != here:
        name = printable(key)[:LONGEST_SHOWN]
        yield f"{name} is {_resume_value(key, there)} there and {_resume_value(key, here)} here"


def _resume_value(key: str, value: object) -> str:
    """A value for a person: of a record it may be anything, and of any length."""
    if value is None:
        return "not said"
    shown = masked(key, value)
    # repr: no control character gets out
    text = repr(str(shown) if isinstance(shown, str) else shown)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
