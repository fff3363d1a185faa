"""What a folder of runs and a store of runs have in common."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from labctl.report.data.parts import Part, Source
from labctl.store.place import Place

if TYPE_CHECKING:
    import duckdb

States = Mapping[str, str]
"""The state of each run, by the name of its directory: rows of another state are not read."""


class Runs(Protocol):
    """The runs of a folder or a store."""

    @property
    def states(self) -> States:
        """The state of each run."""

    @property
    def place(self) -> Place | None:
        """Where ``labctl compact`` writes; None where it cannot."""

    @property
    def left_out(self) -> list[str]:
        """A line for each run that cannot be read."""

    def fetch(self, names: Sequence[str], work: Path) -> Generator[tuple[str, Path], None, None]:
        """Folders with the Parquet of these runs, without those that cannot be read."""

    def source(
        self, connection: duckdb.DuckDBPyConnection, part: Part, counted: frozenset[str], work: Path
    ) -> Source | None:
        """The rows of a part at ``place``; None where its files are not what they should be."""
