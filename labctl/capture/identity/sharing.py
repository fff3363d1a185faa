"""What several drives of one host share of it: a port on the way to the processor.

Drives below one port share what its link carries, so that together they may do less than the sum
of what each does alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from labctl.record.drive_state import DriveState, PciePort


def what_they_share(states: Mapping[str, DriveState]) -> DriveState:
    """The state of several drives, by name, as far as it is one: their host, and its findings."""
    return DriveState(
        target=" ".join(state.target for state in states.values()),
        kind="several",
        host=next(iter(states.values())).host,
        findings=tuple(shared_ports(states)),
    )


def shared_ports(states: Mapping[str, DriveState]) -> Iterator[str]:
    """A line for each port that several drives are below, and what that means for them."""
    below: dict[str, dict[str, PciePort]] = {}
    for name, state in states.items():
        for port in state.ports:
            below.setdefault(port.address, {})[name] = port
    told: set[frozenset[str]] = set()
    for address, ports in reversed(below.items()):
        names = frozenset(ports)
        if len(names) < 2 or names in told:
            continue  # the port nearest to them is told, not what is above it as well
        told.add(names)
        yield _shared(address, ports, states)


def _shared(address: str, ports: Mapping[str, PciePort], states: Mapping[str, DriveState]) -> str:
    named = " and ".join(sorted(ports))
    link = next(iter(ports.values())).link
    carried = link.bytes_per_s if link is not None else None
    links = [states[name].link for name in ports]
    own = [link.bytes_per_s if link is not None else None for link in links]
    wanted = [each for each in own if each is not None]
    if carried is None or len(wanted) < len(own):
        return f"drives {named} share port {address}: what it carries is not known"
    together = sum(wanted)
    carries = f"drives {named} share port {address}, which carries {carried / 1e9:.2f} GB/s"
    if carried >= together:
        return f"{carries}: as much as their links together"
    return (
        f"{carries}; their own links carry {together / 1e9:.2f} GB/s together: at large blocks "
        "they hold each other up; use slots of the processor"
    )
