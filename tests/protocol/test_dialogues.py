"""The drivers' side of the written dialogues: see :mod:`tests.protocol.dialogue`."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest

from instruments import drivers
from instruments.drivers import GENERIC, free_running_dmm, scpi_dmm, supply, truevolt
from instruments.errors import NoAnswer
from instruments.instrument import PowerSwitch
from tests.protocol.dialogue import READINGS, Dialogue, canonical
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
        self._cleared: set[str] = set()
        self._begun_s = time.monotonic()
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
        if "INIT" in units:
            self._begun_s = time.monotonic()
        answers = [found for unit in units if (found := self._answer(unit)) is not None]
        if answers:
            readings = int((time.monotonic() - self._begun_s) * self._dialogue.readings_per_s)
            answer = ";".join(answers).replace(READINGS, str(readings))
            self._unread.append(answer.encode("ascii") + b"\n")

    def _answer(self, unit: str) -> str | None:
        if unit in self._dialogue.cleared_by_reading:
            self._cleared ^= {unit}
            return self._answers.get(unit) if unit in self._cleared else "0"
        return self._answers.get(unit)

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


def _dialects(models: Mapping[str, object]) -> dict[object, set[str]]:
    """The models that are spoken to in the same way."""
    found: dict[object, set[str]] = {}
    for model, dialect in models.items():
        found.setdefault(dialect, set()).add(model)
    return found


@pytest.mark.parametrize("driver", ["scpi_dmm", "truevolt", "free_running_dmm", "supply"])
def test_each_way_to_speak_to_a_meter_has_a_dialogue(driver: str) -> None:
    written = {one.settings["model"] for one in DIALOGUES.values() if one.driver == driver}
    kinds: dict[str, Mapping[str, object]] = {
        "scpi_dmm": scpi_dmm.MODELS,
        "truevolt": {name: model.timed for name, model in truevolt.MODELS.items()},
        "free_running_dmm": {n: id(m.dialect) for n, m in free_running_dmm.MODELS.items()},
        "supply": {name: id(model.dialect) for name, model in supply.MODELS.items()},
    }
    unspoken = [same for same in _dialects(kinds[driver]).values() if not same & written]
    assert unspoken in ([], [{GENERIC}])


def test_the_same_message_in_other_spellings() -> None:
    assert canonical(":SENS:VOLT:RANG?") == canonical("SENSe:VOLTage:DC:RANGe?") == ("VOLT:RANG?",)
    assert canonical("TRIG:LOAD 'EMPTY'") == canonical('TRIG:LOAD "Empty"')
    assert canonical("TRACe:DATA? 1,12,'defbuffer1',READ,REL") != canonical("TRAC:DATA? 1,12")
    assert canonical("INIT:CONT ON") != canonical("INIT")
