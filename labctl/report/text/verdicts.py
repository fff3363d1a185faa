"""Verdicts on a run by limits of power, as text of at most 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from labctl.analysis.methods.power_verdicts import (
    Judgement,
    PowerCheck,
    PowerVerdict,
    highest,
)

WIDTH = 80


def judgement_text(found: Judgement, began_ns: Mapping[int, int]) -> str:
    """The verdict of the run, of each limit what came closest to it (and of what is undecided,
    so that the reason is there), and all that failed. ``began_ns``: each phase, by its number."""
    counts = ", ".join(
        f"{len(found.of(verdict))} {words}"
        for verdict, words in (
            (PowerVerdict.PASS, "passed"),
            (PowerVerdict.UNDECIDED, "undecided"),
            (PowerVerdict.FAIL, "failed"),
        )
        if found.of(verdict)
    )
    lines = [f"{found.verdict.upper()}: {found.run_id} by {found.limits}", f"{counts}", ""]
    undecided, failed = found.of(PowerVerdict.UNDECIDED), found.of(PowerVerdict.FAIL)
    for check in dict.fromkeys((*highest(found.checks), *highest(undecided), *failed)):
        lines += _verdict_text_lines(check, began_ns.get(check.phase_index))
    for name in found.unchecked:
        lines += textwrap.wrap(f"{name} is about no phase of this run", WIDTH)
    return "\n".join(lines).rstrip() + "\n"


def _verdict_text_lines(check: PowerCheck, began_ns: int | None) -> list[str]:
    head = f"{check.verdict:<10}{check.limit}, {check.over}: {check.measured}"
    lines = textwrap.wrap(head, WIDTH, subsequent_indent=" " * 10)
    where = check.where
    if check.begin_ns is not None and began_ns is not None and check.begin_ns > began_ns:
        where += f", from {(check.begin_ns - began_ns) / 1e9:.3f} s on"
    lines += _indented_verdict_text(where)
    return lines + (_indented_verdict_text(check.why) if check.why else [])


def _indented_verdict_text(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=" " * 10, subsequent_indent=" " * 10)
