"""Notices reach real receivers: a webhook, ntfy, a mail server; and wait while those are away."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from labctl.service.daemon.notices import NoticeKind, Notices, waiting
from tests.servers.mqtt_server import free_port

pytest.importorskip("apprise")


class Receiver:
    """An HTTP server that takes whatever comes."""

    def __init__(self, port: int = 0) -> None:
        self.received: list[tuple[str, bytes]] = []
        self.answer = 200
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                receiver.received.append((self.path, self.rfile.read(length)))
                self.send_response(receiver.answer)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            do_PUT = do_POST  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    yield server
    server.stop()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "notices"
    made.mkdir(mode=0o700)
    return made


def notices(folder: Path, *addresses: str, reported: list[str] | None = None) -> Notices:
    message = reported if reported is not None else []
    return Notices(folder, tuple(NoticeKind), addresses, message.append)


def make_due(folder: Path) -> None:
    for path in folder.glob("*.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "next_s": 0.0}))


@pytest.mark.parametrize("kind", list(NoticeKind))
def test_each_kind_of_notice_reaches_a_webhook(
    kind: NoticeKind, receiver: Receiver, folder: Path
) -> None:
    sender = notices(folder, f"json://127.0.0.1:{receiver.port}/hook")
    sender.add(kind, "bench: short failed", "job 7: fio died")
    sender.deliver_once()
    ((path, body),) = receiver.received
    message = json.loads(body)
    assert path == "/hook"
    assert message["title"] == "bench: short failed" and message["message"] == "job 7: fio died"
    assert list(folder.iterdir()) == []


def test_a_notice_reaches_ntfy(receiver: Receiver, folder: Path) -> None:
    sender = notices(folder, f"ntfy://127.0.0.1:{receiver.port}/lab")
    sender.add(NoticeKind.GUARD_TRIPPED, "bench: too hot", "82 °C")
    sender.deliver_once()
    message = json.loads(receiver.received[0][1])
    assert (
        message["topic"] == "lab"
        and message["title"] == "bench: too hot"
        and "82" in message["message"]
    )


def test_a_notice_reaches_a_mailbox(folder: Path) -> None:
    controller = pytest.importorskip("aiosmtpd.controller")
    mails: list[bytes] = []

    class Handler:
        async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
            mails.append(envelope.content)
            return "250 OK"

    server = controller.Controller(Handler(), hostname="127.0.0.1", port=free_port())
    server.start()
    try:
        address = f"mailto://127.0.0.1:{server.port}?from=rig@lab.example&to=me@lab.example"
        sender = notices(folder, address)
        sender.add(NoticeKind.MORNING, "labctl: 3 done", "watts")
        sender.deliver_once()
    finally:
        server.stop()
    assert len(mails) == 1 and b"labctl: 3 done" in mails[0] and b"me@lab.example" in mails[0]


def test_while_the_network_is_away_a_notice_waits_and_then_comes_once(folder: Path) -> None:
    port, reported = free_port(), list[str]()
    sender = notices(folder, f"json://127.0.0.1:{port}", reported=reported)
    sender.add(NoticeKind.FAILED, "title", "text")
    for _ in range(3):
        make_due(folder)
        sender.deliver_once()
    assert waiting(folder) == ["title"] and len(reported) == 1
    server = Receiver(port)
    try:
        again = notices(folder, f"json://127.0.0.1:{port}", reported=reported)  # another process
        make_due(folder)
        again.deliver_once()
        again.deliver_once()
        assert len(server.received) == 1
    finally:
        server.stop()
    assert waiting(folder) == []


def test_who_has_a_notice_does_not_get_it_again_because_another_has_not(
    receiver: Receiver, folder: Path
) -> None:
    sender = notices(folder, f"json://127.0.0.1:{receiver.port}", f"json://127.0.0.1:{free_port()}")
    sender.add(NoticeKind.FAILED, "title", "text")
    for _ in range(3):
        make_due(folder)
        sender.deliver_once()
    assert len(receiver.received) == 1


def test_a_server_that_refuses_is_asked_again_with_pauses(receiver: Receiver, folder: Path) -> None:
    receiver.answer = 503
    sender = notices(folder, f"json://127.0.0.1:{receiver.port}")
    sender.add(NoticeKind.FAILED, "title", "text")
    sender.deliver_once()
    sender.deliver_once()
    assert len(receiver.received) == 1  # the second look came too early
    receiver.answer = 200
    make_due(folder)
    sender.deliver_once()
    assert waiting(folder) == []


def test_no_address_stands_in_what_is_kept_and_only_the_owner_reads_it(folder: Path) -> None:
    sender = notices(folder, f"json://user:secret@127.0.0.1:{free_port()}")
    sender.add(NoticeKind.FAILED, "title", "text")
    sender.deliver_once()
    (path,) = folder.glob("*.json")
    assert "secret" not in path.read_text() and path.stat().st_mode & 0o777 == 0o600


def test_after_three_days_a_notice_is_dropped_and_reported(folder: Path) -> None:
    reported: list[str] = []
    sender = notices(folder, f"json://127.0.0.1:{free_port()}", reported=reported)
    sender.add(NoticeKind.FAILED, "title", "text")
    (path,) = folder.glob("*.json")
    old = {**json.loads(path.read_text()), "made_s": time.time() - 4 * 86_400}
    path.write_text(json.dumps(old))
    sender.deliver_once()
    assert waiting(folder) == [] and any("dropped" in line for line in reported)


def test_a_folder_that_cannot_be_written_harms_nobody(tmp_path: Path) -> None:
    reported: list[str] = []
    sender = notices(tmp_path / "missing", "json://127.0.0.1:9", reported=reported)
    sender.add(NoticeKind.FAILED, "title", "text")
    sender.deliver_once()
    assert reported and "could not be kept" in reported[0]
