"""Read SMART once, with whichever tool the drive's host has."""

from __future__ import annotations

from labctl.capture.host.machine import Machine, run_tool
from labctl.capture.identity.nvme_cli import EXTENDED_SMART, SMART, ask_nvme, nvme_failure
from labctl.capture.identity.nvme_pages import parse_smart_log, with_extended_smart
from labctl.capture.identity.smartctl import parse_smartctl
from labctl.capture.identity.tool_output import failure
from labctl.record.drive_state import SmartLog


class SmartReader:
    """Reads the SMART of one drive. Prefers the tool that worked last."""

    def __init__(self, machine: Machine, device: str, kind: str, *, extended: bool = False) -> None:
        """``device``: a path such as /dev/nvme0n1; ``kind`` as in DriveState; ``extended``: it has
        log page C0h of OCP."""
        self._machine = machine
        self._device = device
        self._extended = extended
        self._tools = [self._with_nvme_cli] if kind == "nvme" else []
        self._tools.append(self._with_smartctl)

    def read(self) -> tuple[SmartLog | None, str]:
        """The log and an empty text, or None and one line with the reason and what to do.

        Blocks until the tool has ended.
        """
        problems: list[str] = []
        for tool in list(self._tools):
            log, problem = tool()
            if log is not None:
                self._tools.remove(tool)
                self._tools.insert(0, tool)
                return log, ""
            problems.append(problem)
        return None, "; ".join(problems)

    def _with_nvme_cli(self) -> tuple[SmartLog | None, str]:
        done = ask_nvme(self._machine, SMART, self._device)
        log = parse_smart_log(done.raw)
        if log is None:
            return None, nvme_failure(done, SMART)
        if self._extended:
            more = ask_nvme(self._machine, EXTENDED_SMART, self._device)
            log = with_extended_smart(log, more.raw)
        return log, ""

    def _with_smartctl(self) -> tuple[SmartLog | None, str]:
        done = run_tool(self._machine, ["smartctl", "-j", "-H", "-A", self._device])
        report = parse_smartctl(done.stdout)
        if report is None:
            return None, failure("smartctl", "smartmontools", done, SMART.gives)
        if report.smart is None:
            return None, "; ".join(report.problems) or f"no {SMART.gives}: smartctl shows none"
        return report.smart, ""
