"""A SCPI instrument, and one on a TCP socket: parsing, error queue, faults."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable

from instruments.simulated.meter_kit.faults import Fault, Faults
from instruments.simulated.meter_kit.parts import MeterParts
from instruments.simulated.meter_kit.tcp_server import TcpServer

Handler = Callable[[str], Awaitable[str | None]]
"""Takes the parameters; an answer for a query, None for a command."""

NODES = (("VOLTage", "voltage"), ("CURRent", "current"))
"""Nodes of commands for DC, and the function of each."""
_QUEUE_LENGTH = 20
_LATE_S = 1.9
"""Longer than any driver waits."""
_NODE = re.compile(r"(\[)?:?(\*?[A-Za-z]+\d*)(\])?")


class ScpiError(Exception):
    """Goes into the error queue: code and message of SCPI-99 volume 2, 21.8."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


UNDEFINED_HEADER = ScpiError(-113, "Undefined header")
OUT_OF_RANGE = ScpiError(-222, "Data out of range")
ILLEGAL_VALUE = ScpiError(-224, "Illegal parameter value")
STALE = ScpiError(-230, "Data corrupt or stale")


def parse_number(text: str, extremes: dict[str, float]) -> float:
    """A parameter; words such as MIN and MAX from ``extremes``. Raises ScpiError."""
    if text.upper() in extremes:
        return extremes[text.upper()]
    try:
        return float(text)
    except ValueError:
        raise ILLEGAL_VALUE from None


def header_pattern(notation: str) -> re.Pattern[str]:
    """A pattern for SCPI notation: ``[SENSe:]VOLTage[:DC]:RANGe``, long and short forms."""
    pattern = ""
    for opened, node, closed in _NODE.findall(notation.replace(":]", "]").replace("[:", "[")):
        short = re.match(r"(\*?[A-Z]+)[a-z]*(\d*)", node)
        assert short is not None
        words = {re.escape(node.upper()), re.escape(short[1] + short[2])}
        step = f":(?:{'|'.join(sorted(words, key=len, reverse=True))})"
        pattern += f"(?:{step})?" if opened and closed else step
    return re.compile(pattern)


class ScpiInterpreter:
    """Parses messages and answers them; models add commands."""

    possible_faults = frozenset(
        {
            Fault.SILENT,
            Fault.DISCONNECT,
            Fault.NONSENSE,
            Fault.OVERLOAD,
            Fault.NAN,
            Fault.IDENTITY,
            Fault.LATE,
        }
    )

    def __init__(self, name: str, maker: str, model: str, firmware: str, faults: Faults) -> None:
        self.name = name
        self.faults = faults
        self._identity = f"{maker},{model},SIM{name.upper()},{firmware}"
        self._errors: list[ScpiError] = []
        self._commands: list[tuple[re.Pattern[str], bool, Handler]] = []
        self.on_query("*IDN", self._query_identity)
        self.on_query("*OPC", lambda: "1")
        self.on("*CLS", self._clear)
        self.on_query("SYSTem:ERRor[:NEXT]", self._next_error)
        self.ignore("SYSTem:LOCal", "SYSTem:REMote")

    def on(self, notation: str, handler: Handler, query: bool = False) -> None:
        """Let ``handler`` answer a header."""
        self._commands.append((header_pattern(notation), query, handler))

    def on_query(self, notation: str, value: Callable[[], str]) -> None:
        """Answer a query that has no parameters with the present ``value``."""

        async def answer(_parameters: str) -> str:
            return value()

        self.on(notation, answer, query=True)

    def ignore(self, *notations: str) -> None:
        """Accept commands without an effect."""

        async def nothing(_parameters: str) -> None:
            return None

        for notation in notations:
            self.on(notation, nothing)

    async def answer(self, message: str) -> str | None:
        """The answers to a message of one or more commands; None when there are none."""
        answers: list[str] = []
        path = ""
        for unit in message.strip().split(";"):
            header, _, parameters = unit.strip().partition(" ")
            if not header:
                continue
            try:
                handler, path = self._find(header.upper(), path)
                answer = await handler(parameters.strip())
            except ScpiError as error:
                if len(self._errors) < _QUEUE_LENGTH:
                    self._errors.append(error)
                continue
            if answer is not None:
                answers.append(answer)
        if not answers or self.faults.has(Fault.SILENT):
            return None
        return "\x07?!garbled" if self.faults.has(Fault.NONSENSE) else ";".join(answers)

    def _find(self, header: str, path: str) -> tuple[Handler, str]:
        """The handler and the path that the next relative header begins from."""
        query = header.endswith("?")
        header = header.removesuffix("?")
        common = header.startswith("*")
        absolute = header if header.startswith(":") else f":{header}"
        candidates = [absolute] if common or header.startswith(":") else [path + absolute, absolute]
        for candidate in candidates:
            for pattern, is_query, handler in self._commands:
                if is_query == query and pattern.fullmatch(candidate):
                    return handler, path if common else candidate.rpartition(":")[0]
        raise UNDEFINED_HEADER

    def _query_identity(self) -> str:
        if self.faults.has(Fault.IDENTITY):
            return "Simulated Instruments,ANOTHER-1,0,0"
        return self._identity

    async def _clear(self, _parameters: str) -> None:
        self._errors.clear()

    def _next_error(self) -> str:
        if not self._errors:
            return '+0,"No error"'
        error = self._errors.pop(0)
        return f'{error.code},"{error.message}"'


class ScpiServer(ScpiInterpreter, TcpServer):
    """One that listens on 127.0.0.1."""

    def __init__(self, parts: MeterParts, maker: str, model: str, firmware: str = "1.0") -> None:
        TcpServer.__init__(self, parts)
        ScpiInterpreter.__init__(self, parts.name, maker, model, firmware, self.faults)

    def address(self, port: int) -> dict[str, str]:
        """The VISA resource."""
        return {"resource": f"TCPIP0::127.0.0.1::{port}::SOCKET"}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer each line."""
        try:
            while line := await reader.readline():
                answer = await self.answer(line.decode("ascii", errors="replace"))
                if answer is None:
                    continue
                if self.faults.has(Fault.LATE):
                    await asyncio.sleep(_LATE_S)
                writer.write(answer.encode("ascii") + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError):  # gone, or a line without end
            pass
