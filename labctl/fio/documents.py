"""Takes fio's documents out of its noisy output, and values out of its documents.

Nothing here raises, whatever fio (or who else wrote to its output) printed: what is not as
expected is missing.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

DIRECTIONS = ("read", "write")
MIXED = "mixed"
"""Both directions in one section: ``unified_rw_reporting``."""

_ALL_CLIENTS = "All clients"
_LARGEST = 2**80
_NUMBERS = (int, float)
_DECODER = json.JSONDecoder()
_INDENTED = re.compile(r"(?:[ \t][^\n]*\n)+")
_NOT_INDENTED = re.compile(r"""[^\s{}"\[\]]""")
_GLUED = re.compile(r"""(?<=[\d"{\[,:\]} ])fio: .*$""")
_NO_NUMBER = re.compile(r"(:\s*)-?(?:(?:nan|inf)\b(?:\(\w*\))?|\d\.#\w+)", re.IGNORECASE)
"""glibc prints ``nan`` and ``inf``, the C libraries of Windows ``-nan(ind)`` and ``-1.#IND``."""


class DocumentStream:
    """Cuts complete documents out of fio's standard output as it comes.

    fio prints a document from a line ``{`` to a line ``}``, the lines between indented. Other
    lines may stand before, after and even within it.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []  # of the present document, those that are indented together
        self._rest = ""

    def feed(self, text: str) -> list[dict[str, Any]]:
        """The documents that ``text`` completes."""
        found: list[dict[str, Any]] = []
        text, at = self._rest + text, 0
        while (end := text.find("\n", at)) >= 0:
            indented = _INDENTED.match(text, at) if self._lines else None
            if indented is not None:
                self._lines.append(indented[0].removesuffix("\n"))
                at = indented.end()
            else:
                self._take(text[at:end].rstrip("\r"), found)
                at = end + 1
        self._rest = text[at:]
        self._try_rest(found)
        return found

    def finish(self) -> list[dict[str, Any]]:
        """The output is over: what its end completes."""
        found: list[dict[str, Any]] = []
        rest, self._rest = self._rest, ""
        if rest:
            self._take(rest.rstrip("\r"), found)
        if self._lines:
            self._close(found)
        return found

    def _try_rest(self, found: list[dict[str, Any]]) -> None:
        """A document may be complete although its last line is not."""
        rest = self._rest.strip("\r\ufeff")
        if not rest.endswith("}") or not rest.startswith("}" if self._lines else "{"):
            return
        lines = [*self._lines, rest] if self._lines else [rest]
        document = _decode(lines)
        if document is not None:
            found.append(document)
            self._lines, self._rest = [], ""

    def _take(self, line: str, found: list[dict[str, Any]]) -> None:
        line = line.lstrip("\ufeff")
        if line == "{" or (line.startswith("{") and not self._lines):
            self._lines = [] if self._on_one_line(line, found) else [line]
        elif line.startswith("}") and self._lines:
            self._lines.append("}")
            self._close(found)
            if len(line) > 1:
                self._take(line[1:], found)
        elif self._lines:
            self._lines.append(line)
        elif line.endswith("{"):  # a complaint without a line feed before a document
            self._lines = ["{"]

    @staticmethod
    def _on_one_line(line: str, found: list[dict[str, Any]]) -> bool:
        """Documents that begin and end on this line, one after another."""
        position = 0
        while line.startswith("{", position) and len(line) > position + 1:
            try:
                document, position = _DECODER.raw_decode(line, position)
            except (ValueError, RecursionError):
                break
            if isinstance(document, dict) and jobs_of(document):
                found.append(document)
        return position > 0

    def _close(self, found: list[dict[str, Any]]) -> None:
        document = _decode(self._lines)
        if document is not None:
            found.append(document)
        self._lines = []


def _decode(lines: Sequence[str]) -> dict[str, Any] | None:
    """The document in these lines, if need be without what does not belong to it."""
    for text in _document_candidates(lines):
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            continue
        return document if isinstance(document, dict) and jobs_of(document) else None
    return None


def _document_candidates(lines: Sequence[str]) -> Iterator[str]:
    text = "\n".join(lines)
    yield text
    each = [line.rstrip("\r") for line in text.split("\n")]
    own = [line for line in each if not _NOT_INDENTED.match(line)]
    yield "\n".join(own)
    yield "\n".join(_NO_NUMBER.sub(r"\1null", _GLUED.sub("", line)) for line in own)


def documents(text: str) -> Iterator[dict[str, Any]]:
    """Every complete document in ``text``, whatever stands around them."""
    stream = DocumentStream()
    yield from stream.feed(text)
    yield from stream.finish()


def jobs_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The jobs to be summed: of client/server output the sum alone, where there is one."""
    clients = document.get("client_stats")
    found = clients if isinstance(clients, list) else document.get("jobs")
    jobs = [job for job in found if isinstance(job, dict)] if isinstance(found, list) else []
    jobs = [job for job in jobs if any(key in job for key in (*DIRECTIONS, MIXED))]
    if isinstance(clients, list):
        return [job for job in jobs if job.get("jobname") == _ALL_CLIENTS] or jobs
    return jobs


def table_of(parent: dict[str, Any], key: str) -> dict[str, Any]:
    """The object at ``key``; empty where there is none."""
    found = parent.get(key)
    return found if isinstance(found, dict) else {}


def number(value: object) -> float | None:
    """A number that fio can have counted or measured, else None."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, _NUMBERS):
        return None
    return value if 0 <= value <= _LARGEST and math.isfinite(value) else None


def number_at(parent: dict[str, Any], key: str) -> float:
    """The number at ``key``; 0 where there is none."""
    return number(parent.get(key)) or 0.0


def error_of(job: dict[str, Any]) -> int | str | None:
    """The error of a job: a number, or what else stands there. None: no error."""
    error = job.get("error")
    if not error or error == "0":
        return None
    return error if isinstance(error, int | str) else str(error)
