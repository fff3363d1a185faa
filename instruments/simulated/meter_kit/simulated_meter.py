"""What every simulated meter has."""

from __future__ import annotations

from typing import Protocol

from instruments.simulated.meter_kit.faults import Fault


class SimulatedMeter(Protocol):
    """The methods of a simulated meter that its process calls."""

    name: str
    possible_faults: frozenset[Fault]

    async def start(self) -> dict[str, str]:
        """Begin to serve; how a driver reaches it: ``resource`` or ``port``."""
        ...

    async def begin_fault(self, fault: Fault, seconds: float) -> None:
        """Begin a fault that lasts ``seconds``."""
        ...

    async def stop(self) -> None:
        """Stop to serve and close everything."""
        ...
