"""A simulated board controller (BMC) that serves the watts of the machine that the drive is in.

Resources and members: DMTF's mock-up of a rack server (DSP2043, ``public-rackmount1``). The machine
draws a constant power, an energy for each operation that its processor does, and what the drive
draws. The sensor has a new value each second, the mean of that second, in whole tenths of a watt.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from instruments.reading import Accuracy
from instruments.simulated.drive.state_ring import RAILS
from instruments.simulated.meter_kit.faults import Fault
from instruments.simulated.meter_kit.parts import MeterParts
from instruments.simulated.meter_kit.tcp_server import TcpServer

IDLE_WATTS: Final = 48.0
JOULES_AN_OPERATION: Final = 40e-6
"""The machine without the drive: what it draws at rest, and what an operation costs it."""

_AVERAGED_NS: Final = 1_000_000_000
_WRITTEN_NS: Final = 20_000_000
"""How far behind the present the drive's state is read."""
_STEP_WATTS: Final = 0.1
_LIMITS: Final = Accuracy(0.0, 0.0, "none is published: it is right but for its last digit")
_CHASSIS: Final = "/redfish/v1/Chassis"
_BOX: Final = f"{_CHASSIS}/1U"
_SENSOR: Final = f"{_BOX}/Sensors/TotalPower"


class RedfishServer(TcpServer):
    """Answers GET of a chassis, its EnvironmentMetrics and their sensor."""

    possible_faults = frozenset({Fault.SILENT, Fault.DISCONNECT, Fault.NONSENSE, Fault.NAN})

    def __init__(self, parts: MeterParts) -> None:
        super().__init__(parts)
        self._state = parts.state
        self._rng = parts.new_rng("noise")
        self._errors = parts.errors(parts.limits(data_sheet=_LIMITS), "power errors")

    def address(self, port: int) -> dict[str, str]:
        """The server's address."""
        return {"url": f"http://127.0.0.1:{port}"}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer request after request (HTTP/1.1)."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split(b" ", 2)[1].decode("ascii", "replace")
                if self.faults.has(Fault.SILENT):
                    continue
                found = await self._resource(path)
                status, body = (200, found) if found is not None else (404, {"error": {}})
                data = json.dumps(body).encode()
                if self.faults.has(Fault.NONSENSE):
                    data = b"<html>busy</html>"
                lines = (
                    f"HTTP/1.1 {status} {'OK' if status == 200 else 'Not Found'}",
                    "Content-Type: application/json",
                    f"Content-Length: {len(data)}",
                )
                writer.write("\r\n".join((*lines, "", "")).encode() + data)
                await writer.drain()

    async def _resource(self, path: str) -> dict[str, Any] | None:
        if path == _CHASSIS:
            return {"Members": [{"@odata.id": _BOX}], "Members@odata.count": 1}
        if path == _BOX:
            metrics = {"@odata.id": f"{_BOX}/EnvironmentMetrics"}
            return {"Id": "1U", "Manufacturer": "Simulated", "Model": "host"} | {
                "EnvironmentMetrics": metrics
            }
        watts, stamp = await self._watts()
        reading = None if self.faults.has(Fault.NAN) else watts
        if path == f"{_BOX}/EnvironmentMetrics":
            return {"PowerWatts": {"Reading": reading, "DataSourceUri": _SENSOR}}
        if path == _SENSOR:
            return {"Reading": reading, "ReadingUnits": "W", "ReadingTime": stamp}
        return None

    async def _watts(self) -> tuple[float, str]:
        """The mean of the last whole second of the controller, and when it ended."""
        end_ns = (time.monotonic_ns() - _WRITTEN_NS) // _AVERAGED_NS * _AVERAGED_NS
        begin, end = np.array([end_ns - _AVERAGED_NS]), np.array([end_ns])
        rates = {
            field: float(self._state.means(field, begin, end)[0])
            for field in ("reads", "writes", *(f"joules_{rail}" for rail in RAILS))
        }
        host = IDLE_WATTS + JOULES_AN_OPERATION * (rates["reads"] + rates["writes"])
        drive = sum(rates[f"joules_{rail}"] for rail in RAILS)
        shown = self._errors.apply(np.array([host + drive]), self._rng, _STEP_WATTS)
        stamp = datetime.fromtimestamp(end_ns * 1e-9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return round(float(shown[0]), 1), stamp
