"""The list of runs: a row a run, read again only where the run may have changed."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from labctl.errors import JournalError
from labctl.record.events import EventKind, Outcome
from labctl.record.journal import is_held
from labctl.record.reader import RunRecord
from labctl.record.run_stamps import stamped_runs
from labctl.record.timebase import NS_PER_S
from labctl.report.data.run_index import Known, RunKind, cache_of, keep, known_runs

RUNNING = "running"
COLUMNS = ("run", "rig", "plan", "scale", "drive", "begin", "seconds", "phases", "outcome", "path")
Row = dict[str, Any]
"""What ``schemas/runs.v1.json`` says of a run."""


def list_of_runs(root: Path, cache: Path | None = None) -> list[Row]:
    """The rows of the runs in a folder, by name. ``cache``: a folder for what is known of runs."""
    stamps = stamped_runs(root)
    if not stamps:
        return []
    own = cache_of(cache, root)
    known = known_runs(own, RunKind.ROW)
    fresh: dict[str, Known] = {}
    rows = []
    for name, stamp in stamps.items():
        if (before := known.get(name)) and before[0] == stamp:
            row = json.loads(before[1])
        else:
            try:
                row = _read_run_list_row(root / name)
            except (JournalError, OSError) as error:
                row = {"outcome": f"unreadable: {error}"}
            else:
                fresh[name] = stamp, json.dumps(row)
        rows.append(_whole_run_list_row(row, root / name))
    keep(own, RunKind.ROW, fresh, known.keys() - stamps.keys())
    return rows


def run_row(path: Path) -> Row:
    """The row of one run. Raises JournalError."""
    return _whole_run_list_row(_read_run_list_row(path), path)


def _whole_run_list_row(row: Row, path: Path) -> Row:
    """A row with where the run is and, of one without an end, whether it is on."""
    row = {**dict.fromkeys(COLUMNS), **row, "run": path.name, "path": str(path)}
    if row["outcome"] is None:
        try:
            row["outcome"] = RUNNING if is_held(path) else Outcome.INTERRUPTED.value
        except OSError as error:
            row["outcome"] = f"unreadable: {error}"
    return row


def _read_run_list_row(path: Path) -> Row:
    """What the record alone says; ``outcome`` is None without an end. Raises JournalError."""
    record = RunRecord(path)
    header, end = record.header, record.end
    completed = sum(
        event.kind == EventKind.PHASE_ENDED and event.data.get("outcome") == Outcome.COMPLETED
        for event in record.events
    )
    times = [event.t_ns for event in record.events]
    return {
        "rig": header.rig_name,
        "plan": header.plan_title,
        "scale": header.scale,
        "drive": " ".join(filter(None, (header.drive.model, header.drive.serial))) or None,
        "begin": datetime.fromtimestamp(times[0] / NS_PER_S, UTC).isoformat(timespec="seconds")
        if times
        else None,
        "seconds": round(max(times[-1] - times[0], 0) / NS_PER_S, 3) if times else None,
        "phases": f"{completed}/{len(header.phases)}",
        "outcome": str(end.data.get("outcome", "not told")) if end else None,
    }
