"""SCPI: parsers of answers, and a session that sends commands and queries.

The first half is pure: numbers, sentinels, blocks, identities, the error queue. The sentinels
are those of SCPI-99 volume 1, 7.2.1.5: ±9.9E37 infinity, 9.91E37 not a number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final, TypeVar

from instruments.errors import NoAnswer, ProtocolError, SettingRefused, WrongInstrument
from instruments.reading import Identity, Status
from instruments.transports.lines import MessageLine

Parsed = TypeVar("Parsed")

NOT_A_NUMBER: Final = 9.91e37
_SENTINEL_WIDTH: Final = 5e34
_OVERLOAD_FROM: Final = 1e9
"""Infinity of an XDM1041; other meters send 9.9E37 with fewer digits."""
_MAX_VOLTS_OR_AMPS: Final = 1e4
"""No multimeter or bench supply reads more: a digit or a decimal point was lost."""
_MAX_SECONDS: Final = 1e9
_MAX_ERRORS: Final = 20
"""The error queue of the usual multimeters holds 20."""

DC_FUNCTIONS: Final = {"voltage": ("VOLT", "VOLT:DC"), "current": ("CURR", "CURR:DC")}
"""What meters answer to ``FUNC?``, without quotation marks."""

QUIET_S: Final = 0.1
"""A meter that is not measuring answers faster than this."""
_SETUP_S: Final = 3.0
"""Longest duration of ``*RST`` and a setup; a stop waits no longer for a meter."""

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DECIMAL_COMMA = re.compile(r"([+-]?\d+),(\d+(?:[eE][+-]?\d+)?)")
_WITH_UNIT = re.compile(r"([+-]?[\d.]+(?:[eE][+-]?\d+)?)\s*([munkM\u00b5\u03bc]?)[VAS]?", re.ASCII)
_FACTORS = {"": 1.0, "n": 1e-9, "u": 1e-6, "\u00b5": 1e-6, "\u03bc": 1e-6, "m": 1e-3, "k": 1e3}
_FACTORS["M"] = 1e6


def parse_reading(text: str, most: float = _MAX_VOLTS_OR_AMPS) -> float | Status:
    """A reading in V, A or W, or the status of one without a value. Raises ProtocolError.

    More than ``most`` no such meter reads.

    A comma for the point (a meter or gateway with a local number format) is accepted.
    """
    text = text.strip()
    if not _NUMBER.fullmatch(text) and (comma := _DECIMAL_COMMA.fullmatch(text)):
        text = f"{comma[1]}.{comma[2]}"
    elif not _NUMBER.fullmatch(text):
        folded = text.upper().lstrip("+-")
        if folded in ("INF", "INFINITY"):
            return Status.OVERLOAD
        if folded in ("NAN", "NINF"):
            return Status.NO_VALUE
        raise ProtocolError(f"expected a number, got {text[:60]!r}")
    value = float(text)
    if abs(value) >= _OVERLOAD_FROM:
        near_nan = abs(abs(value) - NOT_A_NUMBER) < _SENTINEL_WIDTH
        return Status.NO_VALUE if near_nan else Status.OVERLOAD
    if abs(value) > most:
        raise ProtocolError(f"got {text[:60]!r}, which no meter can read")
    return value


def reading_or_unreadable(text: str) -> float | Status:
    """As :func:`parse_reading`, for one of many: where it is garbled, the status of that one."""
    try:
        return parse_reading(text)
    except ProtocolError:
        return Status.UNREADABLE


def parse_seconds(text: str) -> float:
    """A time stamp in seconds since a start. Raises ProtocolError."""
    if not _NUMBER.fullmatch(text.strip()) or not 0 <= float(text) < _MAX_SECONDS:
        raise ProtocolError(f"expected seconds, got {text[:60]!r}")
    return float(text)


def parse_quantity(text: str) -> float:
    """A setting as meters answer it: ``+1.0E-01``, ``20V`` or ``200mV``. Raises ProtocolError."""
    match = _WITH_UNIT.fullmatch(text.strip().strip('"'))
    if match is None:
        raise ProtocolError(f"expected a number, got {text[:60]!r}")
    try:
        quantity = float(match[1]) * _FACTORS[match[2]]
    except ValueError:
        quantity = math.inf
    if math.isinf(quantity):
        raise ProtocolError(f"expected a number, got {text[:60]!r}")
    return quantity


def parse_block(data: bytes) -> bytes:
    """The content of a definite (``#3120…``) or indefinite (``#0…``) block (IEEE 488.2, 8.7).

    Raises ProtocolError where it is cut short, too long, or no block.
    """
    if len(data) < 2 or data[:1] != b"#" or not data[1:2].isdigit():
        raise ProtocolError(f"expected a block, got {data[:40]!r}")
    digits = int(data[1:2])
    if digits == 0:
        if not data.endswith(b"\n"):
            raise ProtocolError("indefinite block without its final line feed: cut short")
        return data[2:-1]
    header = data[2 : 2 + digits]
    if len(header) < digits or not header.isdigit():
        raise ProtocolError(f"block header cut short: {data[:12]!r}")
    length = int(header)
    content = data[2 + digits :]
    if len(content) < length:
        raise ProtocolError(f"block cut short: {len(content)} of {length} bytes")
    if content[length:].strip(b"\r\n"):
        raise ProtocolError(f"{len(content) - length} bytes more than the block said")
    return content[:length]


def parse_identity(text: str) -> Identity:
    """The four fields of ``*IDN?``. Raises ProtocolError where there are fewer than two."""
    text = "".join(mark if mark.isprintable() else " " for mark in text).strip()
    fields = [part.strip().strip('"') for part in text.split(",")]
    if len(fields) < 2 or not fields[0] or not fields[1] or _NUMBER.fullmatch(fields[0]):
        raise ProtocolError(f"expected an identity (maker,model,…), got {text[:60]!r}")
    fields += ["", ""]
    return Identity(maker=fields[0], model=fields[1], serial=fields[2], firmware=fields[3])


def parse_error(text: str) -> tuple[int, str]:
    """Code and message of one entry of the error queue. Raises ProtocolError."""
    code, _, message = text.strip().partition(",")
    try:
        return int(code), message.strip().strip('"')
    except ValueError:
        raise ProtocolError(f"expected an error (code,message), got {text[:60]!r}") from None


_ECHO_HINT: Final = (
    "sends back what it is sent, as for a person at a terminal; switch that off at its panel (a "
    "Fluke 8845A: INSTR SETUP, PORT IF, RS232: COMPUTER instead of TERMINAL)"
)
"""Fluke 8845A/8846A Programmers Manual, "RS-232 Modes of Operation": its terminal mode echoes
each character and prompts; computer mode does not."""


_PROMPT_HINT: Final = (
    "answers with a prompt, as for a person at a terminal; is the port that of telnet (5024, where "
    "programs are answered at 5025)?"
)
"""Ports of Keysight Truevolt and Siglent SDM meters."""


def is_model(model: str, answered: str) -> bool:
    """Whether ``model`` is a word of the answered model, which may have a variant (``-SC``).

    A DP832 is no DP832A: their limits of error differ.
    """
    words = answered.upper().split()
    return any(word == model.upper() or word.startswith(f"{model.upper()}-") for word in words)


class ScpiSession:
    """Commands and queries over one line; messages name ``name``."""

    def __init__(
        self, name: str, line: MessageLine, timeout_s: float, command_end: bytes = b"\n"
    ) -> None:
        self.name = name
        self.timeout_s = timeout_s
        self._line = line
        self._command_end = command_end
        self._late_answer_expected = False

    def open(self) -> None:
        """Connect. Raises ConnectionLost."""
        self._line.open()
        self._late_answer_expected = False

    def close(self, *final_commands: str) -> None:
        """Send ``final_commands`` if the line still works, and close it. Never raises."""
        self._late_answer_expected = False  # no query follows that could take it for its own
        try:
            for command in final_commands:
                self.send(command)
        except Exception:  # the line is dead, which is why we close it
            pass
        finally:
            self._line.close()

    def send(self, command: str) -> None:
        """Send a command that has no answer.

        After a query whose answer did not come in time the line is emptied first: a late answer
        would be taken for the answer to the next query.
        """
        if self._late_answer_expected:
            self.resynchronise()
        self._line.write(command.encode("ascii") + self._command_end)

    def ask_bytes(self, query: str, timeout_s: float | None = None) -> bytes:
        """Send a query; its answer as received. Raises NoAnswer, ConnectionLost."""
        self.send(query)
        try:
            return self._line.read_line(self.timeout_s if timeout_s is None else timeout_s)
        except NoAnswer as error:
            self._late_answer_expected = True
            raise NoAnswer(f"{error} to {query}; the meter may be busy or in local mode") from None

    def ask(self, query: str, timeout_s: float | None = None) -> str:
        """Send a query; its answer as text. Raises ProtocolError where it is not ASCII."""
        answer = self.ask_bytes(query, timeout_s)
        try:
            return answer.decode("ascii").strip()
        except UnicodeDecodeError:
            raise ProtocolError(f"{self.name}: answered {answer[:40]!r} to {query}") from None

    def ask_for(self, query: str, parse: Callable[[str], Parsed]) -> Parsed:
        """The parsed answer to a query. Raises ProtocolError, which names the instrument."""
        answer = self.ask(query)
        try:
            return parse(answer)
        except ProtocolError as error:
            raise ProtocolError(f"{self.name}: {error} to {query}") from None

    def resynchronise(self, quiet_s: float = QUIET_S) -> None:
        """Discard late answers, until none has come for ``quiet_s`` seconds.

        Without the wait a late answer would be taken for the answer to the next query.
        """
        self._line.discard(quiet_s)
        self._late_answer_expected = False

    def reset(self, *first_commands: str) -> None:
        """Send ``first_commands``, reset the meter, empty its error queue, and wait for it."""
        for command in (*first_commands, "*RST", "*CLS"):
            self.send(command)
        self.wait_until_done()

    def wait_until_done(self) -> None:
        """Wait until all commands are carried out. Raises NoAnswer."""
        self.ask("*OPC?", _SETUP_S)

    def identify(self) -> Identity:
        """The answer to ``*IDN?``; one stale answer to an earlier client is skipped."""
        try:
            return parse_identity(self.ask("*IDN?"))
        except ProtocolError:
            self.resynchronise()
        try:
            return parse_identity(self.ask("*IDN?"))
        except ProtocolError as error:
            if "*IDN?" in str(error):
                raise ProtocolError(f"{self.name}: {_ECHO_HINT}") from None
            raise ProtocolError(f"{self.name}: {error}; switch the meter off and on") from None

    def expect_identity(self, model: str, serial: str = "") -> Identity:
        """Query the identity and refuse another one. An empty ``model`` or ``serial``: any.

        Raises WrongInstrument.
        """
        identity = self.identify()
        if ">" in identity.maker:
            raise ProtocolError(f"{self.name}: {_PROMPT_HINT}")
        if model and not is_model(model, identity.model):
            raise WrongInstrument(
                f"{self.name}: expected a {model}, found {identity}; "
                "check the address and the model in the rig"
            )
        if serial and serial != identity.serial:
            raise WrongInstrument(
                f"{self.name}: expected serial number {serial}, found {identity}; "
                "check the address in the rig"
            )
        return identity

    def raise_device_errors(self, doing: str, query: str = "SYST:ERR?") -> None:
        """Read the error queue until it is empty. Raises SettingRefused if it was not."""
        errors: list[str] = []
        for _ in range(_MAX_ERRORS):
            code, message = self.ask_for(query, parse_error)
            if code == 0:
                break
            errors.append(f"{code} {message}")
        if errors:
            raise SettingRefused(f"{self.name}: refused {doing}: {'; '.join(errors)}")

    def expect_quantity(self, query: str, expected: float, what: str) -> float:
        """Verify that a setting took effect: the answer is within 1 % of ``expected``.

        Raises SettingRefused, ProtocolError.
        """
        answer = self.ask_for(query, parse_quantity)
        if not math.isclose(answer, expected, rel_tol=0.01, abs_tol=1e-12):
            raise SettingRefused(
                f"{self.name}: {what} is {answer:g} after setting {expected:g}; "
                "choose a value the meter has"
            )
        return answer

    def expect_function(self, quantity: str) -> None:
        """Verify the function in effect: ``voltage`` or ``current``, DC. Raises SettingRefused."""
        answer = self.ask("FUNC?").strip('"').upper()
        if answer not in DC_FUNCTIONS[quantity]:
            raise SettingRefused(
                f"{self.name}: measures {answer} after setting DC {quantity}; "
                "did somebody touch the front panel?"
            )
