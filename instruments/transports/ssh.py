"""The OpenSSH client: its command line, and what its error messages mean.

Destinations, keys, agents and jump hosts are the user's own (``ssh_config(5)``). ssh never asks
on a terminal, and every wait has a limit.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

CONFIG_VARIABLE = "LABCTL_SSH_CONFIG"
"""Environment variable that names a configuration file for ssh instead of ``~/.ssh/config``."""

DESTINATION_PATTERN = r"^[A-Za-z0-9_.\[][A-Za-z0-9_.%:@\[\]+/-]*$"
"""``host``, ``user@host`` or ``ssh://user@host:port``; never an option, never two words."""

CONNECTION_FAILED = 255
"""Exit code of ssh itself when the connection failed (ssh(1))."""

CONNECT_TIMEOUT_S = 10
ALIVE_INTERVAL_S = 2
ALIVE_COUNT_MAX = 3

_OPTIONS = (
    "BatchMode=yes",
    f"ConnectTimeout={CONNECT_TIMEOUT_S}",
    "ConnectionAttempts=1",
    f"ServerAliveInterval={ALIVE_INTERVAL_S}",
    f"ServerAliveCountMax={ALIVE_COUNT_MAX}",
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
    "RequestTTY=no",
    "LogLevel=ERROR",
)


def ssh_command(destination: str, *options: str, own_connection: bool = True) -> list[str]:
    """The beginning of a command line; the remote command follows as one argument.

    ``own_connection``: neither use nor leave a shared connection of the user's.
    """
    config = os.environ.get(CONFIG_VARIABLE)
    chosen = [*_OPTIONS, *options]
    if own_connection:
        chosen += ["ControlMaster=no", "ControlPath=none", "ControlPersist=no"]
    settings = [part for option in chosen for part in ("-o", option)]
    return ["ssh", "-T", *(("-F", config) if config else ()), *settings, "--", destination]


@dataclass(frozen=True, slots=True)
class SshFailure:
    """Why a connection failed. ``permanent``: it fails again until a user changes something."""

    text: str
    permanent: bool


def ssh_failure(stderr: str, destination: str) -> SshFailure:
    """The meaning of ssh's error output, and what to do about it."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip(" @\r\n")]
    message = lines[-1] if lines else "it said nothing"
    for sign, meaning, permanent in (
        (
            "REMOTE HOST IDENTIFICATION HAS CHANGED",
            "its host key has changed: either it was installed anew (then: ssh-keygen -R HOST, and "
            "connect once by hand), or another machine answers in its place",
            True,
        ),
        (
            "Host key verification failed",
            f"its host key is not known here; connect once by hand to accept it: ssh {destination}",
            True,
        ),
        (
            "Could not resolve hostname",
            "there is no such host name; correct host in the rig, or name it in ~/.ssh/config",
            True,
        ),
        (
            "Permission denied",
            f"it refuses the login ({message}); labctl asks for no password: set up a key "
            f"(ssh-copy-id {destination}) or an agent",
            True,
        ),
        ("Connection refused", "it refuses the connection; is sshd running there?", False),
        ("timed out", "it does not answer; is it on, and is the network up?", False),
        ("No route to host", "there is no way to it; is it on, and is the network up?", False),
        ("Network is unreachable", "the network is unreachable", False),
        ("not responding", "it does not answer any more", False),
    ):
        if sign in stderr:
            return SshFailure(f"host {destination}: {meaning}", permanent)
    return SshFailure(f"host {destination}: no connection ({message})", False)
