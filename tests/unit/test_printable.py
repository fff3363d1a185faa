"""The one rule of what a text may hold."""

from __future__ import annotations

import json
import unicodedata
import xml.sax.saxutils
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labctl.printable import printable, printable_lines
from labctl.record.json_values import parse_json

anything = st.text(st.characters(exclude_categories=()))
"""Lone surrogates, too."""

good = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp", "Cf", "Cn")))


@given(anything)
def test_nothing_is_left_that_is_not_allowed(text: str) -> None:
    for made in (printable(text), printable_lines(text).replace("\n", "").replace("\t", "")):
        for mark in made:
            assert unicodedata.category(mark) not in ("Cc", "Cs", "Zl", "Zp")
            assert unicodedata.bidirectional(mark) not in (
                *("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI", "B", "S"),
            )
            assert mark not in "\u200e\u200f\u061c"


@given(anything)
def test_it_can_be_written_as_utf8_and_xml(text: str) -> None:
    """An SVG is XML 1.0; what draws charts ends the process over one that is not."""
    made = printable(text)
    made.encode()
    parsed = ElementTree.fromstring(f"<a>{xml.sax.saxutils.escape(made)}</a>")
    assert (parsed.text or "") == made


@given(anything)
def test_twice_is_once(text: str) -> None:
    assert printable(printable(text)) == printable(text)
    assert printable_lines(printable_lines(text)) == printable_lines(text)
    assert printable(printable_lines(text)) == printable(text)


@given(anything)
def test_json_is_read_printable_however_it_is_written(text: str) -> None:
    """Most JSON is seen to need nothing before its texts are checked."""
    escaped = json.dumps(text)
    everything = "".join(f"\\u{unit:04X}" for unit in _units(text))
    for encoded in (escaped, json.dumps(text, ensure_ascii=False), f'"{everything}"'):
        assert parse_json(encoded) == printable(json.loads(encoded))


def _units(text: str) -> tuple[int, ...]:
    """The code units of it in UTF-16."""
    data = text.encode("utf-16-be", "surrogatepass")
    return tuple(int.from_bytes(data[at : at + 2]) for at in range(0, len(data), 2))


@given(good)
def test_a_good_text_stays_as_it_is(text: str) -> None:
    assert printable(text) == printable_lines(text) == text


@pytest.mark.parametrize(
    "name",
    ["Größe", "5 µs", "12\u00a0V", "3.3\u202fV", "固态硬盘 / 温度", "диск", "قرص", "כונן",
     "नमस्ते", "\N{ZERO WIDTH NON-JOINER}", "👩\N{ZERO WIDTH JOINER}🔬", "ﷺ", "=a|b", ""],
)  # fmt: skip
def test_names_of_every_language_are_good(name: str) -> None:
    assert printable(name) == name


def test_white_space_stays_white_space_and_the_rest_is_marked() -> None:
    assert printable("v12: gone\r\ni12:\tgone\n") == "v12: gone i12: gone "
    assert printable_lines("a\n\tb") == "a\n\tb"
    assert printable("a\x1b[2Jb\x85\u202ec\ud800\0") == "a\ufffd[2Jb\ufffd\ufffdc\ufffd\ufffd"
