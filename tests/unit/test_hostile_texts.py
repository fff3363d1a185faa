"""Texts that somebody made up to do harm: where they are typed, in a record, on the way out."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labctl.cli.terminal.console import Terminal
from labctl.cli.terminal.safe_stream import SafeStream
from labctl.config.plan import parse_plan
from labctl.errors import ConfigurationError, Mistake
from labctl.printable import printable, printable_lines
from labctl.record.bundle import Manifest
from labctl.record.events import Event
from labctl.record.json_values import parse_json
from labctl.record.layout import ABOUT_FILE, EVENTS_FILE, HEADER_FILE
from labctl.record.phase import Pattern, Role
from labctl.record.reader import RunRecord
from labctl.report.csv_text import csv_text
from labctl.toml_reading import parse_toml
from tests.forked_labctl import labctl_bytes
from tests.unit.synthetic_run import EPOCH_NS, Bench, Load, build

HOSTILE = (
    "esc\x1b[31mred", "nul\0x", "bell\x07\x08", "c1\x9b31m", "del\x7f", "vt\x0b\x0c",
    "rtl\u202eegap", "iso\u2066late\u2069", "mark\u200e\u200f\u061c", "line\u2028sep\u2029",
    "two\nlabctl: forged", "cr\rover", "half\ud800", "none\ufffe\uffff", "[/red][bold]",
    "=cmd|' /C calc'!A0",
)  # fmt: skip
PARTS = tuple("|".join(HOSTILE[number::4]) for number in range(4))
"""All of them in four texts: a chart for each takes seconds."""
NOT_ALLOWED = tuple(text for text in HOSTILE if printable(text) != text)
TROUBLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufffe\uffff]"
)
PLAN = """name = "p"
[[sweeps]]
name = {name}
pattern = "randread"
duration_s = 60
"""


def toml(text: str) -> str:
    """A TOML string with everything escaped; TOML has no half of a pair."""
    marks = (mark if mark.isalnum() else f"\\U{ord(mark):08x}" for mark in text)
    return f'"{"".join(marks)}"'


typable = [text for text in NOT_ALLOWED if "\ud800" not in text]


# -- where they are typed


@pytest.mark.parametrize("name", typable)
def test_a_name_is_refused_where_it_is_typed(name: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        parse_plan(PLAN.format(name=toml(name)), "my.toml")
    message = str(error.value)
    assert message.startswith("my.toml: sweeps[0].name = ") and "control characters" in message
    assert printable(message) == message


@pytest.mark.parametrize("key", typable)
def test_so_is_a_key_at_any_depth(key: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        parse_toml(f"[instruments.v12.options]\na = [[{{ {toml(key)} = 1 }}]]\n", "rig.toml")
    message = str(error.value)
    assert message.startswith("rig.toml: instruments.v12.options.a[0][0].")
    assert printable(message) == message


def test_every_such_text_of_a_file_is_named_at_once() -> None:
    text = f"a = {toml(HOSTILE[0])}\nb = [{toml(HOSTILE[1])}, 'good']\n"
    with pytest.raises(ConfigurationError) as error:
        parse_toml(text, "f")
    assert [mistake.key for mistake in error.value.mistakes] == ["a", "b[0]"]


def test_what_a_plan_says_of_itself_may_have_several_lines() -> None:
    text = PLAN.format(name='"Größe 4 KiB – 固态硬盘"')
    plan = parse_plan(f'summary = """\nOne\n\ttwo\n"""\n{text}', "p")
    assert plan.summary == "One\n\ttwo\n" and plan.sweeps[0].name == "Größe 4 KiB – 固态硬盘"
    with pytest.raises(ConfigurationError, match="summary"):
        parse_plan(f"summary = {toml(HOSTILE[0])}\n{text}", "p")


# -- what is printed of them


def test_a_mistake_is_shown_short_and_on_its_line() -> None:
    long = "x" * 100_000
    message = str(Mistake("f\x1b", f"k\n{long}", long, f"Input tag '{long}' is none"))
    assert len(message) < 2_000 and printable(message) == message
    assert "100002 characters" in message  # with its quotes
    many = str(Mistake("f", "k", list(range(100_000)), "must be one"))
    assert len(many) < 2_000 and many.endswith("must be one")
    assert str(Mistake("f", "k", "short", "is none")) == "f: k = 'short': is none"


@pytest.mark.parametrize(
    "text",
    [f'pattern = "{"x" * 100_000}"', f'{"k" * 100_000} = 1', f'name = "{"n" * 100_000}"',
     f'prepare = [{{ step = "{"s" * 100_000}" }}]'],
)  # fmt: skip
def test_so_is_each_mistake_of_a_plan(text: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        parse_plan(f'name = "p"\n[[sweeps]]\n{text}\n', "p")
    assert max(map(len, str(error.value).splitlines())) < 4_000


# -- in a record


@pytest.mark.parametrize("name", NOT_ALLOWED)
def test_an_event_of_a_record_is_read_printable(name: str) -> None:
    data = {name: [name, {"deep": name}], "number": 1.5, "no": None}
    for line in (
        json.dumps({"t": 1, "kind": name, **data}),
        json.dumps({"t": 1, "kind": "k", **data}, ensure_ascii=False),
    ):
        try:
            event = Event.from_line(line)
        except ValueError:  # JSON has no control characters as they are
            assert "\\u00" not in line
            continue
        assert printable(event.kind) == event.kind
        made = printable(name)
        assert event.data == {made: [made, {"deep": made}], "number": 1.5, "no": None}


def test_what_needs_no_cleaning_comes_back_as_it_was() -> None:
    for text in ("Größe µ 固态硬盘 😀", "C:\\new", 'a "b"', "a/b", ""):
        for ascii_only in (True, False):
            encoded = json.dumps({"a": [text], text: text}, ensure_ascii=ascii_only)
            assert parse_json(encoded) == {"a": [text], text: text}


@pytest.fixture(scope="module")
def good_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    loads = (
        Load(0.25, 0.3, 4.0, pattern=Pattern.IDLE, role=Role.IDLE_BEFORE),
        *(Load(0.5 + 0.02 * n, 0.6, 4.0, iops=10_000 + 1_000 * n) for n in range(len(PARTS))),
        Load(0.25, 0.3, 4.0, pattern=Pattern.IDLE, role=Role.IDLE_AFTER),
    )
    bench = Bench(loads, celsius=lambda t: 40 + 0 * t)
    return build(tmp_path_factory.mktemp("good"), bench).path


def spoil(run: Path) -> None:
    """Put the hostile texts wherever the record holds a text."""
    header = json.loads((run / HEADER_FILE).read_text())
    for phase, name in zip(header["phases"][1:-1], PARTS, strict=True):
        phase["sweep"] = name
    for rail, name in zip(header["rails"], (PARTS[0], "|".join(HOSTILE[15:])), strict=True):
        rail["name"] = name
    sensor = next(iter(header["temperatures"].values()))
    header["temperatures"] = dict.fromkeys(PARTS, sensor)
    everything = "|".join(HOSTILE)
    header |= {"rig_name": everything, "plan_name": everything, "rig_text": f"# {everything}"}
    header["run_id"] = everything
    header["drive"] |= {"model": everything, "serial": everything, "target": everything}
    header["identities"] = {"v12": everything, everything: "x"}
    header["versions"] = {"fio": everything, everything: "1"}
    for channel in header["channels"]:
        channel |= {"accuracy_source": everything}
    (run / HEADER_FILE).write_text(json.dumps(header))
    events = [json.loads(line) for line in (run / EVENTS_FILE).read_text().splitlines()]
    events[-1] |= {"outcome": everything, "reason": everything}
    ends = [event for event in events if event["kind"] == "phase_ended"]
    for event, name in zip(ends[1:-1], PARTS, strict=True):
        event["reason"] = name
    for name in HOSTILE:
        more = {"t": EPOCH_NS + 10**10, "instrument": name, "reason": name, "channel": name}
        for kind in (name, "instrument_lost", "status_began", "not_restored", "mark"):
            texts = {"status": name, "detail": name, "text": name, "source": name}
            events.insert(-1, {**more, "kind": kind, **texts})
    (run / EVENTS_FILE).write_text("".join(json.dumps(event) + "\n" for event in events))
    (run / "fio" / "odd\x1b\n").write_text("")
    own = {"title": everything, "note": everything}
    (run / ABOUT_FILE).write_text(json.dumps(own))


def texts_in(value: Any) -> Iterator[str]:
    """Every text of a header, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from texts_in(key)
            yield from texts_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts_in(item)


def test_a_line_of_the_journal_ends_with_its_line_feed_alone(
    good_run: Path, tmp_path: Path
) -> None:
    """As whoever follows it sees it."""
    run = Path(shutil.copytree(good_run, tmp_path / "run"))
    before = len(RunRecord(run).events)
    with (run / EVENTS_FILE).open("a") as journal:
        text = "a\u2028b\x85c\u2029d"
        journal.write(json.dumps({"t": 1, "kind": "k", "a": text}, ensure_ascii=False) + "\n")
    record = RunRecord(run)
    assert len(record.events) == before + 1 and not record.problems
    assert record.events[-1].data == {"a": printable(text)}


@pytest.fixture(scope="module")
def runs(good_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two hostile runs, one good one, and two whose end is none."""
    folder = tmp_path_factory.mktemp("runs")
    for name in ("a", "b"):
        spoil(Path(shutil.copytree(good_run, folder / name)))
    (folder / "a" / "fio" / "no UTF-8 \udcff").write_text("")
    shutil.copytree(good_run, folder / "good")
    for name, end in (("markup", {"outcome": "[/red]"}), ("no-outcome", {"outcome": None})):
        run = Path(shutil.copytree(good_run, folder / name))
        *lines, last = (run / EVENTS_FILE).read_text().splitlines(keepends=True)
        data = {**json.loads(last), **end}
        kept = {key: value for key, value in data.items() if value is not None}
        (run / EVENTS_FILE).write_text("".join(lines) + json.dumps(kept) + "\n")
    return folder


def test_every_text_of_a_hostile_header_is_printable_and_the_verbatim_ones_verbatim(
    runs: Path,
) -> None:
    record = RunRecord(runs / "a")
    found = record.header.to_json()
    assert found.pop("rig_text") == f"# {'|'.join(HOSTILE)}"
    assert list(texts_in(found)) and all(printable(text) == text for text in texts_in(found))


def labctl(*words: str, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    """A command as it is run; colours as on a terminal would be control characters, too."""
    environment = {**os.environ, "LABCTL_HOME": str(cwd / "home"), "COLUMNS": "200"}
    return labctl_bytes(*words, cwd=cwd, env=environment, timeout=300)


COMMANDS = (
    ("report", "a"),
    ("analyse", "a"),
    ("analyse", "a", "--json"),
    ("analyse", "a", "--from", "0", "--to", "1"),
    ("analyse", "a", "--from", "mark\x1b[31m"),
    ("review", "a"),
    ("compare", "a", "b", "--html", "page.html"),
    ("compare", "a", "b", "--csv"),
    ("query", "SELECT * FROM phases, runs", "--runs", "."),
    ("query", "SELECT sweep, label, notes, chr(27) AS e FROM phases", "--runs", ".", "--csv"),
    ("runs", "--runs", "."),
    ("bundle", "a", "-o", "a.zip"),
    ("bundle", "b", "-o", "b.zip"),
    ("verify", "b.zip"),
    ("morning", "--runs", ".", "--since", "2023-01-01"),
    ("report", "none\x1b[31m"),
    ("\x1b[31m",),
)


@pytest.mark.timeout(900)
def test_no_command_passes_it_on(runs: Path) -> None:
    for words in COMMANDS:
        done = labctl(*words, cwd=runs)
        errors = done.stderr.decode()
        assert done.returncode in (0, 1, 2), (words, errors)
        assert "Traceback" not in errors and "panic" not in errors, (words, errors)
        for output in (done.stdout.decode(), errors):
            assert not TROUBLE.search(output), (words, ascii(TROUBLE.search(output)))
            forged = [line for line in output.splitlines() if line.startswith("labctl: forged")]
            assert not forged, words
    pages = {path.name for path in runs.rglob("*.html")}
    assert pages == {"report.html", "review.html", "page.html"}
    for path in runs.rglob("*"):
        if path.suffix in (".html", ".csv") and path.is_file():
            text = path.read_text()
            assert not TROUBLE.search(text), (path, ascii(TROUBLE.search(text)))
        if path.suffix == ".csv" and path.is_file():
            cells = [cell for row in csv.reader(io.StringIO(path.read_text())) for cell in row]
            assert cells and not any(re.match(r"[=+@]|-\D", cell) for cell in cells), path
    for name in ("a/phases.csv", "a/report.html", "b.zip"):
        assert (runs / name).is_file()


def test_a_run_without_an_outcome_or_with_markup_hides_no_other(runs: Path) -> None:
    rows = {
        row["run"]: row
        for row in json.loads(labctl("runs", "--runs", ".", "--json", cwd=runs).stdout)
    }
    assert rows["good"]["outcome"] == "completed"
    assert rows["markup"]["outcome"] == "[/red]"
    assert "no-outcome" in rows and "a" in rows
    shown = labctl("runs", "--runs", ".", cwd=runs)
    assert shown.returncode == 0 and b"[/red]" in shown.stdout and b"no-outcome" in shown.stdout


def test_a_bundle_says_nothing_that_is_not_printable() -> None:
    data = {"format": 1, "run_id": HOSTILE[0], "versions": {}, "members": {}}
    assert Manifest.from_json(json.dumps(data)).run_id == printable(HOSTILE[0])


# -- on the way out


def test_what_is_printable_can_be_drawn() -> None:
    """Over what it cannot draw, vl-convert ends the process: so in a process of its own."""
    odd = "\ufdd0\U0001fffe\ue000\u200b\ufeff\u00ad\u2060\ufff9\U000e0041\u0378\u0300\u200d"
    code = (
        "import sys; from labctl.report.charts.static_svg import static_svg, png_of_svg\n"
        "text = sys.argv[1]\n"
        "spec = {'title': text, 'data': {'values': [{text: text, 'b': 1}]}, 'mark': 'bar',"
        " 'encoding': {'x': {'field': 'b', 'title': text, 'type': 'nominal'}}}\n"
        "print(len(png_of_svg(static_svg(spec))))"
    )
    text = printable(odd + "".join(HOSTILE))
    done = subprocess.run([sys.executable, "-c", code, text], capture_output=True, text=True)
    assert done.returncode == 0 and int(done.stdout) > 1_000, done.stderr


@pytest.mark.parametrize("text", HOSTILE)
def test_the_terminal_gets_nothing_but_text(text: str) -> None:
    """By print and by rich, on a terminal with its colours."""
    beneath = io.StringIO()
    stream = SafeStream(beneath)
    print(text, file=stream)
    assert beneath.getvalue() == f"{printable_lines(text)}\n"
    screen = io.StringIO()
    terminal = Terminal(file=screen, force_terminal=True, color_system="truecolor", width=80)
    terminal.print(text, style="bold red")
    own = re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue())
    assert not TROUBLE.search(own) and "\x1b[" in screen.getvalue()
    own.encode()


def test_every_console_is_the_terminal() -> None:
    """Another one takes names for markup, and lets control characters through."""
    root = Path(__file__).parents[2] / "labctl"
    allowed = {root / "cli/terminal/console.py", root / "report/text/table.py"}
    found = {path for path in root.rglob("*.py") if re.search(r"\bConsole\(", path.read_text())}
    assert found <= allowed


def test_no_cell_of_csv_begins_a_formula_and_numbers_stay_numbers() -> None:
    rows = [
        ("=1+1", "+a", "-a", "@a", "\ta", "\ra", "a=b", ""),
        (-1, -1.5, None, True, "–", 0, 1e-9, "-"),
    ]
    text = csv_text(("=head", *"abcdefg"), rows)
    heading, first, second = csv.reader(io.StringIO(text))
    assert heading[0] == "'=head"
    assert first == ["'=1+1", "'+a", "'-a", "'@a", "' a", "' a", "a=b", ""]
    assert second == ["-1", "-1.5", "", "True", "–", "0", "1e-09", "'-"]
