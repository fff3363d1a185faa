"""A cluster of Slurm on 127.0.0.1: one slurmctld, and a slurmd for each machine with a rig."""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import psutil

from tests.forked_labctl import labctl
from tests.waiting import until

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "scontrol", "squeue", "scancel")
WITHIN_S = 300.0
SETTINGS = """
ClusterName=lab
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={spool}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
TaskProlog={folder}/machine.sh
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
MailProg=/bin/true
MinJobAge=3600
# how long a job waits that comes again, and a machine is silent that is taken to be down
AuthInfo=cred_expire=5
SlurmdTimeout=10
ReturnToService=2
SchedulerParameters=bf_interval=2,sched_interval=2
"""
MACHINE = """#!/bin/sh
# What differs between the machines of a cluster, on this one machine.
echo "export LABCTL_HOME={folder}/machines/$SLURMD_NODENAME/home"
echo "export LABCTL_RIGS={folder}/machines/$SLURMD_NODENAME/rigs"
echo "export PATH={folder}/bin:$PATH"
"""


def missing() -> str:
    """Why there can be no cluster here; empty where there can."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"
    programs = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    if programs:
        return f"Slurm is not installed (slurm-wlm): no {', '.join(programs)}"
    return "" if os.geteuid() == 0 else "slurmd starts jobs as root only"


class Cluster:
    """``with Cluster(folder, rigs) as cluster:``; ``rigs`` by the name of the machine and rig."""

    def __init__(self, folder: Path, rigs: Mapping[str, Path]) -> None:
        self.folder = folder
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._variables = {
            **os.environ,
            "SLURM_CONF": str(folder / "slurm.conf"),
            "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin",
        }
        # slurmd has a Unix socket for each job there, whose path may have 107 characters: a longer
        # one ends as "Resource temporarily unavailable", and the job is queued again for ever.
        self._spool = Path(tempfile.mkdtemp(prefix="slurmd-", dir="/tmp"))
        for name in ("state", "bin", "jobs"):
            (folder / name).mkdir(parents=True)
        executable(folder / "machine.sh", MACHINE.format(folder=folder))
        command = f'#!/bin/sh\nexec {sys.executable} -P -m labctl.cli.main "$@"\n'
        executable(folder / "bin" / "labctl", command)
        ports = free_ports(1 + len(rigs))
        settings = SETTINGS.format(
            port=ports[0], user=getpass.getuser(), folder=folder, spool=self._spool
        )
        shipped = {name: self._shipped(name, rig) for name, rig in rigs.items()}
        for place, (name, (own, _)) in enumerate(shipped.items(), start=1):
            host, line = re.findall(r"^NodeName=(\S+) (.*)$", own, re.MULTILINE)[0]
            if place == 1:
                settings += re.sub(r"^NodeName=.*\n", "", own, flags=re.MULTILINE).replace(
                    f"Nodes={host}", "Nodes=ALL"
                )
            where = f"NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[place]}"
            settings += f"NodeName={name} {where} {line}\n"
        (folder / "slurm.conf").write_text(settings)
        (folder / "gres.conf").write_text("\n".join(gres for _, gres in shipped.values()))
        self.script = folder / "machines" / next(iter(rigs)) / "slurm" / "labctl.sbatch"

    def _shipped(self, name: str, rig: Path) -> tuple[str, str]:
        """What ``labctl rigs --slurm`` writes on a machine: of slurm.conf and gres.conf."""
        machine = self.folder / "machines" / name
        (machine / "rigs").mkdir(parents=True)
        text = re.sub(r'^name = ".*"', f'name = "{name}"', rig.read_text(), flags=re.MULTILINE)
        self.rig(name).write_text(text)
        environment = {**os.environ, "LABCTL_RIGS": "", "XDG_CONFIG_HOME": str(machine)}
        done = labctl("rigs", "--slurm", "slurm", cwd=machine, env=environment)
        assert done.returncode == 0, done.stderr
        gres = (machine / "slurm" / "gres.conf").read_text()
        gres = re.sub(r"^NodeName=\S+", f"NodeName={name}", gres, flags=re.MULTILINE)
        return (machine / "slurm" / "slurm.conf").read_text(), gres

    def runs(self, machine: str) -> Path:
        """Where the runs of a machine are."""
        return self.folder / "machines" / machine / "home" / "runs"

    def rig(self, machine: str) -> Path:
        """The file of its rig, which has its name."""
        return self.folder / "machines" / machine / "rigs" / f"{machine}.toml"

    def __enter__(self) -> Cluster:
        self._start("slurmctld")
        for machine in sorted((self.folder / "machines").iterdir()):
            self.start_machine(machine.name)
        return self

    def __exit__(self, *_: object) -> None:
        daemons = list(self._daemons.values())
        for process in reversed(daemons):
            process.kill()
            process.wait()
        kill(self._processes())
        shutil.rmtree(self._spool, ignore_errors=True)
        for log in sorted(self.folder.glob("*.log")):  # pytest shows it with a test that fails
            print(f"{log.name}:", *log.read_text().splitlines()[-20:], sep="\n  ")

    def _start(self, program: str, *words: str) -> None:
        name = words[-1] if words else program
        with (self.folder / f"{name}.log").open("ab") as log:
            self._daemons[name] = subprocess.Popen(
                [program, "-D", *words], stdout=log, stderr=log, env=self._variables
            )

    def start_machine(self, name: str) -> None:
        """Its slurmd; returns when Slurm knows that it is there."""
        self._start("slurmd", "-N", name)
        until(lambda: not self.state_of_machine(name) & {"DOWN", "UNKNOWN", ""}, WITHIN_S)

    def kill_machine(self, name: str) -> None:
        """SIGKILL to all of it at once, as when its power is cut."""
        daemon = self._daemons.pop(name)
        of_jobs = list(self._processes(name))
        for one in of_jobs:  # else a shepherd lives to report that its job was killed
            with contextlib.suppress(psutil.Error):
                one.suspend()
        daemon.kill()
        kill(of_jobs)
        daemon.wait()

    def _processes(self, machine: str = "") -> Iterator[psutil.Process]:
        """Those of a machine's jobs with the shepherd of each; or all that is left of the cluster
        where its daemons are gone."""
        for one in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                found = one.environ()
                ours = found.get("SLURM_CONF") == self._variables["SLURM_CONF"]
                if ours and machine in ("", found.get("SLURMD_NODENAME")):
                    yield one
                    yield from (above for above in one.parents() if "slurmstepd" in above.name())

    def call(self, *words: str, code: int | None = 0) -> str:
        """What a program of Slurm prints."""
        done = subprocess.run(
            words, capture_output=True, text=True, env=self._variables, check=False, timeout=60,
            cwd=self.folder / "jobs",
        )  # fmt: skip
        assert code is None or done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout

    def submit(self, *words: str) -> int:
        """The number of a job of the shipped script: options of sbatch, ``--``, a plan."""
        cut = words.index("--")
        given = [*words[:cut], str(self.script), *words[cut + 1 :]]
        return int(self.call("sbatch", "--parsable", *given))

    def job(self, number: int) -> dict[str, str]:
        """What Slurm knows of a job."""
        shown = self.call("scontrol", "--oneliner", "show", "job", str(number))
        return dict(word.partition("=")[::2] for word in shown.split() if "=" in word)

    def state(self, number: int) -> str:
        return self.job(number)["JobState"]

    def state_of_machine(self, name: str) -> set[str]:
        shown = self.call("scontrol", "--oneliner", "show", "node", name, code=None)
        found = re.search(r"State=(\S+)", shown)
        return set(re.split(r"[+*]", found.group(1))) if found else {""}

    def said(self, number: int) -> str:
        """What a job printed, each time that it was begun."""
        file = self.folder / "jobs" / f"slurm-{number}.out"
        return file.read_text() if file.exists() else ""


def kill(processes: Iterable[psutil.Process]) -> None:
    for one in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()


def executable(file: Path, text: str) -> None:
    file.write_text(text)
    file.chmod(0o755)


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
