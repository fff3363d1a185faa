"""What fio printed in a phase, and whether that is all of it.

fio prints its totals every half second, and once more when its last I/O has ended. When the file is
cut (a full disk, a copy that was broken off), what stands last in it is a status of some moment,
which looks the same. The journal says how much fio printed and what it said last. In older records
it does not: there the last document itself is looked at.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from labctl.analysis.readings.phase_spans import PhaseSpan
from labctl.fio.results import FioResult, last_document, result_of
from labctl.fio.status import status_of, unfinished
from labctl.record.phase import Phase
from labctl.record.reader import RunRecord

FIO_STDOUT = "stdout"
TAIL_BYTES = 1 << 18
"""What is read of the end of fio's output: the last document is a few 10 KiB."""
SHORT_BY_NS = 500_000_000
"""fio tells its totals this often: an output that is cut mostly ends earlier than its phase by
more. The rest of them end with I/Os in flight, as whole ones do not."""


def read_output(record: RunRecord, span: PhaseSpan) -> tuple[PhaseSpan, FioResult | None]:
    """What fio said at the end of a phase. Where its output is not whole it says nothing, and the
    phase has failed for that reason (``unfit``), unless it was interrupted: its output may have
    been put aside for another attempt."""
    document = phase_document(record, span.phase)
    unfit = _unfit(record, span, document)
    if not unfit:
        return span, None if document is None else result_of(document, record.drive_name)
    if span.outcome == "interrupted":
        return span, None
    reason = unfit if span.outcome == "completed" else span.reason
    return replace(span, outcome="failed", reason=reason, unfit=unfit), None


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
            stream.seek(0)
            found = last_document(stream.read().decode("utf-8", "replace"))
    return found


def _unfit(record: RunRecord, span: PhaseSpan, document: dict[str, Any] | None) -> str:
    """Why the output of a phase is not to be believed, or an empty text."""
    file = record.fio_dir(span.phase) / FIO_STDOUT
    why = ""
    if span.printed is None and (span.outcome != "completed" or not span.phase.pattern.io):
        return ""  # it ended early: its last status is all there is
    if not file.is_file():
        why = f"{FIO_STDOUT} is missing"
    elif span.printed is None:
        why = f"{FIO_STDOUT} ends before what fio prints last" if _cut(span, document) else ""
    elif (size := file.stat().st_size) != span.printed.stdout_bytes:
        why = f"{FIO_STDOUT} has {size} bytes, fio printed {span.printed.stdout_bytes}"
    elif _last(document) != (span.printed.runtime_ms, span.printed.total_ios):
        why = f"what stands last in {FIO_STDOUT} is not what fio printed last"
    return why and f"fio's output is not whole: {why}; IOPS and latencies are not known"


def _last(document: dict[str, Any] | None) -> tuple[int, int]:
    """Runtime (ms) and I/Os of both directions."""
    if document is None:
        return 0, 0
    status = status_of(document)
    return status.runtime_ms, status.total_ios


def _cut(span: PhaseSpan, document: dict[str, Any] | None) -> bool:
    """Whether the last document of a completed phase was not the last that fio printed: it counts
    I/Os that had not ended, or tells of a shorter time than the phase took."""
    if document is None:
        return True
    status, phase = status_of(document), span.phase
    # fio (3.33) leaves the last I/Os of a trace in flight; and a phase that ended when its
    # temperature stood may have been killed, which leaves a status
    ended = phase.replay is None and not phase.steady_temperature_s
    if ended and unfinished(status, phase.block_size_bytes):
        return True
    short_ns = span.duration_ns - status.runtime_ms * 1_000_000
    return short_ns > max(SHORT_BY_NS, 2 * span.boundary_u_ns)
