"""The dated tables of docs/trust.md."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from tests.judge.scoring import COVER, Row

PAGE = Path(__file__).parents[2] / "docs" / "trust.md"


def renew(name: str, lines: Sequence[str], by: str = "make judge", page: Path = PAGE) -> None:
    """Put the lines between the marks of the table called ``name``, which the command makes."""
    begin, end = f"<!-- {name}: made by {by} -->", f"<!-- end of {name} -->"
    text = page.read_text(encoding="utf-8")
    table = "\n".join([begin, "", *lines, "", end])
    found = re.sub(f"{re.escape(begin)}.*{re.escape(end)}", lambda _: table, text, flags=re.DOTALL)
    page.write_text(found, encoding="utf-8")


def numbers(rows: Sequence[Row], seed: int) -> list[str]:
    """Both tables of the uncertainties, and what is open."""
    known = [row for row in rows if not row.refused]
    unknown = [row for row in rows if row.refused]
    lines = [f"{day()}, seed {seed}.", ""]
    lines += ["| regime | number | phases | with a number | cover | median U | error / U |"]
    lines += ["|---|---|---|---|---|---|---|"]
    lines += [
        f"| {row.regime} | {row.quantity} | {row.phases} | {row.given:.0%} | {_cover(row)} | "
        f"{_pct(row.median_u)} | {_two(row.ratio)} |"
        for row in known
    ]
    lines += ["", "Where nobody can know the watts, or only how much they were at least:", ""]
    lines += [
        "| regime | phases | with a two-sided U | not wrong | median U |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.regime} | {row.phases} | {row.given:.0%} | {_cover(row)} | {_pct(row.median_u)} |"
        for row in unknown
    ]
    return [*lines, "", *_open(rows)]


def _open(rows: Sequence[Row]) -> list[str]:
    faults = [row for row in rows if row.under]
    if not faults:
        return [f"Open faults: none; every regime holds {COVER:.0%}."]
    lines = ["Open faults:", ""]
    for row in faults:
        what = f"{row.cover:.1%} cover"
        if row.refused:
            what = f"{1 - row.cover:.1%} have a two-sided U that misses"
        elif row.given < COVER:
            what += f", {1 - row.given:.0%} without a number"
        chance = "" if row.surely_under else "; this may be chance"
        lines.append(f"- {row.regime}, {row.quantity}: {what}{chance}.")
    return lines


GATE_HEAD = (
    "| runs differ by | one run each: fails | three each: fails | finds 5 %, one run each | "
    "finds 5 %, three each |"
)


def gate(found: dict[str, Counter[str]], seed: int) -> list[str]:
    trials = min(counts["trials"] for counts in found.values())
    lines = [
        f"{day()}, seed {seed}, {trials} trials each.",
        "",
        GATE_HEAD,
        "|---|---|---|---|---|",
    ]
    for kind, counts in found.items():
        shares = [
            f"{counts[key] / counts['trials']:.0%}"
            for key in ("one: alarm", "three: alarm", "one: found", "three: found")
        ]
        undecided = counts["one: open"] / counts["trials"]
        shares[2] += f" ({undecided:.0%} *cannot be told*)" if undecided else ""
        lines.append(f"| {kind} | {' | '.join(shares)} |")
    return lines


def day() -> str:
    today = date.today()
    return f"{today.day} {today:%B %Y}"


def _cover(row: Row) -> str:
    text = f"{row.cover:.1%} ± {row.cover_u:.1%}"
    return f"**{text}**" if row.under else text


def _pct(share: float) -> str:
    return f"{share:.2%}" if math.isfinite(share) else "–"


def _two(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else "–"
