"""JSON documents of an HTTPS server, one request at a time, each within a limit of time and size.

No redirection is followed: a password goes to the server that the rig names, and to no other.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import select
import socket
import ssl
import threading
import time
from pathlib import Path
from typing import Annotated, Any, Final, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from instruments.errors import (
    ConnectionLost,
    InstrumentError,
    NoAnswer,
    ProtocolError,
    SettingRefused,
)

_CONNECT_WITHIN_S: Final = 4.0
_ANSWER_WITHIN_S: Final = 10.0
"""From the request to the first byte: a board controller may take seconds."""
_WHOLE_WITHIN_S: Final = 1.5
"""From the first byte to the last."""
_LARGEST: Final = 1 << 20
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


class HttpsSettings(BaseModel):
    """The keys of such a server in a rig."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: Annotated[str, Field(min_length=1, max_length=300)]
    """``https://bmc-7.example``."""
    user: Annotated[str, Field(pattern=r"^[^:\x00-\x1f\x7f]*$")] = ""
    password_file: str | None = None
    ca_file: str | None = None
    """Certificates that sign the server's; default: the authorities that the system trusts."""

    @field_validator("url")
    @classmethod
    def _plain_address(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("must be an address such as https://bmc-7.example")
        if parts.username or parts.password:
            raise ValueError("must not hold a password: use user and password_file")
        if parts.path.strip("/") or parts.query or parts.fragment:
            raise ValueError("must be the server's address alone")
        if parts.port == 0:
            raise ValueError("must have a port from 1 to 65535")
        return url.rstrip("/")

    @model_validator(mode="after")
    def _belong_together(self) -> Self:
        if bool(self.user) != bool(self.password_file):
            raise ValueError("user and password_file belong together")
        secure = urlsplit(self.url).scheme == "https"
        if self.user and not secure and urlsplit(self.url).hostname not in _LOOPBACK:
            raise ValueError("url must begin with https: the password would be readable on the way")
        if self.ca_file and not secure:
            raise ValueError("ca_file needs a url with https")
        return self


class HttpsJson:
    """The connection to one server. One request is under way at a time."""

    def __init__(self, name: str, settings: HttpsSettings) -> None:
        """``name`` names the instrument in messages."""
        self._name = name
        self._settings = settings
        self._connection: http.client.HTTPConnection | None = None
        self._headers: dict[str, str] = {}
        self._path = ""
        self._answered = False
        self._deadline = 0.0

    def open(self) -> None:
        """Connect. Raises ConnectionLost, and SettingRefused for a file that cannot be read."""
        self.close()
        settings = self._settings
        parts = urlsplit(settings.url)
        assert parts.hostname is not None
        self._headers = {"Accept": "application/json", "OData-Version": "4.0"}
        try:
            if settings.password_file is not None:
                password = Path(settings.password_file).expanduser().read_text("utf-8").strip()
                login = base64.b64encode(f"{settings.user}:{password}".encode()).decode()
                self._headers["Authorization"] = f"Basic {login}"
            if parts.scheme == "https":
                ca_file = Path(settings.ca_file).expanduser() if settings.ca_file else None
                connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                    *(parts.hostname, parts.port),
                    timeout=_CONNECT_WITHIN_S,
                    context=ssl.create_default_context(cafile=ca_file),
                )
            else:
                connection = http.client.HTTPConnection(
                    parts.hostname, parts.port, timeout=_CONNECT_WITHIN_S
                )
        except (OSError, UnicodeDecodeError) as error:
            raise SettingRefused(
                f"{self._name}: a file that says how to log in cannot be used: {error}"
            ) from error
        self._connection, self._answered = connection, False
        try:
            connection.connect()
        except (OSError, ValueError) as error:
            raise self._lost(error) from error

    def get(self, path: str) -> dict[str, Any]:
        """The object at ``path``. Raises what :meth:`answer` raises."""
        self.ask(path)
        while True:
            found = self.answer(0.5)
            if found is not None:
                return found

    def ask(self, path: str) -> None:
        """Send a request. Raises ConnectionLost."""
        if self._connection is None:
            raise ConnectionLost(f"{self._name}: not connected to {self._settings.url}")
        sock = self._connection.sock
        if sock is None or select.select([sock], [], [], 0)[0]:
            self.open()  # the server ended it since its last answer
        assert self._connection is not None
        try:
            self._connection.request("GET", path, headers=self._headers)
        except (OSError, http.client.HTTPException) as error:
            raise self._lost(error) from error
        self._path = path
        self._deadline = time.monotonic() + _ANSWER_WITHIN_S

    def answer(self, wait_s: float) -> dict[str, Any] | None:
        """The object that was asked for; None when it has not come within ``wait_s``.

        Raises ConnectionLost (also for a login that is refused), NoAnswer, ProtocolError.
        """
        connection = self._connection
        if connection is None or connection.sock is None:
            raise ConnectionLost(f"{self._name}: not connected to {self._settings.url}")
        pending = isinstance(connection.sock, ssl.SSLSocket) and connection.sock.pending()
        if not pending and not select.select([connection.sock], [], [], wait_s)[0]:
            if time.monotonic() > self._deadline:
                raise NoAnswer(
                    f"{self._name}: {self._settings.url} did not answer within "
                    f"{_ANSWER_WITHIN_S:g} s"
                )
            return None
        cut = threading.Timer(_WHOLE_WITHIN_S, _cut_off, (connection.sock,))
        cut.daemon = True
        cut.start()
        try:
            response = connection.getresponse()
            body = response.read(_LARGEST + 1)
        except (http.client.RemoteDisconnected, ConnectionResetError) as error:
            if not self._answered:
                raise self._lost(error) from error
            self.open()  # it was ended as idle while the request was on its way
            self.ask(self._path)
            return None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._lost(error) from error
        finally:
            cut.cancel()
        self._answered = True
        if len(body) > _LARGEST:
            raise ProtocolError(f"{self._name}: {self._settings.url} sent more than 1 MiB")
        if response.length:
            raise ConnectionLost(f"{self._name}: {self._settings.url}: its answer was cut off")
        if response.status in (401, 403):
            user = self._settings.user or "(none)"
            raise ConnectionLost(
                f"{self._name}: {self._settings.url} refuses user {user}: are user and "
                "password_file right, and does it allow basic authentication?"
            )
        if response.status != http.client.OK:
            raise self._failed(response.status)
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise ProtocolError(f"{self._name}: {self._settings.url} sent no JSON object")
        return found

    def close(self) -> None:
        """Close the connection; never raises."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _failed(self, status: int) -> InstrumentError:
        words = http.client.responses.get(status, "unknown")
        return ProtocolError(f"{self._name}: {self._settings.url} answers {status} ({words})")

    def _lost(self, error: Exception) -> ConnectionLost:
        """Without what the server sent: it may be anything."""
        reason = error.strerror if isinstance(error, OSError) else None
        if isinstance(error, ssl.SSLCertVerificationError):
            reason = f"its certificate is not trusted ({error.verify_message}): set ca_file"
        return ConnectionLost(
            f"{self._name}: {self._settings.url}: {reason or type(error).__name__}; is it there?"
        )


def _cut_off(sock: socket.socket) -> None:
    """What waits for the rest of an answer ends at once."""
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
