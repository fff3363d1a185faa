"""``labctl bundle`` and ``labctl verify``: a run that others can audit."""

from __future__ import annotations

import json
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from labctl.analysis.compare.summary_diff import Mismatch, mismatches
from labctl.analysis.run.summary import summarise
from labctl.cli.terminal.arguments import JsonOption
from labctl.cli.terminal.run_names import RunArgument
from labctl.errors import ConfigurationError, JournalError, Mistake
from labctl.record.bundle import SUFFIX, enough_room, unpack_bundle, write_bundle
from labctl.record.reader import RunRecord
from labctl.report.data.result_files import summary_json
from labctl.toml_reading import FOLDER, is_folder, is_there

DIFFERS = 1
SHOWN = 20
WIDTH = 80


def bundle(
    run_directory: RunArgument,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The archive.")] = None,
    json_output: JsonOption = False,
) -> None:
    """Pack a run's raw data into one archive, with checksums."""
    record = RunRecord(run_directory)
    target = output or Path(f"{run_directory.resolve().name}{SUFFIX}")
    manifest = write_bundle(record, summary_json(summarise(record)), target)
    size = sum(member.size for member in manifest.members.values())
    if json_output:
        print(json.dumps({"bundle": str(target), "members": len(manifest.members), "bytes": size}))
    else:
        print(f"{target}: {len(manifest.members)} files, {size / 1e6:.1f} MB before packing")


def verify(
    file: Annotated[Path, typer.Argument(metavar="BUNDLE", help="An archive of labctl bundle.")],
    json_output: JsonOption = False,
) -> int:
    """Derive every number of a bundle again.

    Exit code 1 when a number or a file differs.
    """
    if is_folder(file) or not is_there(file):
        allowed = FOLDER if is_folder(file) else "there is no such file"
        raise ConfigurationError([Mistake("command line", "BUNDLE", str(file), allowed)])
    with tempfile.TemporaryDirectory(prefix="labctl-verify-") as folder:
        enough_room(file, Path(folder))
        unpacked = unpack_bundle(file, Path(folder))
        problems = list(unpacked.problems)
        derived = None
        try:
            derived = json.loads(summary_json(summarise(RunRecord(unpacked.run))))
        except JournalError as error:
            problems.append(str(error).replace(f"{folder}/", ""))
    differing: tuple[Mismatch, ...] = ()
    if unpacked.summary is None:
        problems.append("its summary.json cannot be read: nothing to hold the numbers against")
    elif derived is not None:
        differing = mismatches(unpacked.summary, derived)
    good = not problems and not differing
    if json_output:
        data = {
            "verified": good,
            "run_id": unpacked.manifest.run_id,
            "versions": unpacked.manifest.versions,
            "problems": problems,
            "mismatches": [
                {"where": one.where, "stated": one.stated, "derived": one.derived}
                for one in differing
            ],
        }
        print(json.dumps(data, ensure_ascii=False, indent=1))
        return 0 if good else DIFFERS
    if good:
        print(f"verified: {len(unpacked.manifest.members)} files, every number derived again")
        return 0
    for line in _difference_lines(problems, differing):
        print(line)
    return DIFFERS


def _difference_lines(problems: Sequence[str], differing: Sequence[Mismatch]) -> Iterator[str]:
    """What differs, phase by phase, in 80 columns."""
    for problem in problems:
        yield from _folded_bundle_lines(f"file: {problem}", "      ")
    place = ""
    for one in differing[:SHOWN]:
        if one.place and one.place != place:
            yield f"number: {one.place}"
        place = one.place
        yield from _folded_bundle_lines(f"  {one}" if place else f"number: {one}", "      ")
    if len(differing) > SHOWN:
        yield f"and {len(differing) - SHOWN} numbers more (--json names all)"
    files, numbers = (
        _bundle_count_text(len(problems), "file"),
        _bundle_count_text(len(differing), "number"),
    )
    yield f"NOT verified: {files} and {numbers} differ"


def _bundle_count_text(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _folded_bundle_lines(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)
