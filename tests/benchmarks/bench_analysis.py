"""How long a summary takes and how much memory: an 8 h run, and a fast one of 60 s.

Makes each run in a temporary directory (1.8 GB) and summarises it, in turns with plain numpy over
the same files, each in a fresh process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from labctl.record import journal
from labctl.record.header import ChannelInfo, DriveInfo, Header, RailInfo
from labctl.record.layout import CLOCK_PAIR, READING
from labctl.record.phase import Pattern, Phase, Role
from labctl.record.timebase import Anchor
from tests.benchmarks.figures import Figure, in_turns, judged, seconds, show

EPOCH_NS = 1_700_000_000_000_000_000
CHANNELS = {"v12.voltage": 12.0, "i12.current": 0.8, "v3.voltage": 3.3, "i3.current": 0.6}
CHUNK = 1 << 20

MEASURE = """
import json, resource, sys, time
from pathlib import Path
from labctl.analysis.run.summary import summarise
from labctl.record.reader import RunRecord
imported = time.perf_counter()
summary = summarise(RunRecord(Path(sys.argv[1])))
done = time.perf_counter()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"summary_s": done - imported, "peak_mib": peak}))
"""

PLAIN = """
import json, sys, time
from pathlib import Path
import numpy as np
begin = time.perf_counter()
folder = Path(sys.argv[1]) / "channels"
names = ["v12.voltage", "i12.current", "v3.voltage", "i3.current"]
data = [np.fromfile(folder / name, dtype=[("t", "<i8"), ("v", "<f8")]) for name in names]
for volts, amps in (data[:2], data[2:]):
    n = len(amps) // int(sys.argv[2])
    for k in range(0, len(amps) - n + 1, n):
        watts = volts["v"][k:k + n] * amps["v"][k:k + n]
        watts.mean(), np.trapezoid(watts, amps["t"][k:k + n])
print(json.dumps(time.perf_counter() - begin))
"""


@dataclass(frozen=True)
class Case:
    """One made-up run and what its summary may cost."""

    title: str
    seconds: float
    rate_hz: float
    phase_s: float
    promised_s: float
    most_mib: float = 1024


def make_run(root: Path, case: Case) -> Path:
    """A run whose four meters have clocks of their own, 20 to 50 ppm off and never in step."""
    count = int(case.seconds // case.phase_s)
    roles = [Role.IDLE_BEFORE, *[Role.MEASURE] * (count - 2), Role.IDLE_AFTER]
    phases = tuple(
        Phase(
            index=i,
            role=role,
            sweep="bench",
            pattern=Pattern.RANDREAD if role is Role.MEASURE else Pattern.IDLE,
            duration_s=case.phase_s,
            block_size_bytes=4096 if role is Role.MEASURE else 0,
            queue_depth=1 + i if role is Role.MEASURE else 0,
            jobs=1,
        )
        for i, role in enumerate(roles)
    )
    channels = tuple(
        ChannelInfo(
            name=name,
            quantity=name.split(".")[1],
            unit="V" if "voltage" in name else "A",
            clock="device",
            interval_s=1 / case.rate_hz,
            aperture_s=0.9 / case.rate_hz,
            accuracy_of_reading=5e-4,
            accuracy_floor=1e-4,
        )
        for name in CHANNELS
    )
    header = Header(
        run_id=f"bench-{case.rate_hz:g}",
        rig_name="bench",
        plan_name="bench",
        rig_text="",
        plan_text="",
        phases=phases,
        channels=channels,
        rails=(
            RailInfo("12V", 12.0, "v12.voltage", "i12.current"),
            RailInfo("3V3", 3.3, "v3.voltage", "i3.current"),
        ),
        temperatures={},
        drive=DriveInfo(),
        anchor=Anchor(EPOCH_NS, 0, ""),
        versions={},
    )
    path = journal.create(root, header)
    rng = np.random.default_rng(1)
    for number, (name, level) in enumerate(CHANNELS.items()):
        _write_channel(path / "channels" / name, case, level, number, rng)
    live = np.empty(int(case.seconds * 2), READING)
    live["t"] = EPOCH_NS + 250_000_000 + np.arange(len(live)) * 500_000_000
    live["v"] = 100_000 * (1 + 0.02 * rng.normal(size=len(live)))
    live.tofile(path / "channels" / "fio.read.iops")
    lines = [_line(0, "run_started")]
    for i in range(count):
        begin, end = i * case.phase_s + 0.01, (i + 1) * case.phase_s
        lines.append(_line(begin - 0.005, "phase_started", index=i))
        lines.append(
            _line(
                end,
                "phase_ended",
                index=i,
                outcome="completed",
                begin_ns=EPOCH_NS + round(begin * 1e9),
                end_ns=EPOCH_NS + round(end * 1e9),
                boundary_u_ns=50_000,
            )
        )
    lines.append(_line(case.seconds, "run_ended", outcome="completed", reason=""))
    (path / "journal.jsonl").write_text("".join(lines))
    return path


def _line(seconds: float, kind: str, **data: object) -> str:
    return json.dumps({"t": EPOCH_NS + round(seconds * 1e9), "kind": kind, **data}) + "\n"


def _write_channel(
    file: Path, case: Case, level: float, number: int, rng: np.random.Generator
) -> None:
    n = int(case.seconds * case.rate_hz)
    drift = (-50e-6, 20e-6, 35e-6, -20e-6)[number]
    step_ns = 1e9 / case.rate_hz
    noise = rng.normal(size=CHUNK)
    steps = 0.2 * level if "current" in file.name else 0.0
    with file.open("wb") as stream:
        for begin in range(0, n, CHUNK):
            at = np.arange(begin, min(begin + CHUNK, n))
            host = (at + 0.2 * (number + 1)) * step_ns
            part = np.empty(len(at), READING)
            part["t"] = (host * (1 - drift)).astype(np.int64) + 5_000_000_000
            part["v"] = level + 0.01 * level * noise[: len(at)]
            part["v"] += steps * (np.floor(host * 1e-9 / case.phase_s) % 2)
            part.tofile(stream)
    clock_samples = np.empty(int(case.seconds), CLOCK_PAIR)
    moment = (np.arange(len(clock_samples)) + 0.5) * 1e9
    clock_samples["device_ns"] = (moment * (1 - drift)).astype(np.int64) + 5_000_000_000
    clock_samples["round_trip_ns"] = 200_000 + rng.integers(0, 300_000, len(clock_samples))
    late = rng.uniform(0.1, 0.9, len(clock_samples)) * clock_samples["round_trip_ns"]
    clock_samples["host_ns"] = EPOCH_NS + (moment + late).astype(np.int64)
    clock_samples.tofile(file.with_name(file.name + ".clock"))


def measure(case: Case) -> list[Figure]:
    """Make the run, and summarise it in turns with plain numpy."""
    peaks_mib: list[float] = []
    with tempfile.TemporaryDirectory(prefix="labctl-bench-") as folder:
        path = make_run(Path(folder), case)

        def summary() -> float:
            found = json.loads(_run(MEASURE, str(path)))
            peaks_mib.append(found["peak_mib"])
            return float(found["summary_s"])

        def plain() -> float:
            return float(json.loads(_run(PLAIN, str(path), str(int(case.seconds // case.phase_s)))))

        pairs = in_turns(summary, plain)
    why = "means and energies of all phases alone: no clocks, no uncertainty, no steady state"
    peak_mib = max(peaks_mib)
    return [
        judged(case.title, pairs, 1.0, seconds, "plain numpy", why, promised=case.promised_s),
        Figure(
            "  its peak of memory",
            f"≤ {case.most_mib:g} MiB",
            f"{peak_mib:.0f} MiB",
            peak_mib <= case.most_mib,
        ),
    ]


def _run(code: str, *arguments: str) -> str:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


show(*measure(Case("summary of 8 h × 4 channels × 1 kS/s", 28_800, 1e3, 180.0, 3.0)))
show(*measure(Case("join of 60 s × 4 channels × 250 kS/s", 60, 250e3, 6.0, 1.0)))
