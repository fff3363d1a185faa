"""Every line is one that a server accepts, whatever stands in names, texts and numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labctl.sinks.influxdb import line_protocol
from labctl.sinks.influxdb.line_protocol import line, lines
from labctl.sinks.schema import LONGEST_TEXT_BYTES, SCHEMA, Point, PointSeries, shortened
from tests.servers.influx_lines import parsed, stored_by

T = 1_700_000_000_000_000_000
NASTY = st.text(
    alphabet=st.one_of(
        st.sampled_from(list(" ,=\\\"\n\r\t\0%{}#'é漢🙂\u2028\ud800")), st.characters()
    ),
    max_size=30,
)
NUMBERS = st.floats(allow_nan=True, allow_infinity=True)


@given(rig=NASTY, kind=NASTY, title=NASTY, text=NASTY, duration=NUMBERS)
def test_any_event_is_read_back(
    rig: str, kind: str, title: str, text: str, duration: float
) -> None:
    fields: dict[str, float | int | str] = {"title": title, "text": text, "duration_s": duration}
    point = Point("event", {"rig": rig, "kind": kind}, T, fields)
    written = line(point)
    assert written is not None
    written.encode("utf-8")
    (measurement, tags, t_ns), found = parsed(written)
    assert (measurement, t_ns) == ("event", T)
    for name, value in (("rig", rig), ("kind", kind)):
        plain = value.isprintable() and value.strip(" \\") == value and "\ud800" not in value
        if plain and value:
            assert dict(tags)[name] == value
        else:
            assert "\n" not in dict(tags).get(name, "")
    if title.isprintable() and "\ud800" not in title:
        assert found["title"] == title
    if math.isfinite(duration):
        assert found["duration_s"] == duration
    else:
        assert "duration_s" not in found


@given(values=st.lists(st.tuples(NUMBERS, NUMBERS, st.integers(0, 10**6)), max_size=40))
def test_columns_say_the_same_as_points_one_by_one(values: list[tuple[float, float, int]]) -> None:
    t_ns = np.arange(len(values), dtype=np.int64) + T
    columns = {
        "volts": np.array([row[0] for row in values]),
        "watts": np.array([row[1] for row in values]),
        "n": np.array([row[2] for row in values], np.int64),
    }
    tags = {"rig": "a b", "rail": "12 V, 50 %"}
    series = PointSeries("power", tags, t_ns, columns, {"volts_nominal": 12.0})
    one_by_one = [
        line(
            Point(
                "power",
                tags,
                T + number,
                {"volts_nominal": 12.0, "volts": row[0], "watts": row[1], "n": row[2]},
            )
        )
        for number, row in enumerate(values)
    ]
    assert stored_by(lines(series)) == stored_by(text for text in one_by_one if text)


def test_what_cannot_be_escaped_is_left_out_or_replaced() -> None:
    point = Point("rig", {"rig": "a\nb\\", "empty": "", "back": "\\"}, 5, {"state": "idle"})
    assert line(point) == 'rig,rig=a\\ b state="idle" 5'


def test_types_come_from_the_schema() -> None:
    point = Point("power", {"rail": "12V"}, 5, {"volts": 12, "n": 3})
    assert line(point) == "power,rail=12V volts=12.0,n=3i 5"


def test_a_point_without_fields_has_no_line() -> None:
    assert line(Point("temperature", {}, 5, {"celsius": math.nan})) is None
    nothing = PointSeries(
        "temperature", {}, np.array([5, 6]), {"celsius": np.array([math.nan, 1.0])}
    )
    assert lines(nothing) == ["temperature celsius=1.0 6"]


def test_a_field_that_the_schema_does_not_have_is_refused() -> None:
    with pytest.raises(KeyError):
        line(Point("power", {}, 5, {"wats": 1.0}))


def test_a_long_text_is_cut_and_says_so() -> None:
    text = "fio: io_u error ü\n" * 1_200
    (_, _, _), fields = parsed(str(line(Point("event", {}, 5, {"title": "t", "text": text}))))
    kept = str(fields["text"])
    assert len(kept.encode()) <= LONGEST_TEXT_BYTES
    assert kept.startswith("fio: io_u error ü\nfio")
    assert kept.endswith("(21,600 characters in the journal)")


@given(st.text(max_size=3_000))
def test_short_texts_are_whole(text: str) -> None:
    if len(text.encode("utf-8", "replace")) <= LONGEST_TEXT_BYTES:
        assert shortened(text) == text


def test_names_of_any_rail_become_fields() -> None:
    point = Point("phase", {"queue_depth": "32"}, 5, {"watts_12 V, main=1": 3.0})
    (_, tags, _), fields = parsed(str(line(point)))
    assert dict(tags) == {"queue_depth": "32"}
    assert fields == {"watts_12 V, main=1": 3.0}


def test_no_field_has_the_name_of_a_tag() -> None:
    """InfluxQL cannot tell the two apart."""
    for measurement in SCHEMA.values():
        assert not set(measurement.tags) & set(measurement.fields)


def test_a_long_name_is_cut() -> None:
    (_, tags, _), _ = parsed(str(line(Point("rig", {"rig": "x" * 70_000}, 5, {"state": ""}))))
    assert len(dict(tags)["rig"]) == line_protocol.LONGEST_NAME
