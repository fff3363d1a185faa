from __future__ import annotations

import io
import sys
import threading

import pytest

from labctl.cli.terminal import printer as printers
from labctl.cli.terminal.printer import Printer


class Stalled(io.StringIO):
    """An output that takes nothing for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.free = threading.Event()
        self.waited_for = threading.Event()

    def write(self, text: str) -> int:
        self.waited_for.set()
        assert self.free.wait(60)
        return super().write(text)


def printing(monkeypatch: pytest.MonkeyPatch) -> tuple[Stalled, Printer]:
    """An output, and a printer whose first line waits for it."""
    output = Stalled()
    monkeypatch.setattr(sys, "stdout", output)
    printer = Printer(stderr=False)
    printer.line("first")
    assert output.waited_for.wait(60)
    return output, printer


def test_an_output_that_takes_nothing_holds_up_nobody_and_says_what_it_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(printers, "MOST_WAITING", 3)
    output, printer = printing(monkeypatch)
    for number in range(10):
        printer.line(f"line {number}")
    output.free.set()
    printer.close()
    assert output.getvalue().splitlines() == [
        "first", "line 0", "line 1", "line 2", "… 7 lines not shown",
    ]  # fmt: skip


def test_an_output_that_never_takes_anything_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(printers, "PRINTED_WITHIN_S", 0.1)
    output, printer = printing(monkeypatch)
    printer.close()
    assert [thread for thread in threading.enumerate() if thread.name == "printer"]
    assert output.getvalue() == ""
    output.free.set()


def test_what_the_output_has_no_character_for_is_shown_as_a_question_mark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    output = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stderr", output)
    printer = Printer(stderr=True)
    printer.line("20 °C")
    printer.do(lambda: 1 / 0)
    printer.line("after")
    printer.close()
    output.seek(0)
    assert output.read() == "20 ?C\nafter\n"
