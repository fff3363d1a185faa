"""An import's memory does not grow with the file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

RATE_HZ = 20_000
BEGAN_S = 1_700_000_000
ROWS_AT_ONCE = 1 << 18


def write_recording(file: Path, rows: int) -> Path:
    """Watts of two phases with a rest before and after them; fio's documents in a folder."""
    folder = file.with_suffix("")
    folder.mkdir()
    seconds = rows / RATE_HZ
    length_s, levels = 0.4 * seconds, np.array([3.0, 5.0, 8.0, 3.0])
    edges_s = np.array([0.1, 0.5, 0.9]) * seconds
    for number in range(2):
        begin_ms, runtime = round((BEGAN_S + edges_s[number]) * 1000), round(length_s * 1000)
        ios = 1000 * (number + 1) * runtime
        job = {
            "jobname": "a", "job_start": begin_ms, "job_runtime": runtime, "error": 0,
            "job options": {"rw": "randread", "bs": "4k", "iodepth": str(4**number)},
            "read": {"total_ios": ios, "io_bytes": ios * 4096, "runtime": runtime,
                     "iops": 1e6 * (number + 1)},
        }  # fmt: skip
        end_ms = begin_ms + runtime
        document = {"fio version": "fio-3.39", "timestamp": end_ms // 1000, "timestamp_ms": end_ms}
        (folder / f"{number}.json").write_text(json.dumps({**document, "jobs": [job]}))
    rng = np.random.default_rng(1)
    with file.open("w") as stream:
        stream.write("Time (us),12V power (W)\n")
        for first in range(0, rows, ROWS_AT_ONCE):
            t = np.arange(first, min(first + ROWS_AT_ONCE, rows)) / RATE_HZ
            watts = levels[np.searchsorted(edges_s, t, side="right")] + rng.normal(0, 0.05, len(t))
            stamps = (t * 1e6).astype(np.int64) + BEGAN_S * 10**6
            stream.writelines(
                f"{at},{one:.4f}\n" for at, one in zip(stamps.tolist(), watts.tolist(), strict=True)
            )
    return folder


def peak_kib(file: Path, fio: Path, runs: Path) -> int:
    """The most memory that an import has held."""
    command = ("import", file, "--fio", fio, "--runs", runs, "--time-format", "epoch_us", "--yes")
    with (runs.parent / "said").open("w") as said:
        started = subprocess.Popen(
            [sys.executable, "-m", "labctl", *map(str, command)], stdout=said, stderr=said
        )
        _, status, used = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
    text = (runs.parent / "said").read_text()
    assert started.returncode == 0, text
    assert "90 % read" in text
    return used.ru_maxrss


@pytest.mark.long
def test_a_file_four_times_as_large_takes_no_more_memory(tmp_path: Path) -> None:
    """Both are larger than what is kept of a phase, all of which is held then."""
    peaks = []
    for rows in (4_000_000, 16_000_000):
        folder = tmp_path / str(rows)
        folder.mkdir()
        file = folder / "meter.csv"
        fio = write_recording(file, rows)
        peaks.append(peak_kib(file, fio, folder / "runs"))
        file.unlink()
    assert peaks[1] < 1.3 * peaks[0]
