"""How true the U of labctl are, by runs of which the truth is known.

``python -m tests.judge`` prints a table of the uncertainties, one of the gate of ``labctl
compare``, and that of tests.judge_throttling. ``--part numbers`` is the first alone, as is naming
regimes by a part of their names: ``python -m tests.judge moments "one step"``. Each draw has
another seed.

Uncertainties. ``given``: phases with a two-sided U. ``cover``: of these, those that hold the
truth. ``chance``: what the cover may be off in this draw (95 %). ``|e|/U``: median; an honest U
gives about 0.35, a far too wide one 0.05. ``!`` under 95 %, ``!!`` by more than chance. Where the
watts cannot be known ("at least", or no number, is right) the cover counts the phases without a
U that misses.

Gate, with nothing allowed: how often it fails on equal runs, how often on runs that draw 5 % more,
and how often it says instead that this cannot be told; one run each, and three.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import secrets
import subprocess
import sys
import time
from collections import Counter

from tests.judge import page
from tests.judge.benches import Regime
from tests.judge.judging import REGIMES, judge_all
from tests.judge.pairs import VARIES, trial_of
from tests.judge.scoring import HEAD, Row, Statement

PARTS = ("numbers", "gate", "throttling")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.judge",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--part", action="append", choices=PARTS, help="repeatable; default: all")
    parser.add_argument("--phases", type=int, default=300, help="of each regime, at least (300)")
    parser.add_argument("--trials", type=int, default=60, help="of each kind of pairs (60)")
    parser.add_argument("--throttling-runs", type=int, default=10, help="of each class (10)")
    parser.add_argument("--seed", type=int, help="repeats a draw; left out: another each time")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--page", action="store_true", help="renew the tables of docs/trust.md")
    parser.add_argument("--misses", action="store_true", help="print the phases that missed")
    parser.add_argument("--list", action="store_true", help="print the names of the regimes")
    parser.add_argument("regimes", nargs="*", help="parts of their names; left out: all")
    options = parser.parse_args()
    chosen = [
        one for one in REGIMES
        if not options.regimes or any(word in one.name for word in options.regimes)
    ]  # fmt: skip
    if options.list:
        print(*(one.name for one in chosen), sep="\n")
        return 0
    if options.page and options.regimes:
        parser.error("--page is of all regimes")
    seed = secrets.randbelow(10**6) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    parts = options.part or (("numbers",) if options.regimes else PARTS)
    began = time.monotonic()
    if "numbers" in parts:
        rows = _numbers(chosen, seed, options)
        if options.page:
            page.renew("uncertainties", page.numbers(rows, seed))
    if "gate" in parts:
        found = _gate(seed, options)
        if options.page:
            page.renew("gate", page.gate(found, seed))
    if "throttling" in parts:
        words = ["--runs", str(options.throttling_runs), "--first", str(seed)]
        words += ["--page"] if options.page else []
        subprocess.run([sys.executable, "-m", "tests.judge_throttling", *words], check=True)
    print(f"{time.monotonic() - began:.0f} s")
    return 0


def _numbers(chosen: list[Regime], seed: int, options: argparse.Namespace) -> list[Row]:
    print(f"at least {options.phases} phases of each of {len(chosen)} regimes\n{HEAD}")
    rows: list[Row] = []
    for found, statements in judge_all(chosen, seed, options.phases, options.workers):
        for row in found:
            print(row.line(), flush=True)
        rows += found
        if options.misses:
            _print_misses(
                [
                    one
                    for one in statements
                    if one.missed or (one.value is None and not found[0].refused)
                ]
            )
    return rows


def _print_misses(statements: list[Statement]) -> None:
    for one in statements:
        print(
            f"      run {one.run} phase {one.phase} {one.quantity}: {one.value} ± {one.u}, "
            f"truth {one.truth:.5g}; {'; '.join(one.notes)}"
        )


def _gate(seed: int, options: argparse.Namespace) -> dict[str, Counter[str]]:
    print(f"{options.trials} trials of each kind\n{page.GATE_HEAD}")
    found = {kind: Counter[str]() for kind in VARIES}
    tasks = [(kind, seed, number) for kind in VARIES for number in range(options.trials)]
    with multiprocessing.get_context("forkserver").Pool(options.workers) as pool:
        for (kind, _, number), counts in zip(tasks, pool.imap(trial_of, tasks), strict=True):
            found[kind] += counts
            if number == options.trials - 1:
                print(page.gate({kind: found[kind]}, seed)[-1], flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
