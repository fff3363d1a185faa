"""How long the largest means over windows of all lengths take, and how much memory.

Ten minutes of two rails at 250,000 readings a second, V and I read by four channels: the watts of
both rails come in parts as they do from the files, on one clock or each on its own, and only the
search is timed. Noise without any structure, in which no window is an obvious one. The control is
``np.cumsum`` of the same watts, part by part: what any search by prefix sums begins with.

Processor time is of ten minutes in one phase. A report takes two phases at a time, so the wall
clock is that of two phases of five minutes side by side.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys

from tests.benchmarks.figures import Figure, Pairs, judged, seconds, show

SECONDS = 600
REPEATS = 3
PROMISED_S = 2.0
AT_MOST = 2.0
MEASURE = """
import json, resource, sys, time
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from labctl.analysis.power.rail_power import CHUNK
from labctl.analysis.power.reading_energy import EnergyOfAll, EnergyOfReadings
from labctl.analysis.power.sliding_maxima import WINDOWS_S, WindowSearch
step_ns, windows = 4000.0, [seconds * 1e9 for seconds in WINDOWS_S if seconds < 300]
total, phases, drifts = int(sys.argv[1]), int(sys.argv[2]), (float(sys.argv[3]), float(sys.argv[4]))
noise = 0.3 * np.random.default_rng(1).normal(size=1 << 22)

def search(seed):
    rng, n = np.random.default_rng(seed), total // phases
    readings = [EnergyOfReadings(n * step_ns, step_ns) for _ in drifts]
    searches = [WindowSearch(windows, step_ns, n) for _ in range(3)]
    together, spent, wall, control = EnergyOfAll(0), 0.0, 0.0, 0.0
    for low in range(0, n, CHUNK):
        parts = []
        for number, drift in enumerate(drifts):
            at = np.arange(low, min(low + CHUNK, n))
            t = np.rint((at + 0.5 + (0.3 * number if drift else 0.0)) * step_ns * (1 + drift))
            begin = int(rng.integers(0, len(noise) - CHUNK))
            parts.append((t, 8.0 + noise[begin:begin + len(at)]))
        begun = time.thread_time(), time.perf_counter()
        energies = [one.add(*part) for one, part in zip(readings, parts)]
        for one, energy in zip(searches, [*energies, together.add(energies)]):
            one.add(energy)
        spent += time.thread_time() - begun[0]
        wall += time.perf_counter() - begun[1]
        begun = time.thread_time()
        for _, watts in parts:
            np.cumsum(watts)
        control += time.thread_time() - begun
    begun = time.thread_time(), time.perf_counter()
    energies = [one.ended() for one in readings]
    for one, energy in zip(searches, [*energies, together.add(energies)]):
        one.add(energy)
    found = [one.result().found for one in searches]
    spent += time.thread_time() - begun[0]
    wall += time.perf_counter() - begun[1]
    assert all(len(one) == len(windows) for one in found)
    return spent, wall, control

with ThreadPoolExecutor(phases) as pool:
    found = list(pool.map(search, range(phases)))
spent, wall, control = zip(*found)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"cpu_s": sum(spent), "busier_s": max(spent), "wall_s": max(wall),
                  "control_s": sum(control), "peak_mib": peak}))
"""


def _measured(phases: int, drifts: tuple[float, float]) -> list[dict[str, float]]:
    arguments = [str(SECONDS * 250_000), str(phases), *map(str, drifts)]
    command = [sys.executable, "-c", MEASURE, *arguments]
    return [
        json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(REPEATS)
    ]


def _figures(title: str, drifts: tuple[float, float]) -> list[Figure]:
    alone, beside = _measured(1, drifts), _measured(2, drifts)
    pairs = Pairs.of((one["cpu_s"], one["control_s"]) for one in alone)
    peak_mib = max(one["peak_mib"] for one in (*alone, *beside))
    least_s = min(one["cpu_s"] for one in alone)
    wall, busier = ([one[key] for one in beside] for key in ("wall_s", "busier_s"))
    why = "both rails and their sum, 7 lengths of windows; white noise, the worst case"
    return [
        judged(title, pairs, AT_MOST, seconds, "np.cumsum", why, promised=PROMISED_S),
        Figure("  the least of its repeats", "", seconds(least_s)),
        Figure(
            "  wall clock, as two phases side by side",
            "",
            seconds(statistics.median(wall)),
            absolute=f"least of its repeats {seconds(min(wall))}; processor time of the busier "
            f"thread {seconds(min(busier))}, which is the least that a free machine takes",
        ),
        Figure("  its peak of memory", "≤ 1 GiB", f"{peak_mib:.0f} MiB", peak_mib <= 1024),
    ]


if __name__ == "__main__":
    name = "power envelope of 10 min × 4 channels × 250 kS/s"
    show(*_figures(f"{name}, one clock", (0.0, 0.0)))
    show(*_figures(f"{name}, clocks of their own", (-50e-6, 20e-6)))
