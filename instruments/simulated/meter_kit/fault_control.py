"""Faults of simulated meters, on demand: JSON lines on a Unix socket in the bench's directory.

``{"meter": "i12", "fault": "silent", "seconds": 5}``; the answer is ``{"ok": true}`` or
``{"ok": false, "error": "…"}``.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Mapping
from pathlib import Path

from instruments.simulated.meter_kit.faults import Fault
from instruments.simulated.meter_kit.simulated_meter import SimulatedMeter

SOCKET_NAME = "meters.sock"


class FaultControl:
    """The Unix socket that takes requests for faults."""

    def __init__(self, meters: Mapping[str, SimulatedMeter]) -> None:
        self._meters = meters
        self._server: asyncio.Server | None = None

    async def start(self, directory: Path) -> None:
        """Listen on ``directory/meters.sock``."""
        path = directory / SOCKET_NAME
        path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, path)

    async def stop(self) -> None:
        """Stop to listen."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                try:
                    await self._inject(json.loads(line))
                    answer: dict[str, object] = {"ok": True}
                except (ValueError, KeyError, TypeError) as error:
                    answer = {"ok": False, "error": f"{type(error).__name__}: {error}"}
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def _inject(self, request: dict[str, object]) -> None:
        meter = self._meters[str(request["meter"])]
        fault = Fault(str(request["fault"]))
        if fault not in meter.possible_faults:
            allowed = ", ".join(sorted(meter.possible_faults))
            raise ValueError(f"{meter.name} cannot have {fault}; it can: {allowed}")
        await meter.begin_fault(fault, float(str(request.get("seconds", 1.0))))


def inject(directory: Path, meter: str, fault: Fault | str, seconds: float = 1.0) -> None:
    """Give a meter of the bench in ``directory`` a fault. Raises ValueError if it has none such."""
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(60.0)  # on a busy machine it is the last to be served
        link.connect(str(directory / SOCKET_NAME))
        request = {"meter": meter, "fault": str(fault), "seconds": seconds}
        link.sendall(json.dumps(request).encode() + b"\n")
        with link.makefile() as answers:
            answer = json.loads(answers.readline())
    if not answer["ok"]:
        raise ValueError(answer["error"])
