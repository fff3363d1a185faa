"""All dashboards, by uid."""

from __future__ import annotations

from dashboards import compare, lab_overview, power_per_queue_depth, rig_live
from dashboards.page import to_json


def every_dashboard() -> dict[str, str]:
    """The JSON text of each dashboard, by its uid."""
    modules = (lab_overview, rig_live, power_per_queue_depth, compare)
    return {module.UID: to_json(module.dashboard()) for module in modules}
