"""When ``labctl report`` draws again, and when what is there will do."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from labctl.cli.results.report import report
from labctl.errors import JournalError
from labctl.record.layout import ABOUT_FILE, EVENTS_FILE
from labctl.record.own_words import OwnWords, own_words
from labctl.report.pages.report_files import CHARTS_DIR, PAGE_FILE, PHASES_FILE, SUMMARY_FILE
from tests.unit.synthetic_run import WORK, Bench, build


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = build(tmp_path_factory.mktemp("runs"), Bench(WORK)).path
    report(path)
    return path


def drawn_again(run: Path) -> bool:
    """Whether asking for the report writes its page anew."""
    before = (run / PAGE_FILE).stat().st_ino if (run / PAGE_FILE).exists() else None
    held = os.open(run / PAGE_FILE, os.O_RDONLY) if before else None  # keeps its number its own
    report(run, json_output=True)
    if held is not None:
        os.close(held)
    return (run / PAGE_FILE).stat().st_ino != before


def test_what_is_there_and_true_is_left_as_it_is(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not drawn_again(run)
    assert '"phases"' in capsys.readouterr().out
    report(run, without_calibration=True)  # no zeros to leave out: nothing changes
    assert not drawn_again(run)


@pytest.mark.parametrize("name", [PAGE_FILE, PHASES_FILE, SUMMARY_FILE, CHARTS_DIR])
def test_what_was_deleted_is_made_again(name: str, run: Path) -> None:
    shutil.rmtree(run / name) if name == CHARTS_DIR else (run / name).unlink()
    assert drawn_again(run)
    assert (run / name).exists() and not drawn_again(run)


def test_other_numbers_or_an_older_page_are_replaced(run: Path) -> None:
    with (run / PHASES_FILE).open("a") as file:
        file.write("by hand\n")
    assert drawn_again(run)
    os.utime(run / PAGE_FILE, (1.0, 1.0))  # by a labctl of long ago
    assert drawn_again(run)
    os.utime(run / EVENTS_FILE)  # the run went on
    assert drawn_again(run)
    assert not drawn_again(run)


def test_only_charts_that_changed_are_drawn_again(run: Path) -> None:
    pictures = sorted((run / CHARTS_DIR).iterdir())
    before = {file: file.stat().st_mtime_ns for file in pictures}
    assert {file.suffix for file in pictures} == {".svg", ".png"}
    (run / PAGE_FILE).unlink()
    other, gone = run / CHARTS_DIR / "watts.svg", run / CHARTS_DIR / "work.png"
    other.write_text("<svg/>")
    gone.unlink()
    report(run)
    changed = {file.stem for file in pictures if file.stat().st_mtime_ns != before[file]}
    assert changed == {"watts", "work"}
    assert "<svg/>" not in other.read_text()


def test_the_table_is_shown_before_anything_is_drawn(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (run / PAGE_FILE).unlink()
    monkeypatch.setattr("labctl.report.pages.all_pages.write_report", full)
    with pytest.raises(JournalError, match="No space left"):
        report(run)
    assert "total W ± U" in capsys.readouterr().out


def test_a_persons_own_title_and_note_are_on_the_pages_and_in_the_charts(run: Path) -> None:
    said = 'Firmware 2 "beta" <b>'
    report(run, title=said, note="after the heat sink\nwas changed")
    page = (run / PAGE_FILE).read_text()
    assert "<h1>Firmware 2 &#34;beta&#34; &lt;b&gt;</h1>" in page
    assert "after the heat sink\nwas changed</p>" in page
    assert "Firmware 2" in (run / CHARTS_DIR / "watts.svg").read_text()
    assert not drawn_again(run)
    report(run, title="")
    assert own_words(run) == OwnWords("", "after the heat sink\nwas changed")
    (run / ABOUT_FILE).write_text("{title")
    assert own_words(run) == OwnWords()
    (run / ABOUT_FILE).write_text('{"title": null, "note": ["first", null, 7]}')
    assert own_words(run) == OwnWords("", "first\n\n7")
    (run / ABOUT_FILE).write_text('{"title": "Firmware 3", "note": null}')
    assert own_words(run) == OwnWords("Firmware 3", "") and drawn_again(run)
    (run / ABOUT_FILE).unlink()
    assert drawn_again(run) and "Firmware 3" not in (run / PAGE_FILE).read_text()
    assert not drawn_again(run)
