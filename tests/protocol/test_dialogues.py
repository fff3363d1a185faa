"""The drivers' side of the written dialogues: see :mod:`tests.protocol.dialogue`."""

from __future__ import annotations

import time

import pytest

from instruments import drivers
from instruments.errors import NoAnswer
from instruments.instrument import PowerSwitch
from tests.protocol.dialogue import Dialogue, canonical
from tests.protocol.dialogues import DIALOGUES


def _answers(count: int, answer: str | None) -> list[str | None]:
    """The answer of each of ``count`` units: one may have a semicolon of its own."""
    if answer is None:
        return [None] * count
    return [*answer.split(";")] if count > 1 else [answer]


class DialogueLine:
    """A meter that knows its dialogue and nothing else."""

    def __init__(self, dialogue: Dialogue) -> None:
        self._dialogue = dialogue
        self._answers: dict[str, str | None] = {}
        for message, answer in dialogue.lines:
            units = canonical(message)
            answers = _answers(len(units), answer)
            assert len(units) == len(answers), message
            self._answers.update(zip(units, answers, strict=True))
        self._unread: list[bytes] = []
        self.said: set[str] = set()
        self.unknown: set[str] = set()
        """An error that is raised while a driver closes is nobody's: said after it."""

    def open(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""

    def write(self, data: bytes) -> None:
        units = canonical(data.decode("ascii"))
        self.unknown |= set(units) - self._answers.keys() - self._dialogue.sent_only_by_us
        self.said |= set(units)
        answers = [found for unit in units if (found := self._answers.get(unit)) is not None]
        if answers:
            self._unread.append(";".join(answers).encode("ascii") + b"\n")

    def discard(self, quiet_s: float = 0.0) -> None:
        self._unread.clear()

    def read_line(self, timeout_s: float) -> bytes:
        if not self._unread:
            raise NoAnswer("nothing")
        return self._unread.pop(0)


@pytest.mark.parametrize("name", list(DIALOGUES))
def test_a_driver_says_only_what_its_source_has_and_reads_its_answers(name: str) -> None:
    dialogue = DIALOGUES[name]
    line = DialogueLine(dialogue)
    settings = {"resource": dialogue.resource, **dialogue.settings}
    instrument = drivers.create("it", dialogue.driver, settings, time.monotonic_ns, line)
    instrument.open()
    instrument.start()
    values: list[float] = []
    for _ in range(3):
        batch = instrument.read()
        assert not batch.statuses
        values = [value for block in batch.blocks for value in block.values.tolist()]
        if values:
            break
    if isinstance(instrument, PowerSwitch) and instrument.may_switch:
        instrument.switch(on=True)
    instrument.close()
    assert not line.unknown, f"not in {dialogue.source}"
    assert values == pytest.approx(dialogue.reads)
    questions = {
        unit for message, answer in dialogue.lines if answer for unit in canonical(message)
    }
    assert questions - line.said == set(), "every question of the dialogue was asked"


def test_the_same_message_in_other_spellings() -> None:
    assert canonical(":SENS:VOLT:RANG?") == canonical("SENSe:VOLTage:DC:RANGe?") == ("VOLT:RANG?",)
    assert canonical("TRIG:LOAD 'EMPTY'") == canonical('TRIG:LOAD "Empty"')
    assert canonical("TRACe:DATA? 1,12,'defbuffer1',READ,REL") != canonical("TRAC:DATA? 1,12")
    assert canonical("INIT:CONT ON") != canonical("INIT")
