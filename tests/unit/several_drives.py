"""A run of two drives that worked at once, made up: what fio printed, readings and header."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from labctl.record.header import DriveInfo, Header
from labctl.record.layout import READING
from tests.unit import synthetic_run
from tests.unit.synthetic_run import Load


def fio_document(iops: dict[str, float], seconds: float) -> dict[str, Any]:
    jobs = [
        {
            "jobname": f"drive-{name}",
            "job_runtime": round(seconds * 1000),
            "usr_cpu": 5.0,
            "sys_cpu": 10.0,
            "read": {
                "total_ios": round(rate * seconds),
                "io_bytes": round(rate * seconds) * 4096,
                "io_kbytes": round(rate * seconds) * 4,
                "runtime": round(seconds * 1000),
                "lat_ns": {"mean": 8e9 / rate, "max": 9e9 / rate, "N": round(rate * seconds)},
            },
        }
        for name, rate in iops.items()
    ]
    return {"fio version": "fio-3.33", "timestamp_ms": 5, "jobs": jobs}


def several(root: Path, shared: bool = False) -> synthetic_run.Synthetic:
    """A run of two drives: the rail 12V is the left one's, 3V3 the right one's (or shared)."""
    loads = (synthetic_run.IDLE, Load(0.6, 0.9), Load(0.8, 1.4))
    run = synthetic_run.build(root, synthetic_run.Bench(loads=loads, seed=4))
    header = json.loads((run.path / "run.json").read_text())
    owners = ("left", "" if shared else "right")
    for rail, owner in zip(header["rails"], owners, strict=True):
        rail["drive"] = owner
    infos = {name: DriveInfo(f"model {name}", f"S-{name}") for name in ("left", "right")}
    whole = DriveInfo.together([*infos.values()])
    made = Header.from_json(header)
    header["drives"] = {name: vars_of(info) for name, info in infos.items()}
    header["drive"] = vars_of(whole)
    header["channels"] += [
        {"name": f"fio.{prefix}read.iops", "quantity": "iops", "unit": "1/s", "interval_s": 0.5}
        for prefix in ("", "left.", "right.")
    ]
    (run.path / "run.json").write_text(json.dumps(header))
    for phase, begin_s in zip(made.phases[1:], run.begins_s[1:], strict=True):
        rates = {"left": 1000.0 * phase.index, "right": 4000.0 * phase.index}
        folder = run.path / "fio" / phase.slug
        folder.mkdir(parents=True)
        (folder / "stdout").write_text(json.dumps(fio_document(rates, phase.duration_s)))
        t_ns = synthetic_run.to_ns(begin_s + np.arange(0.25, phase.duration_s, 0.5))
        for name, rate in (*rates.items(), ("", sum(rates.values()))):
            rows = np.zeros(len(t_ns), READING)
            rows["t"], rows["v"] = t_ns, rate
            channel = f"fio.{name}.read.iops" if name else "fio.read.iops"
            with (run.path / "channels" / channel).open("ab") as file:
                file.write(rows.tobytes())
    return run


def vars_of(info: DriveInfo) -> dict[str, Any]:
    return {"model": info.model, "serial": info.serial}
