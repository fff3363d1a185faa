"""What nvme-cli is asked, under the names that its commands have had."""

from __future__ import annotations

from labctl.capture.host.machine import Completed, Machine, run_tool

_SINCE_3 = {
    "id-ctrl": ("id", "ctrl"),
    "id-ns": ("id", "ns"),
    "smart-log": ("log", "smart"),
    "sanitize-log": ("log", "sanitize"),
}
"""nvme-cli 3.0 groups its commands; it may be built without the old names (NEWS.md of 3.0)."""
_UNKNOWN = "invalid sub-command"


def ask_nvme(machine: Machine, command: str, device: str) -> Completed:
    """What ``command`` (by its old name) prints of ``device`` as JSON."""
    done = run_tool(machine, ["nvme", command, device, "-o", "json"])
    if done.exit_code and _UNKNOWN in f"{done.stderr}{done.stdout}".lower():
        return run_tool(machine, ["nvme", *_SINCE_3[command], device, "-o", "json"])
    return done
