"""The table of how true labctl's U are: regimes with their cover, median U and error over U.

A regime is one or several words of its name: ``python -m tests.judge dithered "one step"``.
``given``: phases with a two-sided U. ``cover``: of these, those that hold the truth. ``chance``:
what the cover may be off in this draw (95 %). ``|e|/U``: median; an honest U gives about 0.35, a
far too wide one 0.05. ``!`` under 95 %, ``!!`` by more than chance. Where the watts cannot be known
("at least", or no number, is right) the cover counts the phases without a U that misses.
"""

from __future__ import annotations

import argparse
import os
import secrets
import time

from tests.judge.judging import REGIMES, judge_all
from tests.judge.scoring import HEAD


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.judge",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--phases", type=int, default=300, help="of each regime, at least")
    parser.add_argument("--seed", type=int, help="repeats a draw; left out: another each time")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--misses", action="store_true", help="print the phases that missed")
    parser.add_argument("--list", action="store_true", help="print the names of the regimes")
    parser.add_argument("regimes", nargs="*", help="words of their names; left out: all")
    asked = parser.parse_args()
    chosen = [
        one for one in REGIMES
        if not asked.regimes or any(word in one.name for word in asked.regimes)
    ]  # fmt: skip
    if asked.list:
        print(*(one.name for one in chosen), sep="\n")
        return
    seed = secrets.randbelow(10**6) if asked.seed is None else asked.seed
    print(f"seed {seed}, at least {asked.phases} phases of each of {len(chosen)} regimes")
    print(HEAD)
    began = time.monotonic()
    for found, said in judge_all(chosen, seed, asked.phases, asked.workers):
        for row in found:
            print(row.line(), flush=True)
        if asked.misses:
            for one in said:
                if one.missed or one.value is None:
                    print(f"      run {one.run} phase {one.phase} {one.quantity}: {one.value} "
                          f"± {one.u}, truth {one.truth:.5g}; {'; '.join(one.notes)}")  # fmt: skip
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
