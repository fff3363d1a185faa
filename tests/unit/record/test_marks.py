"""Requests for marks, as another process writes them and the one that records reads them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from labctl.record.events import EventKind
from labctl.record.marks import REQUESTS_FILE, MarkRequests, ask_for_mark
from labctl.record.timebase import Timebase


def test_a_mark_is_where_it_was_asked_for_and_is_taken_once(tmp_path: Path) -> None:
    timebase = Timebase()
    ask_for_mark(tmp_path, "before anybody recorded")
    requests = MarkRequests(tmp_path, timebase)
    before_ns = timebase.now_ns()
    token = ask_for_mark(tmp_path, "fan off\x1b[31m\nagain")
    after_ns = timebase.now_ns()
    time.sleep(0.01)
    taken: list[tuple[EventKind, int, dict[str, Any]]] = []
    requests.record(lambda kind, t_ns, **data: taken.append((kind, t_ns, data)))
    ((kind, t_ns, data),) = taken
    assert kind is EventKind.MARK
    assert before_ns <= t_ns <= after_ns
    assert data == {"text": "fan off\ufffd[31m again", "source": "person", "token": token}
    assert list(requests.new()) == []


def test_what_is_no_request_is_passed_over(tmp_path: Path) -> None:
    timebase = Timebase()
    requests = MarkRequests(tmp_path, timebase)
    file = tmp_path / REQUESTS_FILE
    request = {"monotonic_ns": 1 << 70, "text": "from the future", "token": "t"}
    lines = [b"\xff\xfe", b"[]", b'{"text": 3, "token": "t", "monotonic_ns": 5}', b"{", b"NaN"]
    file.write_bytes(b"\n".join([*lines, json.dumps(request).encode(), b'{"cut']))
    (found,) = requests.new()
    assert found.text == "from the future"
    assert found.t_ns <= timebase.now_ns()
    with file.open("ab") as more:
        more.write(b'off"}\n' + b"x" * 200_000 + b"\n")
    ask_for_mark(tmp_path, "the last one")
    texts = [one.text for _ in range(6) for one in requests.new()]
    assert texts == ["the last one"]


def test_a_pipe_or_a_link_in_place_of_the_file_is_not_read(tmp_path: Path) -> None:
    requests = MarkRequests(tmp_path, Timebase())
    os.mkfifo(tmp_path / REQUESTS_FILE)
    assert list(requests.new()) == []
    (tmp_path / REQUESTS_FILE).unlink()
    (tmp_path / REQUESTS_FILE).symlink_to("/etc/passwd")
    assert list(requests.new()) == []
