"""What fio printed in a phase, and whether that is all of it.

fio prints its totals every half second, and once more after its last I/O. In a truncated file (a
full disk, an aborted copy) the last document is a status of some earlier moment, in the same form.
The journal records how much of what fio printed was to be kept, and its last totals; for older
records without them the last document itself is examined.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.readings.fio_clock_result import over_own_time
from labctl.analysis.readings.phase_spans import PhaseSpan
from labctl.fio.results import FioResult, last_document, result_of
from labctl.fio.status import document_of_drive, status_of, unfinished
from labctl.record.events import Outcome
from labctl.record.phase import Phase
from labctl.record.reader import RunRecord

FIO_STDOUT = "stdout"
TAIL_BYTES = 1 << 18
"""Bytes read from the end of fio's output: the last document has a few 10 KiB."""
MOST_BYTES = 1 << 26
"""Read where that is not enough: no document of fio is longer."""
SLOWEST = 1.25
"""How much longer than it counts a phase may have been, for the slowest clock of fio."""
SHORT_BY_NS = 500_000_000
"""fio prints its totals this often: a truncated output mostly ends earlier before its phase's end.
The others end with I/Os in flight, which a whole output does not."""


def read_output(record: RunRecord, span: PhaseSpan) -> tuple[PhaseSpan, FioResult | None]:
    """fio's result at the end of a phase, and the span with its outcome.

    Its rates are over the phase's own time. Without a whole output there is no result, and the
    phase has failed for that reason (``unfit``), unless it was interrupted: its output may have
    been moved for another attempt.
    """
    document = phase_document(record, span.phase)
    unfit = _problem_of_output(record, span, document)
    if not unfit:
        if document is None:
            return span, None
        return over_own_time(result_of(document, record.drive_name), span, document)
    if span.outcome == Outcome.INTERRUPTED:
        return span, None
    reason = unfit if span.outcome == Outcome.COMPLETED else span.reason
    return replace(span, outcome=Outcome.FAILED, reason=reason, unfit=unfit), None


def phase_document(record: RunRecord, phase: Phase) -> dict[str, Any] | None:
    """The last document of a phase's fio; only the end of its output is read if that will do."""
    file = record.fio_dir(phase) / FIO_STDOUT
    if not file.is_file():
        return None
    size = file.stat().st_size
    with file.open("rb") as stream:
        stream.seek(max(size - TAIL_BYTES, 0))
        found = last_document(stream.read().decode("utf-8", "replace"))
        if found is None and size > TAIL_BYTES:
            stream.seek(max(size - MOST_BYTES, 0))
            found = last_document(stream.read().decode("utf-8", "replace"))
    return found


def drive_document(record: RunRecord, result: PhaseResult) -> dict[str, Any] | None:
    """The last document that a phase's fio printed; of several drives with the run's one alone.

    None where fio's output is not whole: the phase then has no IOPS either.
    """
    last = None if result.iops is None else phase_document(record, result.phase)
    return document_of_drive(last, record.drive_name) if last and record.drive_name else last


def _problem_of_output(record: RunRecord, span: PhaseSpan, document: dict[str, Any] | None) -> str:
    """Why the output of a phase is not whole; empty where it is."""
    file = record.fio_dir(span.phase) / FIO_STDOUT
    why = ""
    if span.printed is None and (span.outcome != Outcome.COMPLETED or not span.phase.pattern.io):
        return ""  # it ended early: its last status is all there is
    if not file.is_file():
        why = f"{FIO_STDOUT} is missing"
    elif span.printed is None:
        cut = _is_cut(span, document) and not _is_alone(file, span, document)
        why = f"{FIO_STDOUT} ends before what fio prints last" if cut else ""
    elif (size := file.stat().st_size) != span.printed.stdout_bytes:
        why = f"{FIO_STDOUT} has {size} bytes; {span.printed.stdout_bytes} were to be kept"
    elif _runtime_and_ios(document) != (span.printed.runtime_ms, span.printed.total_ios):
        why = f"what stands last in {FIO_STDOUT} is not what fio printed last"
    return why and f"fio's output is not whole: {why}; IOPS and latencies are not known"


def _runtime_and_ios(document: dict[str, Any] | None) -> tuple[int, int]:
    """Runtime (ms) and I/Os of both directions."""
    if document is None:
        return 0, 0
    status = status_of(document)
    return status.runtime_ms, status.total_ios


def _is_cut(span: PhaseSpan, document: dict[str, Any] | None) -> bool:
    """Whether the last document of a completed phase is not the last one that fio printed: it
    counts unfinished I/Os, or covers a shorter time than the phase."""
    if document is None:
        return True
    status, phase = status_of(document), span.phase
    # fio (3.33) leaves the last I/Os of a trace in flight; and a phase that ended when its
    # temperature was steady may have been killed, which leaves a status
    ended = phase.replay is None and not phase.steady_temperature_s
    if ended and unfinished(status, phase.block_size_bytes):
        return True
    short_ns = span.duration_ns - status.runtime_ms * 1_000_000
    return short_ns > max(SHORT_BY_NS, 2 * span.boundary_u_ns)


def _is_alone(file: Path, span: PhaseSpan, document: dict[str, Any] | None) -> bool:
    """Whether an output is one document and no more, of a fio that was asked for no statuses, and
    falls short of its phase by no more than a slow clock makes of it."""
    if document is None or file.stat().st_size > TAIL_BYTES:
        return False
    status = status_of(document)
    if unfinished(status, span.phase.block_size_bytes):
        return False
    if status.runtime_ms * 1_000_000 * SLOWEST < span.duration_ns:
        return False
    try:
        return bool(json.loads(file.read_text("utf-8", "replace")) == document)
    except (ValueError, RecursionError):
        return False
