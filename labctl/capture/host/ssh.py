"""The machine that the drive is in, behind ssh: the same questions as for this one."""

from __future__ import annotations

import contextlib
import itertools
import secrets
import shlex
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from instruments.process_environment import environment_without_secrets
from instruments.transports.host_files import parse_printed_files, print_files_script
from instruments.transports.ssh import CONNECTION_FAILED, ssh_command, ssh_failure
from labctl.capture.host.machine import (
    TIMED_OUT,
    Completed,
    LocalMachine,
    Machine,
    no_answer,
)
from labctl.capture.host.programs import Programs
from labctl.errors import NOT_NOW, RunFailed

LOCAL = "local"
_RUN = 'echo "$1"; echo "$1" >&2; [ -z "$2" ] || PATH=$2:$PATH; shift 2; exec env LC_ALL=C "$@"'
"""$1: a mark, $2: a folder of tools or nothing; then the program. What comes before the mark was
printed by the login."""
_RESOLVE = '[ -e "$1" ] && exec readlink -f "$1"'


class HostAway(RunFailed):
    """The drive's host was lost, and did not come back in time."""

    exit_code = NOT_NOW


class HostUnreachable(RunFailed):
    """There is no connection to the drive's host."""

    exit_code = NOT_NOW


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


@dataclass(frozen=True, slots=True)
class SharedConnection:
    """A connection that is up: its socket here (``ControlPath``), and the directory of the keeper
    over there, below which each program has one of its own (empty: there is no keeper).

    ``kill`` takes the name of that directory, from any thread.
    """

    control: Path
    directory: str = ""
    kill: Callable[[str], None] = lambda name: None


class SshMachine:
    """A machine behind ssh. Every method raises HostUnreachable when there is no connection.

    Nothing travels as an argument, which has a limit: each command is the shell's input.
    """

    def __init__(
        self,
        destination: str,
        shared: Callable[[], SharedConnection | None] | None = None,
        tools: str = "",
    ) -> None:
        """``shared`` gives the connection that is used, and no other: None while it is lost.
        Without it each question has a connection of its own, and a program that does not end in
        time may go on over there. ``tools``: a folder over there whose programs come before those
        on PATH."""
        self._destination = destination
        self._shared = shared
        self._tools = tools
        self._programs = Programs()
        self._names = itertools.count(1)

    def run(self, argv: Sequence[str], timeout_s: float = 15.0) -> Completed:
        """See :class:`Machine`."""
        mark = secrets.token_hex(12)
        shared = self._connection()
        name = f"h{next(self._names)}"
        kept: tuple[str, ...] = ()
        if shared is not None and shared.directory:
            kept = ("sh", "-c", ssh_script("program.sh"), "labctl", shared.directory, name)
        command = ["exec", "sh", "-c", _RUN, "sh", mark, self._tools, *kept, *argv]
        done = self._ask(f"{shlex.join(command)} < /dev/null\n", shared, timeout_s, mark)
        if done is None:
            if shared is not None:
                shared.kill(name)
            return Completed(TIMED_OUT, "", no_answer(argv[0], timeout_s))
        stdout, stderr = _ssh_output_after(mark, done.stdout), _ssh_output_after(mark, done.stderr)
        return Completed(
            done.returncode, _ssh_output_text(stdout), _ssh_output_text(stderr), stdout
        )

    def kill(self, *, for_good: bool = False) -> None:
        """Wait no longer for any program; over there its keeper kills it. ``for_good``: no other is
        started."""
        self._programs.kill(for_good=for_good)

    def _connection(self) -> SharedConnection | None:
        """The connection to be used; None for one of its own. Raises HostUnreachable."""
        if self._shared is None:
            return None
        shared = self._shared()
        if shared is None:
            raise HostUnreachable(f"host {self._destination}: the connection is lost")
        return shared

    def read_texts(self, paths_or_globs: Sequence[str]) -> dict[str, str]:
        """See :class:`Machine`; all in one round trip."""
        mark = secrets.token_hex(12)
        printing = print_files_script(paths_or_globs, mark)
        done = self._ask(printing, self._connection(), 30.0, mark)
        if done is None:
            raise HostUnreachable(f"host {self._destination}: did not send its files within 30 s")
        found = parse_printed_files(done.stdout, mark)
        return {path: text for path, text in found.items() if text is not None}

    def resolve(self, path: str) -> str | None:
        """See :class:`Machine`."""
        done = self.run(["sh", "-c", _RESOLVE, "sh", path])
        return done.stdout.rstrip("\n") or None if done.exit_code == 0 else None

    def _ask(
        self, script: str, shared: SharedConnection | None, timeout_s: float, mark: str
    ) -> subprocess.CompletedProcess[bytes] | None:
        """Run a script over there; None when it did not end in time."""
        ssh = (
            ssh_command(self._destination)
            if shared is None
            else shared_command(self._destination, shared.control)
        )
        command = [*ssh, "exec sh"]
        try:
            done = self._programs.run(command, {}, script.encode(), timeout_s)
        except OSError as error:
            raise ssh_not_started(error) from error
        if done is not None and done.returncode == CONNECTION_FAILED:  # or the program's own 255
            message = _ssh_output_text(_ssh_output_after(mark, done.stderr))
            if shared is not None and not self._is_up(shared.control):
                raise HostUnreachable(f"host {self._destination}: the connection was lost")
            if shared is None and message:
                raise unreachable(message, self._destination)
        return done

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


def _ssh_output_after(mark: str, output: bytes) -> bytes:
    """What stands after the line of the mark; all of it where there is none."""
    before, found, after = output.partition(f"{mark}\n".encode())
    return after if found else before


def _ssh_output_text(output: bytes) -> str:
    return output.decode("utf-8", "replace")


def shared_command(destination: str, control: Path) -> list[str]:
    """The beginning of a command line that uses the connection at ``control``, and no other."""
    options = ("ControlMaster=no", f"ControlPath={control}", "ProxyCommand=false")
    return ssh_command(destination, *options, own_connection=False)


def ssh_not_started(error: OSError) -> HostRefused:
    """The error from an ssh that this machine could not start."""
    todo = (
        "; install the OpenSSH client (Debian and Ubuntu: sudo apt install openssh-client)"
        if isinstance(error, FileNotFoundError)
        else ""
    )
    return HostRefused(f"ssh cannot be started ({error.strerror}){todo}")


def ssh_script(name: str) -> str:
    """A script of this folder that runs on the drive's host."""
    return resources.files("labctl.capture.host").joinpath(name).read_text("utf-8")
