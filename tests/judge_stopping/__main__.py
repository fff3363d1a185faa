"""``python -m tests.judge_stopping [--phases N] [--seed N] [--loads] [--page]``.

Prints a line for each kind of load: phases, those that ended by the rule, the share of these whose
drawn watts are inside U, whose process is inside the repeatability, and inside U of the point with
the gain error; the share of all that ended with a repeatability that does not hold; mean seconds;
these over the oracle's, over that of the oracle that does not know what no phase shows (a slope up
to its longest time, collection that is yet to come), over the fixed time that reaches the target
with the worst load of the kind, and over 180 s; median U.
"""

from __future__ import annotations

import argparse
import math

from tests.judge.page import day, renew
from tests.judge_stopping.judging import SETTLED, WITHIN, Row, by_kind, inside_two_periods, row
from tests.judge_stopping.loads import LOADS

HEAD = (
    "| load | phases | ended | drawn in U | process in repeatability | process in U of the point | "
    "ended and wrong, of all | mean time | × oracle | × unsure oracle | × fixed | × 180 s | "
    "median U |",
    "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.judge_stopping",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--phases", type=int, default=100, help="of each load")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--loads", action="store_true", help="each load, too")
    parser.add_argument("--page", action="store_true", help="renew the tables of docs/trust.md")
    chosen = parser.parse_args()
    page = [f"{day()}, seed {chosen.seed}, {chosen.phases} phases of each of {len(LOADS)} loads."]
    for title, target in (("Within 0.5 % of the watts", WITHIN), ("Settled", SETTLED)):
        print(title)
        page += ["", f"{title}:", "", *HEAD]
        kinds = by_kind(LOADS, chosen.phases, chosen.seed, target)
        for judged in kinds:
            found = row(judged)
            line = page_row(found)
            print(line, flush=True)
            page.append(line)
            if chosen.loads:
                for item in judged:
                    print(page_row(row([item])), item.load.name, item.oracle)
        early = sum(map(inside_two_periods, kinds))
        stopped = sum(one.stopped for judged in kinds for item in judged for one in item.phases)
        said = f"{stopped} phases ended by the rule, {early} of them inside their first two periods"
        print(said)
        page += ["", f"{said} of collection."]
    if chosen.page:
        renew("stopping", page, "make judge-stopping")


def page_row(found: Row) -> str:
    """A line of the page's table."""
    drawn, process, point = (_share(one) for one in (found.drawn, found.process, found.point))
    if not found.holds:
        process = f"**{process}**"
    if found.refused:
        drawn = process = point = "*refused*"
    ratios = " | ".join(
        f"{one:.2f}" if math.isfinite(one) else "–"
        for one in (found.over_oracle, found.over_unsure, found.over_fixed, found.over_usual)
    )
    return (
        f"| {found.kind} | {found.phases} | {found.stopped} | {drawn} | {process} | {point} | "
        f"{found.wrong:.1%} | {found.seconds:.0f} s | {ratios} | {found.share:.2%} |"
    )


def _share(one: float) -> str:
    return f"{one:.1%}" if math.isfinite(one) else "–"


main()
