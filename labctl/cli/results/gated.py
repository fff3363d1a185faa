"""A gate of ``labctl compare`` and ``labctl trend``, and what is printed of it; the page of these
and of ``labctl judge``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from labctl.analysis.compare.gate import Gate, GateResult, parse_allowances, parse_gate
from labctl.errors import JournalError
from labctl.record.json_values import plain_json
from labctl.toml_reading import read_configuration

FAILED = 1
"""The exit code where something is above its limit."""

GateFileOption = Annotated[Path | None, typer.Option("--gate", help="A gate file (TOML): limits.")]


def gate_of(file: Path | None, allowances: Sequence[str], strict: bool) -> Gate | None:
    """The gate of a file and of ``--allow``; None without either. Raises ConfigurationError."""
    limits = parse_allowances(allowances)
    if file is not None:
        read = parse_gate(read_configuration(file), str(file))
        limits = [*read.limits, *limits]
        strict = strict or read.strict
    return Gate(limits=limits, strict=strict) if limits else None


def print_json(found: object, result: GateResult | None) -> None:
    """What was found, with what came of the gate where there is one."""
    data = plain_json(found)
    if result is not None:
        data["gate"] = {**plain_json(result), "passed": result.passed}
    print(json.dumps(data, ensure_ascii=False, indent=1, allow_nan=False))


def exit_code(result: GateResult | None) -> int:
    """:data:`FAILED` where a gate failed."""
    return 0 if result is None or result.passed else FAILED


def write_gated_page(html: Path, page: str) -> None:
    """Write what ``--html`` asks for. Raises JournalError."""
    try:
        html.write_text(page, encoding="utf-8")
    except OSError as error:
        raise JournalError(f"cannot write {html}: {error.strerror or error}") from error
