"""What was found, held against what happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from labctl.analysis.throttle_result import ThrottleInterval, ThrottleVerdict
from tests.judge_throttling.drives import Course, Truth
from tests.judge_throttling.recording import BEGAN_NS

COUNTED_S = 3.0
"""True stretches longer than this are counted; not those of the flash that begin with their phase,
of which nothing can be seen."""

PLACED_S, GRADUAL_S = 2.0, 5.0
"""How far begin and end may be off; where a drive holds itself back by degrees."""

PAUSE_S = 1.2
"""Throttling that pauses for less is one stretch, as the manual says."""

FALSE_S = 2.0
"""A phase with more seconds than this called throttled, that were not, counts as accused."""

THROTTLING = ("thermal", "power_limit")


@dataclass
class Score:
    """Of one class, any number of runs."""

    stretches: Counter[str] = field(default_factory=Counter)
    """wanted, placed, found (placed under its cause or as unknown), and one of told, open, wrong,
    missed."""
    phases: Counter[str] = field(default_factory=Counter)
    """all, accused, whole (without a true stretch of any cause), invented (stretches in those),
    throttled, "none seen" of these, off by 20 %."""
    edges_s: list[float] = field(default_factory=list)
    off: list[float] = field(default_factory=list)
    """Of each phase with throttling: error of its throttled time, as a share of that phase."""
    notes: list[str] = field(default_factory=list)

    def add(
        self,
        name: str,
        course: Course,
        found: Sequence[ThrottleInterval],
        verdicts: dict[int, ThrottleVerdict],
        gradual: bool,
        knee: bool,
    ) -> None:
        """Judge one run. ``gradual``: the drive holds itself back by degrees; ``knee``: it shows
        when it began to."""
        begins = {index: span[0] for index, span in enumerate(course.spans_s)}
        for true in _joined(course.truth):
            unseen = true.begin_s <= begins[true.phase] + 0.1 and true.cause not in THROTTLING
            if true.seconds > COUNTED_S and not unseen:
                own = [item for item in found if item.phase_index == true.phase]
                self._stretch(name, true, own, verdicts, gradual, knee)
        for index, span in enumerate(course.spans_s):
            if index:
                truth = [one for one in course.truth if one.phase == index]
                own = [item for item in found if item.phase_index == index]
                self._phase(name, index, span, truth, own, verdicts)

    def _stretch(
        self,
        name: str,
        true: Truth,
        found: Sequence[ThrottleInterval],
        verdicts: dict[int, ThrottleVerdict],
        gradual: bool,
        knee: bool,
    ) -> None:
        self.stretches["wanted"] += 1
        right = [item for item in found if item.cause == true.cause]
        unknown = [item for item in found if item.cause == "unknown"]
        most = GRADUAL_S if gradual else PLACED_S
        placed = [one for one in right if max(_errors(one, true, knee)) <= most]
        self.stretches["placed"] += bool(placed)
        known = [one for one in (*right, *unknown) if max(_errors(one, true, knee)) <= GRADUAL_S]
        self.stretches["found"] += bool(known)
        if placed:
            self.edges_s += _errors(placed[0], true, knee)
        half = 0.5 * true.seconds
        others = [item for item in found if item.cause not in (true.cause, "unknown")]
        heat_open = (
            true.cause in THROTTLING
            and true.phase in verdicts
            and verdicts[true.phase].verdict == "cannot be excluded"
        )
        if _shared(right, true) >= half:
            outcome = "told"
        elif _shared(others, true) >= half:
            outcome = "wrong"
        elif _shared(unknown, true) >= half:
            outcome = "open"
        else:
            outcome = "open" if heat_open else "missed"
        self.stretches[outcome] += 1
        if outcome != "told" or not known:
            self.notes.append(
                f"{name}: phase {true.phase} {true.cause} {true.begin_s:.1f}–{true.end_s:.1f} "
                f"{outcome}: {[(i.cause, *(round(s, 1) for s in _seconds(i))) for i in found]}"
            )

    def _phase(
        self,
        name: str,
        index: int,
        span: tuple[float, float],
        truth: Sequence[Truth],
        found: Sequence[ThrottleInterval],
        verdicts: dict[int, ThrottleVerdict],
    ) -> None:
        self.phases["all"] += 1
        grid = np.arange(span[0], span[1], 0.05)
        true, found_at = np.zeros(len(grid), np.bool_), np.zeros(len(grid), np.bool_)
        for one in truth:
            if one.cause in THROTTLING:
                true |= (grid >= one.begin_s) & (grid < one.end_s)
        for item in found:
            if item.cause in THROTTLING:
                begin, end = _seconds(item)
                found_at |= (grid >= begin) & (grid < end)
        true_s, found_s = true.sum() * 0.05, found_at.sum() * 0.05
        if found_s > FALSE_S and true_s == 0:
            self.phases["accused"] += 1
            self.notes.append(f"{name}: phase {index} accused of {found_s:.1f} s")
        if not truth:
            self.phases["whole"] += 1
            self.phases["invented"] += bool(found)
        if true_s > COUNTED_S:
            self.phases["throttled"] += 1
            self.off.append(float((true != found_at).mean()))
            self.phases["off"] += abs(found_s - true_s) > max(0.2 * true_s, FALSE_S)
            verdict = verdicts.get(index)
            if verdict is not None and verdict.verdict == "none seen":
                self.phases["none seen"] += 1
                self.notes.append(
                    f"{name}: phase {index}, {true_s:.1f} s: none seen: {verdict.why}"
                )

    def row(self, kind: str) -> str:
        """A line of the table."""
        wanted = self.stretches["wanted"]
        shares = [
            f"{self.stretches[name] / wanted:5.0%}" if wanted else "    –"
            for name in ("placed", "found", "told", "open", "wrong", "missed")
        ]
        edges = (
            f"{np.median(self.edges_s):4.1f} {np.quantile(self.edges_s, 0.95):4.1f}"
            if (self.edges_s)
            else "   –    –"
        )
        off = f"{np.mean(self.off):5.1%}" if self.off else "    –"
        phases = self.phases
        return (
            f"{kind:<24}{wanted:>5} {' '.join(shares)} {edges} {off} {phases['off']:>4} "
            f"{phases['none seen']:>4} {phases['throttled']:>4}/{phases['all']:<4} "
            f"{phases['accused']:>4} {phases['invented']:>4}"
        )

    def page_row(self, kind: str) -> str:
        """A line of the page's table."""
        wanted, phases = self.stretches["wanted"], self.phases
        shares = [
            f"{self.stretches[name] / wanted:.0%}" if wanted else "–"
            for name in ("placed", "found", "told", "open", "wrong", "missed")
        ]
        throttled = phases["throttled"]
        none = f"{phases['none seen']} of {throttled}"
        accused = f"{phases['accused']} of {phases['all'] - throttled}"
        invented = f"{phases['invented']} of {phases['whole']}"
        return f"| {kind} | {wanted} | {' | '.join(shares)} | {none} | {accused} | {invented} |"


PAGE_HEAD = (
    "| class | stretches | placed | found | told | open | wrong | missed | none seen | accused "
    "| invented |",
    "|---|---|---|---|---|---|---|---|---|---|---|",
)

HEAD = (
    f"{'class':<24}{'true':>5} {'placed':>5} {'found':>5} {'told':>4} {'open':>5} {'wrong':>5} "
    f"{'miss':>5} {'p50':>4} {'p95s':>4} {'time':>5} {'>20%':>4} {'none':>4} {'thr/phases':>9} "
    f"{'accus':>4} {'inv':>4}"
)


def _seconds(item: ThrottleInterval) -> tuple[float, float]:
    return (item.begin_ns - BEGAN_NS) / 1e9, (item.end_ns - BEGAN_NS) / 1e9


def _errors(item: ThrottleInterval, true: Truth, knee: bool) -> list[float]:
    """How far begin and end are off, s: from the moment at which the drive began to do less where
    it shows (``knee``), else from the time in which it did so by degrees."""
    begin_s, end_s = _seconds(item)
    first_s = true.since_s if knee else true.begin_s
    return [
        max(true.since_s - begin_s, begin_s - first_s, 0.0),
        max(true.end_s - end_s, end_s - true.until_s, 0.0),
    ]


def _shared(found: Sequence[ThrottleInterval], true: Truth) -> float:
    """Seconds of a true stretch that any of these covers."""
    grid = np.arange(true.begin_s, true.end_s, 0.05)
    covered = np.zeros(len(grid), np.bool_)
    for item in found:
        begin, end = _seconds(item)
        covered |= (grid >= begin) & (grid < end)
    return float(covered.sum() * 0.05)


def _joined(truth: Sequence[Truth]) -> list[Truth]:
    """Stretches of a cause and phase that paused for less than ``PAUSE_S`` as one."""
    result: list[Truth] = []
    for one in sorted(truth, key=lambda item: (item.phase, item.cause, item.begin_s)):
        last = result[-1] if result else None
        if (
            last is not None
            and (last.phase, last.cause) == (one.phase, one.cause)
            and one.begin_s - last.end_s < PAUSE_S
        ):
            result[-1] = replace(last, end_s=one.end_s, until_s=one.until_s)
        else:
            result.append(one)
    return result
