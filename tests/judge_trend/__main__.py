"""``python -m tests.judge_trend``: false alarms, power, places and shapes of ``labctl trend``."""

from __future__ import annotations

import argparse
import itertools
import os
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.judge.page import day, renew
from tests.judge_trend.judge import NOTHING, PLACES, SHAPES, SIZES, alarm, all_of, power, shape

PAGE = Path(__file__).parents[2] / "docs" / "trend.md"
BY = "python -m tests.judge_trend --page"
MOST_WORDS = 3
"""Of a shape, the commonest verdicts that are printed."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.judge_trend", description=__doc__)
    parser.add_argument("--trials", type=int, default=200, help="series without a change (200)")
    parser.add_argument("--changes", type=int, default=60, help="series of each change (60)")
    parser.add_argument("--orders", type=int, default=199, help="random orders a search (199)")
    parser.add_argument("--seed", type=int, help="repeats a draw; left out: another each time")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--page", action="store_true", help="renew the tables of docs/trend.md")
    options = parser.parse_args()
    seed = secrets.randbelow(10**6) if options.seed is None else options.seed
    began = time.monotonic()
    tables = (
        ("alarms", _alarms, options.trials),
        ("power", _power, options.changes),
        ("shapes", _shapes, options.changes),
    )
    for name, table, trials in tables:
        lines = [
            f"{day()}, seed {seed}, {trials} series of each kind, {options.orders} orders.",
            "",
        ]
        lines += table(seed, trials, options)
        print(*lines, "", sep="\n", flush=True)
        if options.page:
            renew(name, lines, BY, PAGE)
    print(f"{time.monotonic() - began:.0f} s")


def _summed(
    trial: Callable[[Any], Counter[str]], keys: Sequence[tuple[Any, ...]], seed: int,
    trials: int, options: argparse.Namespace,
) -> dict[tuple[Any, ...], Counter[str]]:  # fmt: skip
    tasks = [(*key, seed, number) for key in keys for number in range(trials)]
    found: dict[tuple[Any, ...], Counter[str]] = {key: Counter() for key in keys}
    results: Iterable[Counter[str]] = all_of(trial, tasks, options.workers, options.orders)
    for task, counts in zip(tasks, results, strict=True):
        found[task[:-2]] += counts
    return found


def _alarms(seed: int, trials: int, options: argparse.Namespace) -> list[str]:
    lines = [
        "| how runs differ | series with a change | runs out of line, a series |",
        "|---|---|---|",
    ]
    kinds = [(one,) for one in NOTHING]
    for (kind,), counts in _summed(alarm, kinds, seed, trials, options).items():
        share, n = counts["alarms"] / counts["trials"], counts["trials"]
        doubt = 2 * (max(share * (1 - share), 1 / n) / n) ** 0.5
        lines.append(f"| {kind} | {share:.1%} ± {doubt:.1%} | {counts['outliers'] / n:.2f} |")
    return lines


def _power(seed: int, trials: int, options: argparse.Namespace) -> list[str]:
    found = _summed(power, list(itertools.product(PLACES, SIZES)), seed, trials, options)
    lines = [
        "| where, and at how many points | told in 80 % | told in 95 % | each point in 80 % | "
        "exactly there | within one run | U covers |",
        "|---|---|---|---|---|---|---|",
    ]
    for place in PLACES:
        mine = [found[place, size] for size in SIZES]
        told = [one["found"] / one["trials"] for one in mine]
        each = [one["points found"] / one["points"] for one in mine]
        total = sum(mine, Counter())
        lines.append(
            f"| {place} | {_reached(told, 0.8)} | {_reached(told, 0.95)} | {_reached(each, 0.8)} | "
            f"{_share(total, 'exactly', 'placed')} | {_share(total, 'within 1', 'placed')} | "
            f"{_share(total, 'covered', 'with U')} |"
        )
    return lines


def _share(counts: Counter[str], part: str, whole: str) -> str:
    return f"{counts[part] / counts[whole]:.0%}" if counts[whole] else "–"


def _reached(shares: Sequence[float], wanted: float) -> str:
    """The size at which the share is reached, between those that were drawn."""
    for number, share in enumerate(shares):
        if share >= wanted:
            if not number:
                return f"≤ {SIZES[0]:.1f} σ"
            before = shares[number - 1]
            part = (wanted - before) / (share - before)
            return f"{SIZES[number - 1] + part * (SIZES[number] - SIZES[number - 1]):.1f} σ"
    return f"> {SIZES[-1]:.0f} σ"


def _shapes(seed: int, trials: int, options: argparse.Namespace) -> list[str]:
    lines = ["| what happened | told as |", "|---|---|"]
    kinds = [(one,) for one in SHAPES]
    for (kind,), counts in _summed(shape, kinds, seed, trials, options).items():
        words = Counter({word: count for word, count in counts.items() if word != "trials"})
        shown = [
            f"{word} ({count / counts['trials']:.0%})"
            for word, count in words.most_common(MOST_WORDS)
        ]
        lines.append(f"| {kind} | {'; '.join(shown)} |")
    return lines


if __name__ == "__main__":
    main()
