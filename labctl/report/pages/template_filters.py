"""What the templates of the pages say of a rail's shunt, of a budget and of a sign."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labctl.analysis import numbers
from labctl.analysis.estimate import Component
from labctl.record.header import RailInfo
from labctl.rounded import rounded


@dataclass(frozen=True, slots=True)
class BudgetLine:
    """A line of an uncertainty budget as the page shows it. ``share`` of the rail's variance."""

    component: Component
    share: float


def in_series(rail: RailInfo) -> str:
    """The shunt or ammeter of a rail in words, as given in the rig."""
    if rail.shunt_ohm is None:
        if not rail.burden_ohm:
            return numbers.NOTHING
        return f"{rail.burden_ohm:g} Ω ± {rail.burden_tolerance_pct:g} %"
    parts = [f"{rail.shunt_ohm * 1e3:g} mΩ ± {rail.shunt_tolerance_pct:g} %"]
    if rail.shunt_u_ohm is not None:
        u = f"U = {rounded(rail.shunt_u_ohm * 1e3)} mΩ (k = {rail.shunt_k:g})"
        parts = [f"{rail.shunt_ohm * 1e3:g} mΩ, {u}"]
    parts[0] += f" at {rail.shunt_reference_celsius:g} °C"
    if rail.shunt_ppm_per_kelvin:
        parts.append(f"{rail.shunt_ppm_per_kelvin:+g} ppm/K")
    if rail.shunt_ppm_per_kelvin_limit:
        parts.append(f"±{rail.shunt_ppm_per_kelvin_limit:g} ppm/K")
    if rail.shunt_kelvin_per_watt:
        parts.append(f"{rail.shunt_kelvin_per_watt:g} K/W")
    if rail.shunt_temperature is not None:
        parts.append(f"temperature from {rail.shunt_temperature}")
    elif rail.shunt_celsius is not None:
        parts.append("in {:g} to {:g} °C".format(*rail.shunt_celsius))
    return ", ".join(parts)


def budget_lines(components: Sequence[Component]) -> list[BudgetLine]:
    """The lines of a budget, the largest first, each with its share of the sum of squares."""
    whole = sum(item.watts**2 for item in components)
    lines = [BudgetLine(item, item.watts**2 / whole if whole else 0.0) for item in components]
    return sorted(lines, key=lambda line: -line.share)


def signed(number: float, digits: int = 3) -> str:
    """A number with its sign, also where that is +."""
    text = numbers.significant(number, digits)
    return text if number <= 0 else f"+{text}"
