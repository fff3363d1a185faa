"""Grafana dashboards as code, what provisions them, and the stack they run in.

``python -m dashboards`` writes ``json/`` again from the modules here. Only that needs
grafana-foundation-sdk; the stack needs the files alone.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent
JSON_DIR = ROOT / "json"
PROVISIONING_DIR = ROOT / "provisioning"
HOME_DASHBOARD = JSON_DIR / "labctl-overview.json"
COMPOSE_FILE = ROOT / "stack" / "compose.yaml"

HEARTBEAT_S = 5
"""How often a rig on which a run is on says so to the database."""

__all__ = ["COMPOSE_FILE", "HEARTBEAT_S", "HOME_DASHBOARD", "JSON_DIR", "PROVISIONING_DIR", "ROOT"]
