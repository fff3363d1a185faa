"""``python -m tests.judge_throttling [--runs N] [--first SEED] [--notes] [--page] [CLASS ...]``.

Prints a line for each class: true stretches longer than 3 s; the share placed (begin and end within
2 s, within 5 s where the drive holds itself back by degrees), found (within 5 s, under its cause or
as unknown), told as what they were, left open, told as something else, missed; median and 95 %
quantile of the errors of begins and ends (s); the share of time in which throttling was told
wrongly, of the phases that throttled; phases of these whose throttled time is off by more than
20 %, and those called "none seen"; phases that throttled of all; phases called throttled that were
not, and phases with stretches where there were none.
"""

from __future__ import annotations

import argparse

from tests.judge.page import day, renew
from tests.judge_throttling.judge import judge
from tests.judge_throttling.scenes import KINDS
from tests.judge_throttling.scoring import HEAD, PAGE_HEAD


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.judge_throttling",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--notes", action="store_true")
    parser.add_argument("--page", action="store_true", help="renew the table of docs/trust.md")
    parser.add_argument("classes", nargs="*", default=list(KINDS))
    chosen = parser.parse_args()
    last = chosen.first + chosen.runs - 1
    page = [f"{day()}, {chosen.runs} runs a class, seeds {chosen.first} to {last}.", "", *PAGE_HEAD]
    print(HEAD)
    for kind in chosen.classes:
        score = judge(kind, range(chosen.first, chosen.first + chosen.runs))
        print(score.row(kind), flush=True)
        page.append(score.page_row(kind))
        if chosen.notes:
            print(*(f"    {note}" for note in score.notes), sep="\n")
    if chosen.page:
        renew("throttling", page)


main()
