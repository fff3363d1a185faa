"""InfluxDB, Mosquitto and Grafana on one machine without Docker, provisioned all the same."""

from __future__ import annotations

from dashboards.stack.errors import StackError
from dashboards.stack.native import NativeStack, Ports, default_state
from dashboards.stack.programs import NAMES

__all__ = ["NAMES", "NativeStack", "Ports", "StackError", "default_state"]
