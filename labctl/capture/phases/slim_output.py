"""fio's output without its bins: they are most of it, and only the last ones are of use."""

from __future__ import annotations

import re

_BINS = re.compile(rb'(?:[ \t]+"\d+" : \d+,?\r?\n)+')
"""Lines of ``bins``: a latency, and how many I/Os took it. All else that fio counts by a whole
number (depths, sizes, latencies in classes) is a share with a fraction."""
_BEGIN = re.compile(rb"^(?=\{)", re.MULTILINE)
_DOCUMENT = re.compile(rb"^\{.*?^\}", re.DOTALL | re.MULTILINE)


class SlimOutput:
    """Takes fio's output with bins (``json+``) as it comes, and gives it without them.

    Bins are cumulative, and five times as much as all the rest, twice a second.
    """

    def __init__(self) -> None:
        self._before: list[bytes] = []
        self._newest: list[bytes] = []
        """The parts of the last two documents, with all that stands behind each."""
        self._rest = b""

    def feed(self, chunk: bytes) -> bytes:
        """What to keep of all lines that ``chunk`` completes."""
        text = self._rest + chunk
        end = text.rfind(b"\n") + 1
        lines, self._rest = text[:end], text[end:]
        return self._without_bins(lines)

    def finish(self) -> bytes:
        """The output is over: what to keep of a line that has no end."""
        rest, self._rest = self._rest, b""
        return self._without_bins(rest)

    def last_document(self) -> bytes:
        """The last document as fio printed it, if it has bins; else nothing."""
        found = _DOCUMENT.findall(b"".join([*self._before, *self._newest]))
        return found[-1] + b"\n" if found and _BINS.search(found[-1]) else b""

    def _without_bins(self, lines: bytes) -> bytes:
        end, *documents = _BEGIN.split(lines)
        self._newest.append(end)
        for begin in documents:
            self._before, self._newest = self._newest, [begin]
        return _BINS.sub(b"", lines)
