"""The simulated meters' side of the written dialogues: see :mod:`tests.protocol.dialogue`."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import serial

from instruments.simulated.meter_kit.config import MeterConfig
from tests.bench.running_meters import Running, running_meters
from tests.protocol.dialogue import READINGS, form
from tests.protocol.dialogues import DIALOGUES

ERRORS = {"wt300": ":STAT:ERR?", "xdm1041": ""}
"""How a meter is asked for its errors; empty: it is silent about them. By driver or kind."""
SETTING = re.compile(r"RANG|NPLC|SCAN:INT|LFR|OUTP\?", re.IGNORECASE)
"""Questions for what was set before, so that the numbers of the answer are given, too."""


def name_of(dialogue: str) -> str:
    """Of its meter."""
    return f"m{dialogue.replace(' ', '_')}"


METERS = [
    MeterConfig(
        name=name_of(name),
        kind=dialogue.kind,  # type: ignore[arg-type]
        point=dialogue.point,  # type: ignore[arg-type]
        settings=dialogue.settings,
    )
    for name, dialogue in DIALOGUES.items()
    if dialogue.kind
]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running_meters(tmp_path_factory.mktemp("bench"), METERS, seed=1) as meters:
        yield meters


class Talk:
    """A plain socket or serial port: nothing of a driver."""

    def __init__(self, resource: str) -> None:
        self._closing = ExitStack()
        if on_a_port := re.fullmatch(r"ASRL(.+)::INSTR", resource):
            self._file = self._closing.enter_context(serial.Serial(on_a_port[1], timeout=20))
            return
        found = re.fullmatch(r"TCPIP0::(.+)::(\d+)::SOCKET", resource)
        assert found is not None
        connection = socket.create_connection((found[1], int(found[2])), timeout=20)
        self._closing.enter_context(connection)
        self._file = self._closing.enter_context(connection.makefile("rwb"))

    def say(self, message: str) -> None:
        self._file.write(message.encode("ascii") + b"\n")
        self._file.flush()

    def ask(self, message: str) -> str:
        self.say(message)
        return bytes(self._file.readline()).decode("ascii").strip()

    def close(self) -> None:
        self._closing.close()


@pytest.mark.parametrize("name", [name for name, one in DIALOGUES.items() if one.kind])
def test_a_simulated_meter_takes_the_dialogue_of_its_source(running: Running, name: str) -> None:
    dialogue = DIALOGUES[name]
    talk = Talk(running.addresses[name_of(name)]["resource"])
    errors = ERRORS.get(dialogue.driver, ERRORS.get(dialogue.kind, "SYST:ERR?"))
    try:
        for message, answer in dialogue.lines:
            if answer is None:
                talk.say(message)
            else:
                answer = answer.replace(READINGS, "1")
                deadline = time.monotonic() + 20
                # Before it has measured, it has nothing to give: counts and registers stay zero.
                while form(found := talk.ask(message)) != form(answer) or _is_waited_for(
                    message, found
                ):
                    assert time.monotonic() < deadline, (message, found, answer)
                    time.sleep(0.05)
                if SETTING.search(message):
                    assert numbers(found) == pytest.approx(numbers(answer)), message
            error = talk.ask(errors) if errors else "0"
            assert re.match(r"\+?0\b", error), (message, error, dialogue.source)
    finally:
        talk.close()


def test_10_a_of_a_simulated_truevolt_are_terminals_that_its_range_does_not_tell(
    running: Running,
) -> None:
    """As the maker's guide has it, and a 34461A that was asked: its greatest range is 3 A."""
    talk = Talk(running.addresses[name_of("34465A 10 A")]["resource"])
    try:
        talk.say("CONF:CURR:DC 10")
        assert talk.ask("CURR:DC:TERM?") == "10"
        assert numbers(talk.ask("CURR:DC:RANG?")) == [3.0]
        talk.say("CURR:DC:RANG 10")
        assert talk.ask("SYST:ERR?").startswith("-222")
        talk.say("CONF:CURR:DC 0.1")
        assert (talk.ask("CURR:DC:TERM?"), numbers(talk.ask("CURR:DC:RANG?"))) == ("3", [0.1])
    finally:
        talk.close()


def numbers(answer: str) -> list[float]:
    return [float(found) for found in re.findall(r"[+-]?\d+\.?\d*(?:E[+-]?\d+)?", answer)]


def _is_waited_for(message: str, found: str) -> bool:
    """Whether it is a count of readings, or the end of an update, that is not there yet."""
    counts = ("DATA:POIN", "TRAC:ACT", "STAT:EESR")
    if not message.lstrip(":").startswith(counts):
        return False
    last = found.split(";")[0 if "DATA" in message else -1]
    return int(last) < (2 if "TRAC" in message else 1)
