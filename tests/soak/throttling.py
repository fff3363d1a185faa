"""``python -m tests.soak.throttling KIND FIRST LAST``: how well throttling is found, as a table.

KIND is one of those of :func:`tests.unit.throttle_scenarios.scenario`; FIRST to LAST (not included)
are the seeds. A drive takes a second or two.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from labctl.analysis.summary import summarise
from tests.unit.throttle_scenarios import Score, scenario
from tests.unit.virtual_bench import build


def score(kind: str, seeds: range) -> Score:
    """Carry out and judge a drive for each seed."""
    found = Score()
    for seed in seeds:
        with tempfile.TemporaryDirectory(prefix="labctl-throttling-") as folder:
            run = build(Path(folder), scenario(kind, seed))
            found.add(f"{kind} {seed}", run, summarise(run.record))
    return found


def table(kind: str, runs: int, found: Score) -> str:
    """What was found, by cause, and what was missed or made up, a line each."""
    lines = [f"{kind}: {runs} runs; longer than 3 s, begin and end within 2 s"]
    for cause, wanted in found.wanted.items():
        placed, told = found.placed[cause] / wanted, found.recall(cause)
        lines.append(f"  {cause:<20} {wanted:>5} found {placed:6.1%} cause told {told:6.1%}")
    lines.append(f"  made up {len(found.invented)}, called throttling {len(found.accused)}")
    return "\n".join([*lines, *(f"  {line}" for line in (*found.missed, *found.accused))])


def main() -> int:
    """Judge and print."""
    kind, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    sys.stdout.write(table(kind, last - first, score(kind, range(first, last))) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
