from __future__ import annotations

import io
import json
import os
import threading
import tty
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instruments import drivers, recording
from instruments.errors import ConnectionLost, InstrumentError, NoAnswer, ProtocolError
from instruments.reading import Status
from instruments.recording import (
    FIRST_LINE,
    RecordedEvent,
    RecordedKind,
    RecordingEnded,
    RecordingLine,
    ReplayLine,
    escape,
    parse_session,
    replayed_instrument,
    unescape,
)
from instruments.simulated.meters.es51922 import ut61e_frame
from instruments.simulated.meters.k204 import k204_reply
from tests.forked_labctl import labctl
from tests.json_schemas import validate
from tests.protocol.exchange import Clock, ExpectedExchange

K204 = {"port": "/dev/ttyUSB1", "interval_s": 0.01}


@given(st.binary(max_size=200))
def test_any_bytes_survive_the_file(data: bytes) -> None:
    text = escape(data)
    assert text.isprintable() and " " not in text
    assert unescape(text) == data


def file_of(driver: str, settings: dict[str, Any], *events: RecordedEvent) -> str:
    header = json.dumps({"driver": driver, "name": "it", "settings": settings})
    return "\n".join([FIRST_LINE, header, *map(str, events)])


def recorded(driver: str, settings: dict[str, Any], line: ExpectedExchange, reads: int) -> str:
    file = io.StringIO()
    tapped = RecordingLine(line, file)
    instrument = drivers.create("it", driver, settings, Clock(), tapped)
    instrument.open()
    instrument.start()
    for _ in range(reads):
        instrument.read()
    instrument.close()
    return f"{file_of(driver, settings)}\n{file.getvalue()}"


def played(text: str) -> tuple[list[float], list[Status]]:
    instrument = replayed_instrument(parse_session(text))
    values: list[float] = []
    statuses: list[Status] = []
    instrument.open()
    instrument.start()
    with pytest.raises(RecordingEnded):
        while True:
            batch = instrument.read()
            values += [v for block in batch.blocks for v in block.values.tolist()]
            statuses += [status.status for status in batch.statuses]
    instrument.close()
    return values, statuses


def test_a_logger_that_is_asked() -> None:
    line = ExpectedExchange(
        *((b"A", k204_reply([20.0 + i, None, None, None])) for i in range(3)), (b"A", b"\x55")
    )
    text = recorded("k204", K204, line, 3)
    assert played(text) == ([21.0, 22.0], [Status.UNREADABLE])


def test_what_was_raised_is_raised_again() -> None:
    events = [
        RecordedEvent(0.0, RecordedKind.OPEN),
        RecordedEvent(0.1, RecordedKind.SENT, b"A"),
        RecordedEvent(0.2, RecordedKind.RECEIVED, k204_reply([20.0, None, None, None])),
        RecordedEvent(0.3, RecordedKind.SENT, b"A"),
        RecordedEvent(0.4, RecordedKind.RAISED, b"ConnectionLost case: lost /dev/ttyUSB1"),
    ]
    instrument = replayed_instrument(parse_session(file_of("k204", K204, *events)))
    instrument.open()
    instrument.start()
    with pytest.raises(ConnectionLost, match="case: lost /dev/ttyUSB1") as reported:
        instrument.read()
    assert not isinstance(reported.value, RecordingEnded)


def test_a_driver_that_says_something_else() -> None:
    line = ReplayLine(
        [
            RecordedEvent(0.0, RecordedKind.SENT, b"*IDN?\n"),
            RecordedEvent(0.1, RecordedKind.RECEIVED, b"a\n"),
        ]
    )
    with pytest.raises(ProtocolError, match="another version or other settings"):
        line.write(b"READ?\n")
    line = ReplayLine(
        [
            RecordedEvent(0.0, RecordedKind.SENT, b"*IDN?\n"),
            RecordedEvent(0.1, RecordedKind.SENT, b"x"),
        ]
    )
    line.write(b"*IDN?\n")
    with pytest.raises(NoAnswer):
        line.read_line(1.0)


def test_a_wait_before_a_question_does_not_delay_its_answer() -> None:
    line = ReplayLine(
        [
            RecordedEvent(0.0, RecordedKind.SENT, b"READ?\n"),
            RecordedEvent(0.1, RecordedKind.RECEIVED, b"1\n"),
            RecordedEvent(0.5, RecordedKind.SENT, b"READ?\n"),
            RecordedEvent(0.6, RecordedKind.RECEIVED, b"2\n"),
        ]
    )
    times = []
    for _ in range(2):
        asked_ns = line.clock()
        line.write(b"READ?\n")
        line.read_line(1.0)
        times.append((asked_ns, line.clock()))
    assert times == [(0, 100_000_000), (500_000_000, 600_000_000)]


_HEADER = '{"driver": "k204", "name": "a", "settings": {}}'


def test_a_last_line_that_was_cut_short_is_left_out() -> None:
    whole = f"{FIRST_LINE}\n{_HEADER}\n0.1 open\n0.2 > A\n"
    for cut in ("0", "0.3", "0.3 clo", "0.3 < \\x"):
        assert parse_session(whole + cut) == parse_session(whole)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not a recorded session"),
        (f"{FIRST_LINE}\nno json", "line 2"),
        (f"{FIRST_LINE}\n[1]\n", "line 2 of the session: must be a JSON object"),
        (f'{FIRST_LINE}\n{{"name": "a", "settings": {{}}}}\n', "line 2 of the session: must be"),
        (f"{FIRST_LINE}\n{_HEADER}\n0.1 ? a\n", "line 3"),
        (f"{FIRST_LINE}\n{_HEADER}\n0.1 < \\y\n", "line 3"),
    ],
)
def test_files_that_are_none(text: str, why: str) -> None:
    with pytest.raises(ProtocolError, match=why):
        parse_session(text)


def test_a_driver_without_a_line_cannot_be_recorded() -> None:
    settings = {
        "host": "broker.example",
        "topic": "a/b",
        "quantity": "power",
        "interval_s": 1.0,
        "accuracy_pct_of_reading": 1.0,
        "accuracy_floor": 1.0,
    }
    with pytest.raises(InstrumentError, match="mqtt has no line"):
        recording.recorded_instrument(io.StringIO(), "t", "mqtt", settings, Clock())


def test_files_of_a_machine_are_recorded_too(tmp_path: Path) -> None:
    for name, text in (("name", "nvme"), ("temp1_input", "41850"), ("temp1_label", "Composite")):
        (tmp_path / name).write_text(f"{text}\n")
    file = io.StringIO()
    settings = {"directory": str(tmp_path), "interval_s": 0.001}
    recorded = recording.recorded_instrument(file, "t", "hwmon", settings, Clock())
    recorded.open()
    recorded.start()
    assert [block.values.tolist() for block in recorded.read().blocks] == [[41.85]]
    (tmp_path / "temp1_input").unlink()
    with pytest.raises(ConnectionLost, match="vanished"):
        recorded.read()
    recorded.close()

    instrument = replayed_instrument(parse_session(file.getvalue()))
    assert instrument.open().model == "nvme"
    instrument.start()
    assert [block.values.tolist() for block in instrument.read().blocks] == [[41.85]]
    with pytest.raises(ConnectionLost, match="vanished"):
        instrument.read()
    with pytest.raises(RecordingEnded):
        instrument.read()


def test_what_a_program_printed_is_recorded_too(tmp_path: Path) -> None:
    program = tmp_path / "cli"
    program.write_text('#!/bin/sh\nfor n in 1 2 3; do echo "P1: 3.$n V DC"; done; sleep 30\n')
    program.chmod(0o755)
    settings = {
        "sigrok_driver": "odd",
        "quantity": "voltage",
        "accuracy_pct_of_reading": 1.0,
        "accuracy_floor": 0.1,
        "command": str(program),
    }
    file = io.StringIO()
    recorded = recording.recorded_instrument(file, "odd", "sigrok", settings, Clock())
    recorded.open()
    recorded.start()
    values: list[float] = []
    while len(values) < 3:
        values += [v for block in recorded.read().blocks for v in block.values.tolist()]
    recorded.close()
    assert values == [3.1, 3.2, 3.3]
    assert played(file.getvalue())[0] == values


@pytest.fixture
def port() -> Iterator[str]:
    """A pseudo terminal on which a UT61E shows 3.3 V."""
    master, slave = os.openpty()
    tty.setraw(slave)
    over = threading.Event()

    def send() -> None:
        while not over.wait(0.1):
            os.write(master, ut61e_frame("voltage", 3.3))

    sender = threading.Thread(target=send)
    sender.start()
    yield os.ttyname(slave)
    over.set()
    sender.join()
    os.close(master)
    os.close(slave)


def test_record_and_replay_by_command(port: str, tmp_path: Path) -> None:
    rig = tmp_path / "rig.toml"
    rig.write_text(
        'name = "r"\n[drive]\nengine = "psync"\ntarget = "/tmp/x"\nsize_bytes = 4096\n'
        '[rails.x]\nnominal_volts = 3.3\nvoltage = "v.voltage"\ncurrent = "i.current"\n'
        f'[instruments.v]\ndriver = "es51922"\nport = "{port}"\nfunction = "voltage"\n'
        "range = 22.0\ninterval_s = 0.1\n"
        '[instruments.i]\ndriver = "es51922"\nport = "/dev/null"\nfunction = "current"\n'
        "range = 10.0\n"
    )
    file = tmp_path / "v.session"
    words = ["record-session", str(rig), "v", "--seconds", "1", "--to", str(file)]
    done = labctl(*words)
    assert done.returncode == 0, done.stderr
    assert file.read_text().startswith(FIRST_LINE)
    again = labctl(*words)
    assert again.returncode == 1 and "is there already" in again.stderr
    done = labctl("play-session", file, "--json")
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        validate("play-session", json.loads(line))
    values = [json.loads(line)["value"] for line in done.stdout.splitlines() if "value" in line]
    assert len(values) > 4
    assert values == pytest.approx([3.3] * len(values))
