"""A TRIM check where the drive lives: here, or over one connection to its host."""

from __future__ import annotations

import asyncio

from labctl.capture.drive.trim_check import TrimCheck, trim_check
from labctl.capture.host.drive_host import DriveHost, LocalHost
from labctl.capture.host.remote_host import RemoteHost
from labctl.capture.host.ssh import LOCAL
from labctl.config.rig import Rig
from labctl.record.timebase import Timebase


def check_trim_on_host(rig: Rig, folder: str | None, size_bytes: int) -> TrimCheck:
    """See :func:`labctl.capture.drive.trim_check.trim_check`. Raises HostUnreachable, too."""
    return asyncio.run(_checked(rig, folder, size_bytes))


async def _checked(rig: Rig, folder: str | None, size_bytes: int) -> TrimCheck:
    where, timebase, tools = rig.file.host, Timebase(), rig.drive.tools
    host: DriveHost = (
        LocalHost(timebase, tools) if where == LOCAL else RemoteHost(where, timebase.now_ns, tools)
    )
    try:
        await host.connect()
        return await asyncio.to_thread(trim_check, rig, host.machine, folder, size_bytes)
    finally:
        await host.close()
