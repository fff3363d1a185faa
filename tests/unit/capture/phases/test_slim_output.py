"""What is kept of fio's output with bins: all lines but those, and the last document whole."""

from __future__ import annotations

import json

import pytest

from labctl.capture.phases.slim_output import SlimOutput
from labctl.fio.documents import documents


def printed(ios: int) -> str:
    """As fio prints a document: bins among what looks like them."""
    bins = "".join(f'          "{2000 + 16 * n}" : {n + ios},\n' for n in range(40))
    return (
        f'{{\n  "fio version" : "fio-3.33",\n  "jobs" : [\n    {{\n      "read" : {{\n'
        f'        "total_ios" : {ios},\n        "lat_ns" : {{\n          "percentile" : {{\n'
        '            "50.000000" : 2160\n          },\n          "bins" : {\n'
        f'{bins}          "9000" : 1\n          }}\n        }}\n      }},\n'
        '      "iodepth_level" : {\n        "1" : 100.000000,\n        "64" : 0.000000\n'
        "      }\n    }\n  ]\n}\n"
    )


@pytest.mark.parametrize("at_once", [1, 7, 900, 1 << 16])
@pytest.mark.parametrize("cut", [0, 1, 60])
def test_bins_are_left_out_of_all_documents_and_are_in_the_last_whole_one(
    at_once: int, cut: int
) -> None:
    noise = "fio: a complaint\n"
    text = printed(3) + noise + printed(5) + printed(8)
    text = text[: len(text) - cut]
    slim, data = SlimOutput(), text.encode()
    kept = b"".join(slim.feed(data[at : at + at_once]) for at in range(0, len(data), at_once))
    kept += slim.finish()
    assert noise.encode() in kept and b'"1" : 100.000000' in kept and len(kept) < len(data) / 2
    found = list(documents(kept.decode()))
    expected = [json.loads(printed(ios)) for ios in ((3, 5, 8) if cut < 2 else (3, 5))]
    for document in expected:
        last = json.dumps(document)
        document["jobs"][0]["read"]["lat_ns"]["bins"] = {}
    assert found == expected
    assert json.loads(slim.last_document()) == json.loads(last)


def test_output_without_bins_is_kept_as_it_is() -> None:
    slim, data = SlimOutput(), b'fio: 3 : 4\n{\n  "jobs" : []\n}\nno end'
    assert slim.feed(data) + slim.finish() == data
    assert slim.last_document() == b""
