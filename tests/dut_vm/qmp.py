"""QEMU's monitor: commands and answers as JSON lines on a socket (QEMU: QMP specification)."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

_ANSWER_WITHIN_S = 30.0


class Monitor:
    """A connection to a running QEMU."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(_ANSWER_WITHIN_S)
        self._socket.connect(str(path))
        self._lines = self._socket.makefile("rb")
        self._lines.readline()  # the greeting
        self.execute("qmp_capabilities")

    def execute(self, command: str, **arguments: Any) -> Any:
        """What a command returns. Raises RuntimeError with QEMU's words."""
        order = {"execute": command, **({"arguments": arguments} if arguments else {})}
        self._socket.sendall(json.dumps(order).encode() + b"\n")
        for line in self._lines:
            answer = json.loads(line)
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                raise RuntimeError(f"{command}: {answer['error']['desc']}")
        raise RuntimeError(f"{command}: QEMU is gone")

    def close(self) -> None:
        """Hang up."""
        self._lines.close()
        self._socket.close()
