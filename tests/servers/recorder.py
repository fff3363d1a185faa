"""Servers on loopback that keep what they are sent, secrets above all: one that speaks HTTP, and
one that only listens."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CONNACK = b"\x20\x02\x00\x00"
"""MQTT 3.1.1, 3.2: accepted."""


class HttpRecorder(ThreadingHTTPServer):
    """Takes every write as InfluxDB does, or sends the client on to ``redirect_to`` (307)."""

    daemon_threads = True

    def __init__(self, redirect_to: str = "") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.redirect_to = redirect_to
        self.tokens: list[str] = []
        """The Authorization header of each request; empty without one."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: HttpRecorder

    def do_POST(self) -> None:
        self.server.tokens.append(self.headers.get("Authorization", ""))
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if self.server.redirect_to:
            self.send_response(307)
            self.send_header("Location", self.server.redirect_to + self.path)
        else:
            self.send_response(204)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextlib.contextmanager
def recording(redirect_to: str = "") -> Iterator[HttpRecorder]:
    with HttpRecorder(redirect_to) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class TcpRecorder:
    """Accepts every connection, keeps its first bytes and answers as an MQTT broker would."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(10)
                with contextlib.suppress(OSError):
                    self.received.append(connection.recv(4096))
                    connection.sendall(CONNACK)

    def __enter__(self) -> TcpRecorder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()
