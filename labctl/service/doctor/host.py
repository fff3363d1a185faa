"""Checks of the drive's host: fio and its engine, the drive's tools, CPU load, clocks."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from labctl.analysis.throttling.host_load import SHORT
from labctl.capture.host import software
from labctl.capture.host.drive_host import DriveHost
from labctl.capture.host.load import PRESSURE, load_waiting_share
from labctl.capture.host.machine import NOT_FOUND, Completed, Machine, run_tool
from labctl.capture.host.memory_room import mistakes_with_host
from labctl.capture.host.ssh import LOCAL
from labctl.capture.host.state import read_host
from labctl.config.plan import Plan
from labctl.config.rig import Rig
from labctl.errors import LabctlError
from labctl.record.phase import Phase
from labctl.record.timebase import NS_PER_MS, NS_PER_S, Timebase
from labctl.service.doctor.checks import Check, ok, trouble, warning

HOST = "host"
FAR_OFF_NS = NS_PER_S
"""A host's wall clock that is off by more gives a warning: its log files would mislead."""


def check_host(
    rig: Rig, machine: Machine, plan: Plan | None, phases: Sequence[Phase]
) -> Iterator[Check]:
    """Whether the drive's host has what a run needs, and what would make its results better.

    ``phases`` are those of ``plan``.
    """
    where = rig.file.host
    try:
        for one in rig.each_drive().values():
            fio = software.check_tools(one, machine)
        yield ok(HOST, f"{fio} with {', '.join(rig.engines)}")
    except LabctlError as error:
        yield trouble(HOST, str(error))
    for mistake in mistakes_with_host(rig, phases, plan.name if plan is not None else "", machine):
        yield trouble(HOST, str(mistake))
    if where != LOCAL and (lacks := software.versions_of_host(machine, where).get("host_lacks")):
        yield warning(HOST, f"lacks {lacks}", "install util-linux there")
    yield from _tools(rig, machine)
    yield from _governor(machine, plan)
    yield _processors(machine)


def _tools(rig: Rig, machine: Machine) -> Iterator[Check]:
    devices = [drive.smart_device or drive.target for drive in rig.drives.values()]
    kinds = {"nvme" in one.rsplit("/", 1)[-1] for one in devices if one.startswith("/")}
    for nvme in sorted(kinds, reverse=True):
        tool, package = ("nvme", "nvme-cli") if nvme else ("smartctl", "smartmontools")
        done = run_tool(machine, [tool, "version" if tool == "nvme" else "--version"])
        if done.exit_code == NOT_FOUND:
            lost = "power states, SMART and thermal counters" if nvme else "SMART"
            yield warning(HOST, f"{tool} is not installed: no {lost}", f"install {package}")
        else:
            yield ok(HOST, _first_line(done) if done.exit_code == 0 else f"{tool} is there")


def _first_line(done: Completed) -> str:
    return next(iter(done.stdout.splitlines()), "").strip()[:60]


def _governor(machine: Machine, plan: Plan | None) -> Iterator[Check]:
    governor = read_host(machine).governor
    planned = plan.governor if plan is not None else ""
    if planned and not governor:
        yield trouble(
            HOST, f"the plan sets the CPU governor {planned}, the host has none", "leave it out"
        )
    elif planned:
        yield ok(HOST, f"CPU governor {governor}; the plan sets {planned}")
    elif governor and governor != "performance":
        yield warning(
            HOST,
            f"CPU governor {governor}: latencies depend on how busy the host is",
            'set governor = "performance" in the plan (as root)',
        )
    elif governor:
        yield ok(HOST, f"CPU governor {governor}")


def _processors(machine: Machine) -> Check:
    share = load_waiting_share(machine.read_texts([PRESSURE]).get(PRESSURE, ""))
    if share is None:
        return warning(
            HOST,
            "its kernel does not tell when processors are short: a busy host may pass for a hot "
            "drive",
            "boot it with psi=1 (Linux 4.20 or newer)",
        )
    waited = f"something waited for a processor {share:.0%} of the last 10 s"
    if share >= SHORT:
        return warning(
            HOST, f"{waited}: the drive would get fewer IOPS", "end what else runs there (top)"
        )
    return ok(HOST, waited)


def check_clocks(rig: Rig, drive_host: DriveHost, timebase: Timebase) -> Iterator[Check]:
    """Whether the wall clock is synchronised, and how far the host's is from this machine's."""
    machine = drive_host.machine
    done = machine.run(["timedatectl", "show", "--property=NTPSynchronized", "--value"], 5.0)
    synchronised = {"yes": True, "no": False}.get(done.stdout.strip())
    if synchronised:
        yield ok("clock", "the wall clock is synchronised by NTP")
    elif synchronised is None:
        yield warning("clock", "no timedatectl: the wall clock may be wrong")
    else:
        yield warning(
            "clock",
            "the wall clock is not synchronised: the dates of runs may be wrong (times within "
            "a run are not: they are monotonic)",
            "timedatectl set-ntp true",
        )
    if rig.file.host == LOCAL:
        return
    wall_ns = time.time_ns()
    moment = drive_host.moment_of(wall_ns)
    ahead_ns = timebase.from_wall_ns(wall_ns) - moment.t_ns
    side = "ahead" if ahead_ns > 0 else "behind"
    far = f"{abs(ahead_ns) / NS_PER_S:.3f} s {side}"
    text = f"{rig.file.host} is {far}, known to ±{moment.u_ns / NS_PER_MS:.2f} ms"
    if abs(ahead_ns) > FAR_OFF_NS:
        yield warning("clock", f"{text} (it is taken into account)", "synchronise it (chrony)")
    else:
        yield ok("clock", text)
