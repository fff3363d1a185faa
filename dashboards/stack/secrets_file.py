"""The stack's secrets: made once, kept in an environment file that only its owner may read.

``python -m dashboards.stack.secrets_file FILE`` makes it when it is missing, for ``make stack``.
"""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

KEYS = (
    "LABCTL_INFLUX_TOKEN",
    "LABCTL_INFLUX_PASSWORD",
    "LABCTL_INFLUX_READ_PASSWORD",
    "LABCTL_MQTT_PASSWORD",
    "LABCTL_GRAFANA_PASSWORD",
)


def load_or_create(path: Path) -> dict[str, str]:
    """The secrets in ``path``; those that are missing are made and added. Mode 600, always.

    Raises OSError when it cannot be written.
    """
    found = _read_secrets_file(path) if path.exists() else {}
    missing = {key: secrets.token_urlsafe(32) for key in KEYS if not found.get(key)}
    if missing or path.stat().st_mode & 0o077:
        write(path, {**found, **missing})
    return {**found, **missing}


def write(path: Path, values: dict[str, str]) -> None:
    """Replace the file whole, so that it is never half written nor open to others."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    text = "".join(f"{key}={value}\n" for key, value in values.items())
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def _read_secrets_file(path: Path) -> dict[str, str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    return {key.strip(): value.strip() for key, value in pairs}


def main() -> int:
    """Make the file that the command line names, and print its path."""
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python -m dashboards.stack.secrets_file FILE\n")
        return 2
    path = Path(sys.argv[1])
    load_or_create(path)
    sys.stdout.write(f"secrets of the stack: {path}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
