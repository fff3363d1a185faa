"""PCIe ports that several drives of one host share on their way to the processor.

Drives below one port share the bandwidth of its link, so that together they may reach less than
the sum of what each reaches alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from labctl.record.drive_state import DriveState, PciePort


def what_they_share(states: Mapping[str, DriveState]) -> DriveState:
    """What several drives, by name, have in common: their host, and the ports that they share."""
    return DriveState(
        target=" ".join(state.target for state in states.values()),
        kind="several",
        host=next(iter(states.values())).host,
        findings=tuple(shared_ports(states)),
    )


def shared_ports(states: Mapping[str, DriveState]) -> Iterator[str]:
    """A line for each port that is above several drives, with the consequence for them."""
    below: dict[str, dict[str, PciePort]] = {}
    for name, state in states.items():
        for port in state.ports:
            below.setdefault(port.address, {})[name] = port
    reported: set[frozenset[str]] = set()
    for address, ports in reversed(below.items()):
        names = frozenset(ports)
        if len(names) < 2 or names in reported:
            continue  # only the port nearest to the drives is reported
        reported.add(names)
        yield _shared(address, ports, states)


def _shared(address: str, ports: Mapping[str, PciePort], states: Mapping[str, DriveState]) -> str:
    named = " and ".join(sorted(ports))
    link = next(iter(ports.values())).link
    port_bytes_per_s = link.bytes_per_s if link is not None else None
    links = [states[name].link for name in ports]
    own = [link.bytes_per_s if link is not None else None for link in links]
    wanted = [each for each in own if each is not None]
    if port_bytes_per_s is None or len(wanted) < len(own):
        return f"drives {named} share port {address}: what it carries is not known"
    together = sum(wanted)
    carries = (
        f"drives {named} share port {address}, which carries {port_bytes_per_s / 1e9:.2f} GB/s"
    )
    if port_bytes_per_s >= together:
        return f"{carries}: as much as their links together"
    return (
        f"{carries}; their own links carry {together / 1e9:.2f} GB/s together: at large blocks "
        "they hold each other up; use slots of the processor"
    )
