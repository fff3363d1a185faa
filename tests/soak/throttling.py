"""``python -m tests.soak.throttling KIND FIRST LAST``: how well throttling is found, as a table.

KIND is one of those of :func:`tests.unit.throttle_scenarios.scenario`; FIRST to LAST (not included)
are the seeds. A drive takes a second or two. Drives of which neither temperature nor counters are
recorded are judged by themselves: nothing tells there why they slow down.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from labctl.analysis.run.summary import summarise
from tests.unit.throttle_scenarios import Score, scenario
from tests.unit.virtual_bench import VirtualBench, build


def judge(kind: str, seed: int, bench: VirtualBench, found: Score) -> None:
    """Carry out and judge one drive."""
    with tempfile.TemporaryDirectory(prefix="labctl-throttling-") as folder:
        run = build(Path(folder), bench)
        found.add(f"{kind} {seed}", run, summarise(run.record))


def table(title: str, found: Score) -> str:
    """What was found, by cause, and what was missed or made up, a line each."""
    lines = [f"{title}; longer than 3 s, begin and end within 2 s"]
    for cause, wanted in found.wanted.items():
        placed, recalled = found.placed[cause] / wanted, found.recall(cause)
        lines.append(f"  {cause:<20} {wanted:>5} found {placed:6.1%} cause told {recalled:6.1%}")
    lines.append(f"  made up {len(found.invented)}, called throttling {len(found.accused)}")
    return "\n".join([*lines, *(f"  {line}" for line in (*found.missed, *found.accused))])


def main() -> int:
    """Judge and print."""
    kind, seeds = sys.argv[1], range(int(sys.argv[2]), int(sys.argv[3]))
    benches = {seed: scenario(kind, seed) for seed in seeds}
    blind = {seed for seed, bench in benches.items() if not (bench.sensor or bench.counters)}
    for title, some in (
        ("temperature or counters recorded", set(seeds) - blind),
        ("neither", blind),
    ):
        found = Score()
        for seed in sorted(some):
            judge(kind, seed, benches[seed], found)
        if some:
            sys.stdout.write(table(f"{kind}, {title}: {len(some)} runs", found) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
