"""The simulated meters' side of the written dialogues: see :mod:`tests.protocol.dialogues`."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator

import pytest

from instruments.simulated.meter_kit.config import MeterConfig
from tests.bench.running_meters import Running, running_meters
from tests.protocol.dialogues import DIALOGUES, form

METERS = [
    MeterConfig(
        name=f"m{name}",
        kind=dialogue.kind,  # type: ignore[arg-type]
        point="12V" if dialogue.driver == "wt300" else "12V.current",
        settings=dialogue.settings,
    )
    for name, dialogue in DIALOGUES.items()
]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running_meters(tmp_path_factory.mktemp("bench"), METERS, seed=1) as meters:
        yield meters


class Talk:
    """A plain socket: nothing of a driver."""

    def __init__(self, resource: str) -> None:
        found = re.fullmatch(r"TCPIP0::(.+)::(\d+)::SOCKET", resource)
        assert found is not None
        self._socket = socket.create_connection((found[1], int(found[2])), timeout=20)
        self._file = self._socket.makefile("rw", encoding="ascii", newline="\n")

    def say(self, message: str) -> None:
        self._file.write(message + "\n")
        self._file.flush()

    def ask(self, message: str) -> str:
        self.say(message)
        return self._file.readline().strip()

    def close(self) -> None:
        self._file.close()
        self._socket.close()


@pytest.mark.parametrize("name", list(DIALOGUES))
def test_a_simulated_meter_takes_the_dialogue_of_its_source(running: Running, name: str) -> None:
    dialogue = DIALOGUES[name]
    talk = Talk(running.addresses[f"m{name}"]["resource"])
    errors = ":STAT:ERR?" if dialogue.driver == "wt300" else "SYST:ERR?"
    try:
        for message, answer in dialogue.lines:
            if answer is None:
                talk.say(message)
            else:
                deadline = time.monotonic() + 20
                # Before it has measured, it has nothing to give: counts and registers stay zero.
                while form(found := talk.ask(message)) != form(answer) or _is_waited_for(
                    message, found
                ):
                    assert time.monotonic() < deadline, (message, found, answer)
                    time.sleep(0.05)
            error = talk.ask(errors)
            assert re.match(r"\+?0\b", error), (message, error, dialogue.source)
    finally:
        talk.close()


def _is_waited_for(message: str, found: str) -> bool:
    """Whether it is a count of readings, or the end of an update, that is not there yet."""
    counts = ("DATA:POIN", "TRAC:ACT", "STAT:EESR")
    if not message.lstrip(":").startswith(counts):
        return False
    last = found.split(";")[0 if "DATA" in message else -1]
    return int(last) < (2 if "TRAC" in message else 1)
