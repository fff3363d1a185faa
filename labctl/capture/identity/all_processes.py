"""Whether all processes of a machine answered a question that was asked of each in /proc.

Only root, or a user with two capabilities, sees what processes of other users have open or mounted.
Where a drive is to be overwritten, what could not be seen counts as a use of it. A process of root
that is hidden even from who has both is the supervisor of a sandbox: no right would show it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from labctl.capture.host.machine import NOT_FOUND, TIMED_OUT, Completed, Machine

_VANISHED = ("No such file or directory", "No such process")
_FIRST = "1"
"""It is always there; where /proc hides the processes of others (hidepid), it "does not exist"."""
_ASKER = "/proc/self/status"
_EFFECTIVE = re.compile(r"^CapEff:\s+([0-9a-f]+)$", re.MULTILINE)
_BOTH = 1 << 2 | 1 << 19
"""CAP_DAC_READ_SEARCH and CAP_SYS_PTRACE (capabilities(7))."""
_ROOT = re.compile(r"^Uid:\s+0\s+0\s+0\s+0$", re.MULTILINE)
_PATH = re.compile(r"/proc/(\d+)/(?:ns/mnt|fd(/\d+)?)")
_LINKS = 'stat -c %N -- "$@"'
"""Where links lead, by their text alone: what they lead to is not touched."""
_THERE = 'stat -c %n -- "$@"'
_PROCESS = re.compile(r"/proc/(\d+)\W")
REMEDY = (
    "run labctl there as root, or give it CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH "
    "(docs/overnight.md, What works without root)"
)


def not_answered(done: Completed, machine: Machine) -> str:
    """Why the answer may lack a process, with what to do; empty when all have answered.

    ``done``: a program that was given the folders of all processes and of the first one by name,
    with its messages. A process that ended meanwhile is none.
    """
    if done.exit_code == TIMED_OUT:
        return (
            "what other processes have open or mounted could not be found out in time: one of them "
            "may have a file on a server that does not answer (umount -l)"
        )
    if done.exit_code == NOT_FOUND:
        return "find and stat are not installed on the drive's host; install coreutils, findutils"
    unseen: set[str] = set()
    files: dict[str, str] = {}
    unknown: list[str] = []
    for line in done.stderr.splitlines():
        vanished = line.rstrip().endswith(_VANISHED)
        found = _PATH.search(line)
        if found is None:
            unknown += [] if vanished else [line]
        elif found[2]:
            files |= {} if vanished else {found[1]: found[0]}
        elif found[1] == _FIRST or not vanished:
            unseen.add(found[1])
    unseen |= _closed_to_us(files, machine)
    others = unseen - _of_root_itself(unseen, machine)
    others -= _ended_processes(others - {_FIRST}, machine)
    if others:
        return (
            f"what other users' processes ({len(others)}) have open or mounted cannot be seen; "
            + REMEDY
        )
    if unknown or (done.exit_code and not done.stderr.strip()):
        printed = unknown[0].strip()[:200] if unknown else f"exit code {done.exit_code}"
        return f"what other processes have open or mounted could not be found out ({printed})"
    return ""


def _closed_to_us(files: Mapping[str, str], machine: Machine) -> set[str]:
    """Which processes hide even the names of what they have open, by one file of each.

    Of the others, what cannot be read is a file, whose filesystem is gone or shows it to
    its user alone (FUSE), and no device.
    """
    if not files:
        return set()
    done = machine.run(["sh", "-c", _LINKS, "sh", *files.values()])
    answered = [line for line in done.stdout.splitlines() if " -> " in line]
    answered += [line for line in done.stderr.splitlines() if line.rstrip().endswith(_VANISHED)]
    return files.keys() - {found[1] for line in answered if (found := _PATH.search(line))}


def _ended_processes(processes: Collection[str], machine: Machine) -> set[str]:
    """Those that are not there any more.

    The kernel denies permission, too, where a process ends while it is asked (``proc_ns_readlink``
    and ``proc_fd_access_allowed`` in fs/proc).
    """
    if not processes:
        return set()
    folders = [f"/proc/{number}" for number in sorted(processes)]
    done = machine.run(["sh", "-c", _THERE, "sh", *folders])
    vanished = [line for line in done.stderr.splitlines() if line.rstrip().endswith(_VANISHED)]
    return {found[1] for line in vanished if (found := _PROCESS.search(line))} & set(processes)


def _of_root_itself(processes: Collection[str], machine: Machine) -> set[str]:
    """Those that are root's, where this user has every right to read them."""
    if not processes:
        return set()
    files = {number: f"/proc/{number}/status" for number in processes}
    texts = machine.read_texts([_ASKER, *files.values()])
    effective = _EFFECTIVE.search(texts.get(_ASKER, ""))
    if effective is None or ~int(effective[1], 16) & _BOTH:
        return set()
    return {number for number, file in files.items() if _ROOT.search(texts.get(file, ""))}
