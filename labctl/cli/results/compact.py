"""``labctl compact``: the rows of all runs in few large Parquet files."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from labctl.cli.terminal.arguments import JsonOption
from labctl.cli.terminal.progress_line import ProgressLine
from labctl.cli.terminal.runs_place import places_to_read
from labctl.report.data.compact import Compacted, compact_place
from labctl.service.data_dir import cache_of_runs

WORKING = "runs are new: reading them"


def run_compact(
    place: Annotated[
        str | None,
        typer.Argument(
            metavar="PLACE",
            help="A folder of runs, or a store: s3://bucket/prefix, file:///folder.",
        ),
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Make few large Parquet files of the tables of all runs."""
    done = {
        str(where): compact_place(where, cache_of_runs(), ProgressLine(WORKING))
        for where in places_to_read(place)
    }
    for found in done.values():
        for line in found.left_out:
            print(f"labctl: left out: {line}", file=sys.stderr)
    if json_output:
        print(json.dumps([_as_json(name, found) for name, found in done.items()], indent=1))
        return
    for name, found in done.items():
        print(f"{name}: {_result_line(found)}")


def _result_line(found: Compacted) -> str:
    parts = found.manifest.parts
    runs = sum(len(part.runs) for part in parts)
    size = sum(file.size for part in parts for file in part.files.values())
    written = f"{found.written} written" if found.written else "nothing changed"
    counts = f"{_compact_count_text(runs, 'run')} in {_compact_count_text(len(parts), 'part')}"
    return f"{counts}, {size / 1e6:.1f} MB; {written}"


def _compact_count_text(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _as_json(name: str, found: Compacted) -> dict[str, object]:
    return {
        "place": name,
        "written": found.written,
        "left_out": list(found.left_out),
        "parts": [
            {
                "month": part.month,
                "runs": len(part.runs),
                "files": {table: f"{name}/{file.key}" for table, file in part.files.items()},
            }
            for part in found.manifest.parts
        ],
    }
