"""``labctl.open_run``: a run for reading, from a directory or from a store."""

from __future__ import annotations

from os import PathLike

from labctl.report.data import run_data
from labctl.report.data.run_data import RunData
from labctl.service.runs.pull import fetched_run
from labctl.store.address import is_address


def open_run(path: str | PathLike[str]) -> RunData:
    """A run for reading: a directory (``~`` is the home), or the address of a run in a store, as in
    ``s3://bucket/prefix/RUN``.

    Raises JournalError when it is none, StoreError where the store has it not or cannot be read.
    """
    if isinstance(path, str) and is_address(path):
        return RunData(fetched_run(path))
    return run_data.open_run(path)
