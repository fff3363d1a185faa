"""The machine that the drive is in, behind ssh: the same questions as for this one."""

from __future__ import annotations

import contextlib
import secrets
import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from instruments.process_environment import environment_without_secrets
from instruments.transports.host_files import parse_printed_files, print_files_script
from instruments.transports.ssh import CONNECTION_FAILED, ssh_command, ssh_failure
from labctl.capture.host.machine import TIMED_OUT, Completed, LocalMachine, Machine
from labctl.errors import RunFailed

LOCAL = "local"
_AFTER_KILL_S = 1.0
_RUN = 'echo "$1"; echo "$1" >&2; [ -z "$2" ] || PATH=$2:$PATH; shift 2; exec env LC_ALL=C "$@"'
"""$1: a mark, $2: a folder of tools or nothing; then the program. What comes before the mark was
printed by the login."""
_RESOLVE = '[ -e "$1" ] && exec readlink -f "$1"'


class HostUnreachable(RunFailed):
    """There is no connection to the drive's host."""


class HostRefused(HostUnreachable):
    """There will be no connection to the drive's host until something is set right."""

    exit_code = 2


def unreachable(stderr: str, destination: str) -> HostUnreachable:
    """The error from what ssh printed when it gave up."""
    failure = ssh_failure(stderr, destination)
    kind = HostRefused if failure.permanent else HostUnreachable
    return kind(failure.text)


def machine_at(host: str, tools: str = "") -> Machine:
    """The machine that a rig's ``host`` names; over ssh, with a connection for each question."""
    return LocalMachine(tools) if host == LOCAL else SshMachine(host, tools=tools)


class SshMachine:
    """A machine behind ssh. Every method raises HostUnreachable when there is no connection.

    ``control`` gives the socket of a connection that is up (``ControlPath``), or None for a
    connection of its own.
    """

    def __init__(
        self,
        destination: str,
        control: Callable[[], Path | None] = lambda: None,
        tools: str = "",
    ) -> None:
        """``tools``: a folder over there whose programs come before those on PATH."""
        self._destination = destination
        self._control = control
        self._tools = tools

    def run(self, argv: Sequence[str], timeout_s: float = 15.0) -> Completed:
        """See :class:`Machine`. What does not end in time may go on over there."""
        mark = secrets.token_hex(12)
        command = ["exec", "sh", "-c", _RUN, "sh", mark, self._tools, *argv]
        done = self._ask(shlex.join(command), b"", timeout_s, mark)
        if done is None:
            return Completed(TIMED_OUT, "", f"{argv[0]}: no answer within {timeout_s:g} s")
        return Completed(done.returncode, _after(mark, done.stdout), _after(mark, done.stderr))

    def read_texts(self, paths_or_globs: Sequence[str]) -> dict[str, str]:
        """See :class:`Machine`; all in one round trip."""
        mark = secrets.token_hex(12)
        done = self._ask("exec sh", print_files_script(paths_or_globs, mark).encode(), 30.0, mark)
        if done is None:
            raise HostUnreachable(f"host {self._destination}: did not send its files within 30 s")
        found = parse_printed_files(done.stdout, mark)
        return {path: text for path, text in found.items() if text is not None}

    def resolve(self, path: str) -> str | None:
        """See :class:`Machine`."""
        done = self.run(["sh", "-c", _RESOLVE, "sh", path])
        return done.stdout.rstrip("\n") or None if done.exit_code == 0 else None

    def _ask(
        self, command: str, stdin: bytes, timeout_s: float, mark: str
    ) -> subprocess.CompletedProcess[bytes] | None:
        """Run a command of the remote shell; None when it did not end in time."""
        control = self._control()
        if control is None:
            ssh = ssh_command(self._destination)
        else:
            ssh = shared_command(self._destination, control)
        try:
            process = subprocess.Popen(
                [*ssh, command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment_without_secrets(),
                start_new_session=True,
            )
        except OSError as error:
            raise _no_ssh(error) from error
        try:
            stdout, stderr = process.communicate(stdin, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=_AFTER_KILL_S)
            return None
        if process.returncode == CONNECTION_FAILED:  # or the program's own 255
            message = _after(mark, stderr)
            if control is not None and not self._is_up(control):
                raise HostUnreachable(f"host {self._destination}: the connection was lost")
            if control is None and message:
                raise unreachable(message, self._destination)
        return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)

    def _is_up(self, control: Path) -> bool:
        """Whether the shared connection is still there: the 255 was the program's own."""
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            check = shared_command(self._destination, control)
            check[1:1] = ["-O", "check"]
            done = subprocess.run(
                check,
                capture_output=True,
                timeout=5,
                check=False,
                env=environment_without_secrets(),
            )
            return done.returncode == 0
        return False


def _after(mark: str, output: bytes) -> str:
    """The text after the line of the mark; all of it where there is none."""
    before, found, after = output.partition(f"{mark}\n".encode())
    return (after if found else before).decode("utf-8", "replace")


def shared_command(destination: str, control: Path) -> list[str]:
    """The beginning of a command line that uses the connection at ``control``, and no other."""
    options = ("ControlMaster=no", f"ControlPath={control}", "ProxyCommand=false")
    return ssh_command(destination, *options, own_connection=False)


def _no_ssh(error: OSError) -> HostRefused:
    return HostRefused(
        f"ssh cannot be started ({error.strerror}); install the OpenSSH client "
        "(Debian and Ubuntu: sudo apt install openssh-client)"
    )
