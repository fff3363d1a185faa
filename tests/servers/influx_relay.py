"""The write address of InfluxDB 1.8 in front of an older server, such as Debian's 1.6.

It stores and answers as the server behind it does; only the address of writing and the way to say
user and password are those of 1.8. When the server is gone, so is its answer.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WRITE = "/api/v2/write"


class Relay(ThreadingHTTPServer):
    """Listens on ``port`` and hands on to ``server_port`` of this machine, until closed."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int, server_port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.behind = server_port
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Answer nobody any more."""
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Relay

    def _hand_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name: value for name, value in self.headers.items() if name != "Host"}
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        if scheme == "Token":
            headers["Authorization"] = "Basic " + base64.b64encode(token.encode()).decode()
        connection = http.client.HTTPConnection("127.0.0.1", self.server.behind)
        with contextlib.closing(connection):
            try:
                connection.request(self.command, self._address(), body, headers)
                answer = connection.getresponse()
                content = answer.read()
            except (OSError, http.client.HTTPException):
                self.close_connection = True
                return
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "date"):
                self.send_header(name, value)
        if answer.status != http.HTTPStatus.NO_CONTENT:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(content)

    do_GET = do_POST = _hand_on  # noqa: N815

    def _address(self) -> str:
        parts = urllib.parse.urlsplit(self.path)
        if parts.path != WRITE:
            return self.path
        asked = urllib.parse.parse_qs(parts.query)
        words = {"db": asked["bucket"][0], "precision": asked.get("precision", ["ns"])[0]}
        return "/write?" + urllib.parse.urlencode(words)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: what goes wrong is in what the client says."""
