"""The machine that the drive is in: processor, governor, kernel, distribution, memory, fio."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from labctl.capture.host.machine import Machine
from labctl.record.drive_state import HostState

_FILES = (
    "/etc/os-release",
    "/usr/lib/os-release",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/device-tree/model",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor",
)
_KIB = 1024


def read_host(machine: Machine, engine: str = "") -> HostState:
    """What ``machine`` is. What cannot be read stays empty."""
    texts = machine.read_texts(_FILES)
    version = machine.run(["fio", "--version"])
    name, kernel, processor = (machine.run(["uname", "-n", "-r", "-m"]).stdout.split() + [""] * 3)[
        :3
    ]
    return HostState(
        name=name,
        cpu_model=parse_cpu_model(texts),
        cpus=_host_state_cpus(texts),
        governor=_host_state_governors(texts),
        kernel=kernel,
        machine=processor,
        distribution=_host_state_distribution(texts),
        memory_bytes=_memory_bytes(texts.get("/proc/meminfo", "")),
        fio=version.stdout.strip() if version.exit_code == 0 else "",
        engine=engine,
    )


def parse_cpu_model(texts: Mapping[str, str]) -> str:
    """The processor's name; on boards without one in cpuinfo, the board's."""
    for name in ("model name", "Model", "Hardware", "cpu model", "cpu"):
        match = re.search(rf"^{name}\s*:\s*(.+)$", texts.get("/proc/cpuinfo", ""), re.MULTILINE)
        if match:
            return " ".join(match[1].split())
    return texts.get("/proc/device-tree/model", "").strip("\0 \n")


def _host_state_cpus(texts: Mapping[str, str]) -> int | None:
    """How many processors are online, from a list such as ``0-3,8``."""
    ranges = re.findall(r"(\d+)(?:-(\d+))?", texts.get("/sys/devices/system/cpu/online", ""))
    return sum(int(last or first) - int(first) + 1 for first, last in ranges) or None


def _host_state_governors(texts: Mapping[str, str]) -> str:
    """The governor, or each with its count when the processors differ."""
    found = Counter(text.strip() for path, text in texts.items() if path.endswith("governor"))
    if len(found) <= 1:
        return next(iter(found), "")
    return ", ".join(f"{name} ({count})" for name, count in sorted(found.items()))


def _host_state_distribution(texts: Mapping[str, str]) -> str:
    text = texts.get("/etc/os-release") or texts.get("/usr/lib/os-release", "")
    match = re.search(r"^PRETTY_NAME=(.+)$", text, re.MULTILINE)
    return match[1].strip().strip("\"'") if match else ""


def _memory_bytes(meminfo: str) -> int | None:
    match = re.search(r"^MemTotal:\s*(\d+) kB", meminfo, re.MULTILINE)
    return int(match[1]) * _KIB if match else None
