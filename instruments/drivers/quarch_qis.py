"""Questions to QIS, Quarch's instrument server, and its answers.

Facts from the ``help.txt`` that comes with QIS 1.55.1, and from its answers without a module: it
greets with ``$t v1.55.1 …`` and CR LF; a command ends with CR LF, an answer with CR LF and ``>``; a
command that begins with a module's name goes to that module, and the answer for one that is gone is
``Device USB::… Invalid or No Longer Valid``.
"""

from __future__ import annotations

import re
import time
from typing import Final

from instruments.errors import ConnectionLost, InstrumentError, NoAnswer, ProtocolError
from instruments.transports.lines import ByteLine
from instruments.transports.serial_line import bytes_until
from instruments.transports.tcp_line import TcpLine

PORT: Final = 9722
ANSWER_S: Final = 3.0
"""QIS itself waits 1.5 s for a module (``$sysinfo``)."""
_PROMPT: Final = b"\r\n>"
_GREETING: Final = b"$t v"
_GREETING_S: Final = 1.5
_SHOWN: Final = 40
_FIND_S: Final = 0.5
"""Each for the connection, the greeting and the answer of a QIS that may not be there."""


class QisSession:
    """Questions to a QIS and their answers. Raises ConnectionLost, NoAnswer, ProtocolError."""

    def __init__(self, name: str, line: ByteLine, module: str = "") -> None:
        self.name = name
        self._line = line
        self._module = module

    def open(self, greeting_s: float = _GREETING_S) -> str:
        """Connect; the version that QIS greets with."""
        self._line.open()
        greeting = bytes_until(self._line, lambda data: data.endswith(b"\n"), greeting_s)
        if not greeting.startswith(_GREETING):
            raise ProtocolError(
                f"{self.name}: no QIS: it greets with {greeting[:_SHOWN]!r}, not with its version"
            )
        return greeting.decode("ascii", errors="replace").split()[1]

    def close(self) -> None:
        """Close the connection."""
        self._line.close()

    def ask(self, command: str, timeout_s: float = ANSWER_S) -> str:
        """The answer of QIS."""
        return self._text(self._answer(command, timeout_s), command)

    def ask_module(self, command: str) -> str:
        """The answer of the module, or of QIS about it."""
        return self._text(self.stripes(command), command)

    def send_module(self, command: str, quiet_s: float) -> None:
        """A last command to the module: what is answered, until all is quiet, is not looked at."""
        self._line.write(f"{self._module} {command}\r\n".encode("ascii"))
        self._line.discard(quiet_s)

    def stripes(self, command: str, timeout_s: float = ANSWER_S) -> bytes:
        """As :meth:`ask_module`, undecoded."""
        answer = self._answer(f"{self._module} {command}", timeout_s)
        if answer.startswith(b"Device ") and b"No Longer Valid" in answer:
            raise ConnectionLost(
                f"{self.name}: QIS no longer sees {self._module}; is it plugged in and on?"
            )
        return answer

    def _answer(self, command: str, timeout_s: float) -> bytes:
        self._line.write(command.encode("ascii") + b"\r\n")
        deadline = time.monotonic() + timeout_s
        parts: list[bytes] = []
        end = b""
        while not end.endswith(_PROMPT):
            left_s = deadline - time.monotonic()
            data = self._line.read_some(max(left_s, 0.0))
            parts.append(data)
            end = (end + data)[-len(_PROMPT) :]
            if (not data or left_s < 0) and not end.endswith(_PROMPT):
                raise NoAnswer(f"{self.name}: no whole answer to {command} within {timeout_s:g} s")
        return b"".join(parts)[: -len(_PROMPT)]

    def _text(self, answer: bytes, command: str) -> str:
        try:
            return answer.decode("ascii").strip()
        except UnicodeDecodeError as error:
            raise ProtocolError(
                f"{self.name}: answered {command} with {answer[:_SHOWN]!r}"
            ) from error


def parse_modules(text: str) -> dict[str, str]:
    """Modules by their names (``usb::QTL1999-02-020``) as ``$list details`` has them: what each is
    called. Those over REST are left out: they cannot stream."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        module = re.match(r"\s*\d+\)\s*(\w+::\S+)\s*(.*)", line)
        if module is None or module[1].lower().startswith("rest::"):
            continue
        name = re.search(r"\bName:(.*)", module[2])
        found[module[1]] = name[1].strip() if name else ""
    return found


def modules_at(host: str, port: int) -> tuple[str, dict[str, str]]:
    """The version of the QIS at an address, and its modules as :func:`parse_modules` has them.

    Both empty where no QIS answers, within 1.5 s.
    """
    qis = QisSession("QIS", TcpLine("QIS", host, port, connect_s=_FIND_S))
    try:
        version = qis.open(_FIND_S)
        return version, parse_modules(qis.ask("$list details", _FIND_S))
    except InstrumentError:
        return "", {}
    finally:
        qis.close()
