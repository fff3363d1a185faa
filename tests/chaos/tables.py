"""The table of kills of docs/trust.md."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence

from tests.chaos.judging import Agreement
from tests.chaos.troubles import Trouble

HEAD = "| killed | when | times | readings lost of a channel, median | most | goes on after |"


def kills_table(
    troubles: Sequence[Trouble], agreement: Agreement, wrong: Sequence[str]
) -> list[str]:
    """The kills by what and when, the other troubles, how the numbers agree, and what was wrong."""
    kills: dict[tuple[str, str], list[Trouble]] = {}
    for one in troubles:
        if one.killed:
            kills.setdefault((one.what.removesuffix(" killed"), one.when), []).append(one)
    lines = [HEAD, "|---|---|---|---|---|---|"]
    for (what, when), some in sorted(kills.items()):
        worst = [max(max(one.lost_s.values()), 0.0) for one in some if one.lost_s]
        resumed = [one.resumed_s for one in some if one.resumed_s is not None]
        lines.append(
            f"| {what} | {when} | {len(some)} | {_ms(statistics.median(worst) if worst else None)} "
            f"| {_ms(max(worst, default=None))} | "
            f"{f'{statistics.median(resumed):.1f} s' if resumed else '–'} |"
        )
    others = Counter(one.what for one in troubles if not one.killed)
    lines += ["", "Beside them: " + ", ".join(f"{n} × {what}" for what, n in others.items()) + "."]
    lines += ["", _share("Watts that hold the bench's truth", agreement.true)]
    lines += [_share("Numbers that agree with those of runs left alone", agreement.alike)]
    lines += ["", "Wrong: " + ("nothing." if not wrong else ""), *(f"- {words}" for words in wrong)]
    return lines


def _ms(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds * 1000:.0f} ms"


def _share(words: str, ratios: Sequence[float]) -> str:
    if not ratios:
        return f"{words}: none was compared."
    held = sum(ratio <= 1 for ratio in ratios) / len(ratios)
    typical, most = statistics.median(ratios), max(ratios)
    return f"{words}: {held:.1%} of {len(ratios)}; median {typical:.2f} U, most {most:.2f} U."
