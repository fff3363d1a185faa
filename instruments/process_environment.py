"""The environment of programs that are started: without this program's secrets."""

from __future__ import annotations

import os
import re

_SECRET = re.compile(r"LABCTL_(.*_)?(TOKEN|PASSWORD|NOTIFY)")
"""Variables that hold secrets by their names; the addresses of notices hold tokens."""


def environment_without_secrets(**changes: str) -> dict[str, str]:
    """The environment for a program that helps with a measurement (fio, ssh, nvme, the program of
    a meter), with ``changes``: it has no use for the tokens and passwords of servers."""
    kept = {name: text for name, text in os.environ.items() if not _SECRET.fullmatch(name)}
    return kept | changes
