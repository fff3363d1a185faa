"""The runs at a place that a person names: a folder, or the address of a store."""

from __future__ import annotations

from pathlib import Path

from labctl.report.data.folder_runs import FolderRuns
from labctl.report.data.run_index import cache_of
from labctl.report.data.run_list import Row, list_of_runs
from labctl.report.data.store_runs import StoreRuns
from labctl.store.address import StoreAddress
from labctl.store.open_place import open_place
from labctl.store.place import Place
from labctl.store.s3_place import S3Place

RunsPlace = Path | StoreAddress
"""A folder of runs, or a store."""


def runs_at(
    where: RunsPlace, cache: Path | None, *, thorough: bool = False
) -> tuple[FolderRuns | StoreRuns, Path | None]:
    """The runs at a place, and the folder in ``cache`` for what is known of them.

    ``thorough``: look at every file of every run in a folder. Raises StoreError, MissingPart,
    ConfigurationError where a store cannot be opened.
    """
    if isinstance(where, Path):
        kept = cache_of(cache, where)
        return FolderRuns(where, kept, thorough=thorough), kept
    place = open_place(where)
    return StoreRuns(place), _cache_of_store(cache, place)


def rows_at(where: RunsPlace, cache: Path | None) -> tuple[list[Row], list[str]]:
    """The rows of ``labctl runs`` of a place, by name; and a line for each that cannot be read."""
    if isinstance(where, Path):
        return list_of_runs(where, cache), []
    place = open_place(where)
    runs = StoreRuns(place)
    rows = runs.rows(_cache_of_store(cache, place))
    return [{**row, "path": where.of(run)} for run, row in rows.items()], runs.left_out


def _cache_of_store(cache: Path | None, place: Place) -> Path | None:
    server = place.access.endpoint if isinstance(place, S3Place) else ""
    return cache_of(cache, f"{server} {place.address}")
