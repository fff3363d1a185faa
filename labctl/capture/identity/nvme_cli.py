"""Ask a drive for its NVMe structures by nvme-cli, as the raw bytes that all its versions give."""

from __future__ import annotations

import re
from dataclasses import dataclass

from labctl.capture.host.machine import Completed, Machine, run_tool
from labctl.capture.identity.nvme_pages import (
    EXTENDED_SMART_BYTES,
    IDENTIFY_BYTES,
    MEASUREMENT_BYTES,
    SANITIZE_BYTES,
    SMART_BYTES,
)
from labctl.capture.identity.tool_output import failure

_UNKNOWN = "invalid sub-command"
_CURRENT_VALUE = re.compile(r'current[^":]*"?\s*:\s*"?(?:0x)?([0-9a-f]+)', re.IGNORECASE)
"""In the output of get-feature: a line, or JSON where nvme-cli 3.0 is configured so."""


@dataclass(frozen=True, slots=True)
class Page:
    """A structure that a drive returns."""

    gives: str
    """What is in it, in words for a person."""
    least_bytes: int
    """Fewer are no such page."""
    command: tuple[str, ...]
    """Words of nvme-cli that ask for it, without the device."""
    since_3: tuple[str, ...] = ()
    """The same where nvme-cli 3.0, which groups its commands, was built without the old names
    (its NEWS.md)."""


def log_page(number: int, least_bytes: int, gives: str, asked_bytes: int = 0) -> Page:
    """A log page; ``get-log`` has kept its name in every version. ``asked_bytes``: more, where
    what follows the least may be cut off."""
    size = asked_bytes or least_bytes
    return Page(gives, least_bytes, ("get-log", f"--log-id={number}", f"--log-len={size}"))


CONTROLLER = Page(
    "power states and limits from nvme-cli", IDENTIFY_BYTES, ("id-ctrl",), ("id", "ctrl")
)
NAMESPACE = Page(
    "block formats and deallocation from nvme-cli", IDENTIFY_BYTES, ("id-ns",), ("id", "ns")
)
SMART = log_page(0x02, SMART_BYTES, "SMART and thermal counters")
EXTENDED_SMART = log_page(0xC0, EXTENDED_SMART_BYTES, "extended SMART log of OCP (C0h)")
"""Of drives for data centres; every other one refuses it."""
MEASUREMENT = log_page(0x25, MEASUREMENT_BYTES, "power measurement of the drive", 4096)
"""With a histogram of up to 504 bins of 250 mW."""
SANITIZE = log_page(0x81, SANITIZE_BYTES, "state of the sanitize")


def ask_nvme(machine: Machine, page: Page, device: str) -> Completed:
    """What the drive returns, in ``raw``."""
    done = run_tool(machine, ["nvme", *page.command, device, "--raw-binary"])
    if page.since_3 and done.exit_code and _UNKNOWN in f"{done.stderr}{done.stdout}".lower():
        done = run_tool(machine, ["nvme", *page.since_3, device, "--raw-binary"])
    return done


def ask_feature(
    machine: Machine, number: str, controller: str, within_s: float
) -> tuple[int | None, Completed]:
    """The current value of a feature, None where it was not told, and what nvme-cli did.
    ``controller``: a strict drive refuses some by namespace (status 10Fh)."""
    done = run_tool(
        machine, ["nvme", "get-feature", controller, f"--feature-id={number}"], within_s
    )
    found = _CURRENT_VALUE.search(done.stdout) if not done.exit_code else None
    return (None if found is None else int(found[1], 16)), done


def too_short(done: Completed, page: Page) -> str:
    """One line where fewer bytes came than the page has, with both lengths; empty otherwise."""
    if done.exit_code or len(done.raw) >= page.least_bytes:
        return ""
    return f"no {page.gives}: {len(done.raw)} bytes came of a page of {page.least_bytes}"


def nvme_failure(done: Completed, page: Page) -> str:
    """One line: what is missing, why nvme-cli did not give it, and what to do."""
    if done.exit_code:
        return failure("nvme", "nvme-cli", done, page.gives)
    unfilled = f"no {page.gives}: the drive returned a page that was never filled in"
    return too_short(done, page) or unfilled
