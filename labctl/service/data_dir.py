"""Where labctl keeps the queue, its locks, notices that wait to be sent, and runs.

```
$LABCTL_HOME, else $STATE_DIRECTORY (set by systemd), else ~/.local/share/labctl
  queue/jobs.sqlite        the jobs, their order, and which rigs begin none
  rigs/<key>.lock          locked by who uses a drive or meter; the key is a hash of a name of it
  rigs/<key>.json          what runs on it now
  work/000007/             the job's plan, and what its runs printed
  plans/*.toml             plans that may be queued by name
  notices/*.json           notices that wait to be sent
  idle/                    records of the meters between the runs
  runs/                    runs, where one of the two variables is set
  cache/                   what is known of runs, where one is; else in the user's cache
```

Without a variable runs are in ``~/labctl-runs``: a person opens reports, and a browser that is a
snap or flatpak opens nothing in a hidden folder. Only their owner can read both, since they hold
plans and serial numbers.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from labctl.errors import LabctlError
from labctl.record.atomic_write import write_atomically
from labctl.report.user_cache import user_cache

HOME_VARIABLE = "LABCTL_HOME"
RUNS_FOLDER = "labctl-runs"
"""In the person's home."""
_PRIVATE_FOLDER = 0o700
_PRIVATE_FILE = 0o600


class HomeUnusable(LabctlError):
    """The data directory cannot be made, read or written."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Home:
    """The data directory and the paths in it."""

    path: Path

    @property
    def queue(self) -> Path:
        """The queue."""
        return self.path / "queue"

    @property
    def rigs(self) -> Path:
        """Locks, and what runs on each rig."""
        return self.path / "rigs"

    @property
    def plans(self) -> Path:
        """Plans that may be queued by name."""
        return self.path / "plans"

    @property
    def notices(self) -> Path:
        """Notices that wait to be sent."""
        return self.path / "notices"

    @property
    def runs(self) -> Path:
        """Runs, where the data directory is named; else those that an older daemon left there."""
        return self.path / "runs"

    @property
    def idle(self) -> Path:
        """Records of the meters between the runs."""
        return self.path / "idle"

    @property
    def cache(self) -> Path:
        """What is known of runs, where the data directory is named; it may be deleted."""
        return self.path / "cache"

    @property
    def daemon_file(self) -> Path:
        """Process and rigs of the daemon that was started last."""
        return self.path / "daemon.json"

    def work(self, job: int) -> Path:
        """The folder of a job."""
        return self.path / "work" / f"{job:06d}"

    def make(self) -> None:
        """Make what is missing. Raises HomeUnusable."""
        for folder in (self.queue, self.rigs, self.plans, self.notices, self.idle):
            make_folder(folder)


def find_home() -> Home:
    """The data directory of this process; it need not exist yet."""
    if (named := named_home()) is not None:
        return named
    data = Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser()
    return Home(data.absolute() / "labctl")


def default_runs() -> Path:
    """Where runs are if nobody says where; it need not exist yet."""
    named = named_home()
    return named.runs if named is not None else Path("~").expanduser().absolute() / RUNS_FOLDER


def run_directory(runs: Path, name: str) -> Path:
    """The run of this name in ``runs``, or where an older daemon has left it."""
    path, before = runs / name, find_home().runs / name
    return before if not path.exists() and before.exists() else path


def named_home() -> Home | None:
    """The data directory that a variable names."""
    state = os.environ.get("STATE_DIRECTORY", "").split(":")[0]
    named = os.environ.get(HOME_VARIABLE) or state
    return Home(Path(named).absolute()) if named else None


def make_folder(path: Path) -> None:
    """Make a folder that only its owner can open, and what is missing of the folders above it.

    Raises HomeUnusable.
    """
    try:
        for folder in (*reversed(path.parents), path):
            folder.mkdir(mode=_PRIVATE_FOLDER, exist_ok=True)
    except OSError as error:
        raise HomeUnusable(
            f"{path}: {error.strerror or error}; {HOME_VARIABLE} names another data directory"
        ) from error


def write_private(path: Path, text: str) -> None:
    """Write a small file in one step, durably; only its owner can read it. Raises OSError."""
    write_atomically(path, text, durable=True, mode=_PRIVATE_FILE)


def cache_of_runs() -> Path | None:
    """Where it is kept what is known of runs: in a data directory that is named, else in the user's
    cache. None for a user without a home."""
    if (home := named_home()) is not None:
        return home.cache
    cache = user_cache()
    return None if cache is None else cache / "runs"
