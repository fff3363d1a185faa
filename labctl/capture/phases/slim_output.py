"""fio's output without its bins: they are most of it, and only the last ones are of use."""

from __future__ import annotations

import re

_BINS = b'"bins" : {\n'
"""Behind it stand a latency a line, and how many I/Os took it, up to a line with the end."""
_ANY_BINS = re.compile(rb'"bins" : \{\s*"')
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
        self._in_bins = False

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
        return found[-1] + b"\n" if found and _ANY_BINS.search(found[-1]) else b""

    def _without_bins(self, lines: bytes) -> bytes:
        # by searching for fixed text: a pattern for each line took six times as long
        before, *documents = (b"\n" + lines).split(b"\n{")
        self._newest.append(before[1:] + b"\n" * bool(documents))
        for number, text in enumerate(documents, 1):
            begin = b"{" + text + b"\n" * (number < len(documents))
            self._before, self._newest = self._newest, [begin]
        kept, at = [], 0
        while at < len(lines):
            if self._in_bins:
                at = lines.find(b"}", at)
                if at < 0:
                    break
                at = lines.rfind(b"\n", 0, at) + 1  # with the indentation of that line
            begins = lines.find(_BINS, at)
            self._in_bins = begins >= 0
            end = begins + len(_BINS) if self._in_bins else len(lines)
            kept.append(lines[at:end])
            at = end
        return b"".join(kept)
