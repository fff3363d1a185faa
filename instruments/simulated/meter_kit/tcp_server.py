"""A simulated instrument that listens on a TCP port of this machine."""

from __future__ import annotations

import asyncio
import contextlib

from instruments.simulated.meter_kit.faults import Fault, Faults
from instruments.simulated.meter_kit.parts import MeterParts


class TcpServer:
    """Listens on 127.0.0.1; DISCONNECT closes all for that time."""

    def __init__(self, parts: MeterParts) -> None:
        self.name = parts.name
        self.faults = Faults()
        self._port = parts.config.tcp_port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._return_task: asyncio.Task[None] | None = None

    def address(self, port: int) -> dict[str, str]:
        """How a driver reaches it."""
        raise NotImplementedError

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Talk with one client until it goes."""
        raise NotImplementedError

    async def start(self) -> dict[str, str]:
        """Listen; the address."""
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self._port, limit=1 << 20
        )
        self._port = self._server.sockets[0].getsockname()[1]
        return self.address(self._port)

    async def stop(self) -> None:
        """Stop listening and drop the clients."""
        if self._return_task is not None:
            self._return_task.cancel()
        if self._server is not None:
            self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()

    async def begin_fault(self, fault: Fault, seconds: float) -> None:
        """Begin a fault; DISCONNECT closes the socket for that time."""
        self.faults.begin(fault, seconds)
        if fault is Fault.DISCONNECT:
            await self.stop()
            self._return_task = asyncio.create_task(
                self._return_after(seconds), name=f"{self.name} back"
            )

    async def _return_after(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.start()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            await self.serve(reader, writer)
        finally:
            self._writers.discard(writer)
            with contextlib.suppress(Exception):
                writer.close()
