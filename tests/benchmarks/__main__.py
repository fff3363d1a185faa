"""``make bench``: every figure, target and measured side by side, one module after another."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.benchmarks.figures import Figure


def main() -> int:
    print(f"{'what':<46} {'target':>16} {'measured':>18}")
    print("-" * 90)
    failed = 0
    for path in sorted(Path(__file__).parent.glob("bench_*.py")):
        done = subprocess.run([sys.executable, "-m", f"tests.benchmarks.{path.stem}"], check=False)
        if done.returncode:
            print(Figure(path.stem, "runs", f"exit {done.returncode}", False))
            failed = 1
    return failed


sys.exit(main())
