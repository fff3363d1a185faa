"""``labctl trim-check``: whether the drive's TRIM works, on a filesystem or on the raw drive."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from typing import Annotated

import typer

from labctl.capture.drive.discard_support import Discard, Promise
from labctl.capture.drive.trim_check import Contents, TrimCheck, TrimVerdict, check_trim_on_host
from labctl.cli.terminal.arguments import JsonOption, RigArgument
from labctl.cli.terminal.held_rig import held
from labctl.config.find_rig import find_rig
from labctl.errors import ConfigurationError, Mistake
from labctl.record.phase import parse_size

WIDTH = 80
DOES_NOT_WORK = 1


def trim_check(
    rig: RigArgument,
    folder: Annotated[
        str | None,
        typer.Option(
            help="A folder on a filesystem of the drive, on the drive's host: nothing is lost."
        ),
    ] = None,
    size: Annotated[str, typer.Option(help="How much to write and discard.")] = "16m",
    json_output: JsonOption = False,
) -> int:
    """Does TRIM work? On the raw drive, or a filesystem (--folder)."""
    found_rig = find_rig(rig)
    try:
        size_bytes = parse_size(size)
    except ValueError as error:
        raise ConfigurationError([Mistake("command line", "--size", size, str(error))]) from error
    with held(found_rig, "labctl trim-check"):
        found = check_trim_on_host(found_rig, folder, size_bytes)
    if json_output:
        print(json.dumps(found.to_json(), indent=1))
    else:
        for line in _lines(found):
            print("\n".join(textwrap.wrap(line, WIDTH, subsequent_indent="  ")))
    return 0 if found.verdict is TrimVerdict.WORKS else DOES_NOT_WORK


def _lines(found: TrimCheck) -> Iterator[str]:
    yield f"{found.device}: {_trim_check_abilities(found.discard)}"
    if found.before is not None and found.after is not None:
        how = "deleted it and trimmed the filesystem" if found.folder else "discarded it"
        where = f"a file in {found.folder}, in " if found.folder else ""
        pieces = len(found.extents)
        yield (
            f"wrote {where}{pieces} piece{'' if pieces == 1 else 's'} of the device, first at byte "
            f"{found.extents[0].offset}; {how}"
            if found.extents
            else "wrote a file, whose place on the device the filesystem does not tell"
        )
        yield f"read raw before: {_trim_check_contents(found.before)}"
        yield f"read raw after:  {_trim_check_contents(found.after)}"
    yield f"TRIM {found.verdict}: {found.why}"


def _trim_check_abilities(discard: Discard) -> str:
    if not discard.max_bytes:
        return "no discard"
    why = f" ({discard.source})" if discard.source else ""
    promised = {
        Promise.UNKNOWN: f"what discarded blocks read as is not known{why}",
        Promise.NOTHING: f"the drive promises nothing of what discarded blocks read as "
        f"({discard.source})",
    }.get(
        discard.promise,
        f"the drive promises that discarded blocks read as {discard.promise} ({discard.source})",
    )
    return (
        f"discards up to {discard.max_bytes} bytes at once, in steps of "
        f"{discard.granularity_bytes}; {promised}"
    )


def _trim_check_contents(one: Contents) -> str:
    parts = {
        "the pattern": one.pattern, "zeros": one.zeros, "FFh": one.ones, "anything else": one.other,
    }  # fmt: skip
    return ", ".join(f"{count} bytes of {name}" for name, count in parts.items() if count)
