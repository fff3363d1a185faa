"""The environment variables for programs that are started: without this program's secrets."""

from __future__ import annotations

import os
import re

_SECRET = re.compile(r"LABCTL_(.*_)?(TOKEN|PASSWORD|NOTIFY)")
"""Names of variables that hold secrets; the addresses of notices contain tokens."""


def environment_without_secrets(**changes: str) -> dict[str, str]:
    """This process's environment with ``changes``, without tokens and passwords of servers.

    It is for the programs of a measurement (fio, ssh, nvme, a meter's program), which need none.
    """
    kept = {name: text for name, text in os.environ.items() if not _SECRET.fullmatch(name)}
    return kept | changes
