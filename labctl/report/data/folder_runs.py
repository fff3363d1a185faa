"""The runs of a folder for the tables of ``labctl query``: which state each is in, and its rows."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cached_property, partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from labctl.errors import JournalError
from labctl.installed import labctl_version
from labctl.record.journal import is_held
from labctl.record.layout import HEADER_FILE
from labctl.record.run_stamps import at_rest, stamped_runs
from labctl.report.data.gathered import folder_place, source_in_folder
from labctl.report.data.parts import Part, Source
from labctl.report.data.query_tables import LAYOUT, fingerprint, one_thread, tables_up_to_date
from labctl.report.data.run_index import Known, RunKind, keep, known_runs
from labctl.store.folder_place import FolderPlace

if TYPE_CHECKING:
    import duckdb

_KIND = RunKind.FINGERPRINT
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
MOST_PROCESSES = 8
EACH_PROCESS = 16
"""Runs that a process must have to do before one more is worth its start, a second."""


class FolderRuns:
    """The runs in a folder, or the one that it is."""

    def __init__(self, root: Path, index: Path | None, *, thorough: bool = False) -> None:
        """``index``: the folder for what is known of its runs. ``thorough``: look at every file of
        every run, as is always done of a run that is named itself."""
        self.root = root
        self.left_out: list[str] = []
        stamps = stamped_runs(root)
        self.is_run = not stamps and (root / HEADER_FILE).is_file()
        paths = [root] if self.is_run else [root / name for name in stamps]
        self._paths = {_text_of(path.absolute().name): path for path in paths}
        self._stamps = {} if self.is_run else stamps
        self._index = None if self.is_run else index
        self.states = self._find_states({} if thorough else known_runs(self._index, _KIND))

    @cached_property
    def place(self) -> FolderPlace | None:
        """The folder itself."""
        return None if self.is_run else folder_place(self.root)

    def _find_states(self, known: Mapping[str, Known]) -> dict[str, str]:
        """The fingerprint of each run, and keeps those of runs at rest."""
        states = {}
        fresh: dict[str, Known] = {}
        now_ns = time.time_ns()
        made_by = f"{LAYOUT} {labctl_version()} "
        for name, path in self._paths.items():
            stamp = made_by + self._stamps.get(path.name, "")
            before = known.get(path.name)
            if before is not None and before[0] == stamp:
                states[name] = before[1]
                continue
            try:
                found = fingerprint(path)
                if at_rest(found.newest_change_ns, now_ns) and not is_held(path):
                    fresh[path.name] = stamp, found.text
            except OSError as error:
                if path.exists():
                    self.left_out.append(f"{path}: {error.strerror or error}")
                continue
            states[name] = found.text
        keep(self._index, _KIND, fresh, known.keys() - self._stamps.keys())
        return states

    def fetch(self, names: Sequence[str], work: Path) -> Generator[tuple[str, Path], None, None]:
        """Folders with the Parquet of these runs: their directories, where it can be written there.

        It is made where it is missing, by as many processes as there are processors.
        """
        spare = work / "spare"
        paths = [self._paths[name] for name in names]
        spares = [spare / str(number) for number in range(len(names))]
        wanted = [self.states[name] for name in names]
        processes = min(len(os.sched_getaffinity(0)), MOST_PROCESSES, len(names) // EACH_PROCESS)
        done: Iterator[tuple[Path | None, str]]
        with contextlib.ExitStack() as held:
            if processes < 2:
                make = partial(_folder_run_tables, held.enter_context(one_thread()))
                done = map(make, paths, spares, wanted)
            else:
                pool = ProcessPoolExecutor(processes, get_context("spawn"), _start_process)
                held.callback(pool.shutdown, cancel_futures=True)
                done = pool.map(_made_here, paths, spares, wanted, chunksize=4)
            for name, (folder, problem) in zip(names, done, strict=True):
                if folder is None:
                    self.left_out.append(problem)
                else:
                    yield name, folder

    def source(
        self, connection: duckdb.DuckDBPyConnection, part: Part, counted: frozenset[str], work: Path
    ) -> Source | None:
        """The rows of a part in the folder."""
        return source_in_folder(self.root, part, counted, work)


def _text_of(name: str) -> str:
    """A name as text: that of a file need not be UTF-8."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


_of_process: list[duckdb.DuckDBPyConnection] = []
"""The DuckDB of a process of the pool: to make one takes longer than to write a run's rows."""


def _start_process() -> None:
    """A process that ends with the one that started it, which alone hears Ctrl-C."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _of_process.append(one_thread())


def _made_here(run: Path, spare: Path, wanted: str) -> tuple[Path | None, str]:
    return _folder_run_tables(_of_process[0], run, spare, wanted)


def _folder_run_tables(
    maker: duckdb.DuckDBPyConnection, run: Path, spare: Path, wanted: str
) -> tuple[Path | None, str]:
    """The folder with the Parquet of a run, or why there is none."""
    try:
        return tables_up_to_date(maker, run, spare, wanted), ""
    except JournalError as error:
        return None, str(error)
    except OSError as error:  # it was removed meanwhile, or its disk fails
        return None, f"{run}: {error.strerror or error}"
