"""The page: one file, nothing loaded, nothing that comes from outside runs."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from labctl.analysis.run_summary import RunSummary
from labctl.record.reader import RunRecord
from labctl.report.pages.report import _files_shown_in_report, report_page
from labctl.report.pages.report_files import write_report
from tests.unit.report.charts.test_sweeps import with_failures
from tests.unit.report_sample import HOSTILE, plan, qd_sweep, record_of, summary_of, throttled


class Page(HTMLParser):
    """What a browser would find: addresses, scripts and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.text = ""
        self.policy = ""
        self._script: dict[str, str | None] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.addresses += [found[name] or "" for name in ("src", "href") if name in found]
        assert not any(name.startswith("on") for name in found)
        if tag == "script":
            self._script = found
            self.scripts.append((found, ""))
        if tag == "meta" and found.get("http-equiv") == "Content-Security-Policy":
            self.policy = found["content"] or ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._script = None

    def handle_data(self, data: str) -> None:
        if self._script is None:
            self.text += data
        else:
            attributes, text = self.scripts[-1]
            self.scripts[-1] = (attributes, text + data)


def hostile() -> RunSummary:
    summary = throttled(summary_of(plan(qd_sweep())), 5)
    evil = tuple(replace(item, evidence=HOSTILE) for item in summary.throttling)
    return replace(
        summary,
        drive_model=HOSTILE,
        reason=HOSTILE,
        outcome="aborted",
        problems=(HOSTILE,),
        throttling=evil,
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunRecord, list[Path], str]:
    summary = hostile()
    record = record_of(tmp_path_factory.mktemp("run"), summary)
    files = write_report(record, summary)
    return record, files, files[-1].read_text(encoding="utf-8")


def test_every_file_is_in_the_run_directory_and_can_be_made_again(
    written: tuple[RunRecord, list[Path], str],
) -> None:
    record, files, text = written
    names = [str(file.relative_to(record.path)) for file in files]
    charts = [
        f"charts/{name}.{ending}"
        for name in ("watts", "work", "latency", "run")
        for ending in ("svg", "png")
    ]
    assert names == ["summary.json", "phases.csv", *charts, "report.html"]
    assert all(file.stat().st_size > 1000 for file in files)
    assert write_report(record, hostile())[-1].read_text(encoding="utf-8") == text
    left = [path.name for path in record.path.rglob(".*")]
    assert left == []


def test_nothing_is_loaded_from_anywhere(written: tuple[RunRecord, list[Path], str]) -> None:
    _, _, text = written
    page = Page(text)
    assert all(
        address.startswith(("#", "data:image/svg+xml;base64,"))
        or address in ("phases.csv", "summary.json")
        for address in page.addresses
    )
    library = max((script for _, script in page.scripts), key=len)
    rest = text.replace(library, "")
    addresses = set(re.findall(r"https?://[^\s\"'<]+", rest))
    assert all(one.startswith("https://vega.github.io/schema/") for one in addresses)
    assert "@import" not in rest and "url(" not in rest


def test_only_the_two_known_scripts_may_run(written: tuple[RunRecord, list[Path], str]) -> None:
    _, _, text = written
    page = Page(text)
    data = [script for attributes, script in page.scripts if attributes]
    code = [script for attributes, script in page.scripts if not attributes]
    assert (len(data), len(code)) == (4, 2)
    for script in code:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in page.policy
    assert page.policy.startswith("default-src 'none'")
    assert "unsafe-eval" not in page.policy
    assert "unsafe-inline" not in page.policy.partition("style-src")[0]
    for script in data:
        assert "<" not in script
        assert json.loads(script)["$schema"].endswith(".json")


def assert_tables_can_be_read_aloud(text: str) -> None:
    """A caption a table, and of each heading whether it is a column's or a row's."""
    tables = re.findall(r"<table.*?</table>", text.partition("<footer>")[0], re.DOTALL)
    assert tables
    for table in tables:
        assert re.match(r"<table[^>]*>\s*<caption>[^<]+", table), table[:200]
        assert not re.search(r"<th(?! scope=\"(?:col|row|rowgroup)\")[ >]", table), table[:200]


def test_every_table_has_a_caption_and_its_headings_a_scope(
    written: tuple[RunRecord, list[Path], str],
) -> None:
    assert_tables_can_be_read_aloud(written[2])


def test_what_comes_from_outside_is_text(written: tuple[RunRecord, list[Path], str]) -> None:
    _, _, text = written
    assert HOSTILE not in text
    assert Page(text).text.count(HOSTILE) >= 6


def test_the_page_says_what_a_reader_asks_for(
    written: tuple[RunRecord, list[Path], str],
) -> None:
    _, _, text = written
    page = Page(text)
    words = re.sub(r"\s+", " ", page.text)
    for expected in (
        "sample on bench",
        "Aborted.",
        "The drive throttled in 1 of 6 measured phases.",
        "7.533 ± 0.030",
        "25.42k ± 0.10k",
        "4.021 ± 0.018",
        "thermal throttling (10 s)",
        "not throttled: 10.100 ± 0.030",
        "+48.7",
        "0.9 ± 1.7",
        "not explained by the stated uncertainties",
        "66 effective readings of 200",
        "Keysight 34465A MY1",
        "data sheet, 1 year",
        "fio-3.33",
        "±(0.05 % of reading + 0.002 V)",
        "journal.jsonl",
        "How each number was made",
        "name = 'sample'",
    ):
        assert expected in words, expected


@pytest.mark.parametrize("rails", [(), ("12V",), ("12V", "5V", "3.3V")])
def test_a_page_can_be_made_of_a_run_that_lacks_anything(
    tmp_path: Path, rails: tuple[str, ...]
) -> None:
    summary = with_failures(summary_of(plan(qd_sweep()), rails=rails))
    summary = replace(
        summary,
        clocks=(),
        edge_lags=(),
        gap_median_ms=None,
        idle_watts=None,
        drive_model="",
        drive_serial="",
    )
    words = Page(report_page(record_of(tmp_path, summary), summary, [])).text
    assert "drive not named" in words and "There is nothing to draw" in words
    assert "No channel has a clock of its own" in words
    assert "None was seen" in words
    assert "nan" not in words.lower().split()


def test_a_run_without_phases_has_a_page(tmp_path: Path) -> None:
    summary = replace(summary_of(plan(qd_sweep())), phases=(), outcome="running", throttling=())
    record = record_of(tmp_path, summary)
    files = write_report(record, replace(summary, end_ns=summary.begin_ns))
    assert [file.name for file in files] == ["summary.json", "phases.csv", "report.html"]
    assert "No phase was measured." in files[-1].read_text(encoding="utf-8")


def test_what_the_report_makes_is_no_part_of_the_record(tmp_path: Path) -> None:
    for name in ("points.csv", "phases.csv", "report.html", "events.jsonl"):
        (tmp_path / name).write_text("x")
    assert _files_shown_in_report(tmp_path) == [("events.jsonl", 1)]
