"""Where labctl keeps what is not a run: the queue, its locks, notices that wait to be sent.

```
$LABCTL_HOME, else $STATE_DIRECTORY (set by systemd), else ~/.local/share/labctl
  queue/jobs.sqlite        the jobs, their order, and which rigs begin none
  rigs/<key>.lock          locked by who uses a drive or meter; the key is a hash of a name of it
  rigs/<key>.json          what runs on it now
  work/000007/             the job's plan, and what its runs printed
  plans/*.toml             plans that may be queued by name
  notices/*.json           notices that wait to be sent
  runs/                    the daemon's runs
  idle/                    records of the meters between the runs
```

Only its owner can read it, since it holds plans and serial numbers.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from labctl.errors import LabctlError
from labctl.record.atomic_write import write_atomically

HOME_VARIABLE = "LABCTL_HOME"
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
        """The daemon's runs."""
        return self.path / "runs"

    @property
    def idle(self) -> Path:
        """Records of the meters between the runs."""
        return self.path / "idle"

    @property
    def daemon_file(self) -> Path:
        """Process and rigs of the daemon that was started last."""
        return self.path / "daemon.json"

    def work(self, job: int) -> Path:
        """The folder of a job."""
        return self.path / "work" / f"{job:06d}"

    def make(self) -> None:
        """Make what is missing. Raises HomeUnusable."""
        for folder in (
            self.path,
            self.queue,
            self.rigs,
            self.plans,
            self.notices,
            self.runs,
            self.idle,
        ):
            make_folder(folder)


def find_home() -> Home:
    """The data directory of this process; it need not exist yet."""
    configured = (
        os.environ.get(HOME_VARIABLE) or os.environ.get("STATE_DIRECTORY", "").split(":")[0]
    )
    if configured:
        return Home(Path(configured).absolute())
    data = Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser()
    return Home(data.absolute() / "labctl")


def make_folder(path: Path) -> None:
    """Make a folder that only its owner can open. Raises HomeUnusable."""
    try:
        path.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
    except OSError as error:
        raise HomeUnusable(
            f"{path}: {error.strerror or error}; {HOME_VARIABLE} names another data directory"
        ) from error


def write_private(path: Path, text: str) -> None:
    """Write a small file in one step, durably; only its owner can read it. Raises OSError."""
    write_atomically(path, text, durable=True, mode=_PRIVATE_FILE)
