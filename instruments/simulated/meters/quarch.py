"""A simulated QIS, Quarch's instrument server, with one power module of two rails.

Built from the ``help.txt`` that comes with QIS 1.55.1, from what QIS 1.55.1 itself answers without
a module, and from the vendor's application notes; nothing here is taken from the driver. What the
help does not say is marked "assumed".
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from instruments.simulated.meter_kit.faults import Fault
from instruments.simulated.meter_kit.parts import MeterParts
from instruments.simulated.meter_kit.probe import Errors, Probe
from instruments.simulated.meter_kit.tcp_server import TcpServer

_VERSION: Final = "v1.55.1"
_GREETING: Final = f"$t {_VERSION} Mon Nov 23 16:27:23 UTC 2026\r\n"
_PART: Final = "usb::QTL1999-02-"
"""Its number is that of the port: a rig's lock on one module is none on another."""
_NAME: Final = "HD Programmable Power Module +Triggering"
_SAMPLE_NS: Final = 4_000
_AVERAGING: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
_MOST_STRIPES: Final = 3072
_HOLDS: Final = 8_388_608
_LATENCY_NS: Final = 4_000_000
"""From the end of a stripe until QIS has it (assumed): USB is read in blocks."""
_EVERY_S: Final = 0.005
_NOISE_VOLTS, _NOISE_AMPS = 0.5e-3, 20e-6
_RAILS: Final = ("3V3", "12V")
"""As the examples of the help have them: the lower voltage first."""
_CUT: Final = 7
# the help has "Stopped: User" alone; how QIS names the others is not confirmed
_STOPPED_BY: Final = {"user": "Stopped: User", "overrun": "Stopped: buffer overrun"}
Rows = NDArray[np.int64]


class QuarchServer(TcpServer):
    """Answers the commands and streams; the module runs on a clock of its own."""

    possible_faults = frozenset(
        {
            Fault.SILENT,
            Fault.DISCONNECT,
            Fault.NONSENSE,
            Fault.LOST_BYTES,
            Fault.MEMORY_OVERFLOW,
            Fault.STUCK,
            Fault.UNPLUGGED,
        }
    )

    def __init__(self, parts: MeterParts) -> None:
        super().__init__(parts)
        self._clock = parts.new_clock()
        self._rng = parts.new_rng("noise")
        self._numbers = parts.config.point == "frame_numbers"
        self._probes: list[tuple[Probe, Errors]] = []
        for rail in _RAILS:
            for quantity in ("voltage", "current"):
                errors = parts.errors(parts.limits(quantity), f"{rail} {quantity}")
                self._probes.append((Probe(parts.state, f"{rail}.{quantity}"), errors))
        self._holds = parts.config.memory or _HOLDS
        self._module = _PART
        self._average = 1
        self._is_on = True
        self._state = "Stopped"
        self._has_streamed = False
        self._begin = 0.0
        self._made = 0
        self._buffer: deque[Rows] = deque()
        self._buffered = 0
        self._task: asyncio.Task[None] | None = None

    def address(self, port: int) -> dict[str, str]:
        """Where QIS listens, and the module."""
        self._module = f"{_PART}{port}"
        return {"server": f"127.0.0.1:{port}", "resource": self._module}

    async def stop(self) -> None:
        """Stop listening, and the stream: QIS has ended."""
        await super().stop()
        self._end("Stopped")
        self._buffer.clear()
        self._buffered = 0
        self._has_streamed = False

    async def begin_fault(self, fault: Fault, seconds: float) -> None:
        """Begin a fault; MEMORY_OVERFLOW fills the buffer at once."""
        if fault is Fault.MEMORY_OVERFLOW:
            self._end(_STOPPED_BY["overrun"])
            return
        if fault is Fault.UNPLUGGED:
            self._end("Stopped: module lost")
        await super().begin_fault(fault, seconds)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Greet, and answer each line."""
        default = ""
        with contextlib.suppress(ConnectionError, ValueError):
            writer.write(_GREETING.encode())
            while line := await reader.readline():
                words = line.decode("latin-1").split()
                if words[:1] and words[0].lower() in ("$default", "$def") and len(words) > 1:
                    default = words[1]
                    answer = "OK"
                else:
                    answer = self._answer(words, default)
                if self.faults.has(Fault.SILENT):
                    continue
                data = answer.encode() + b"\r\n>" if words else b">"
                if self.faults.has(Fault.NONSENSE):
                    data = data[: len(data) // 2] + b"\xff\xfe" + data[len(data) // 2 :]
                if self.faults.has(Fault.LOST_BYTES) and len(data) > 3 * _CUT:
                    data = data[: len(data) // 2] + data[len(data) // 2 + _CUT :]
                writer.write(data)
                await writer.drain()

    def _answer(self, words: Sequence[str], default: str) -> str:
        command = " ".join(words).lower()
        module = default
        if re.match(r"(usb|tcp|rest)::", command):
            module, _, command = command.partition(" ")
        elif command.startswith("$"):
            return self._internal(command)
        if not module:
            return "No Target Device Specified"
        if module.lower() != self._module.lower() or self.faults.has(Fault.UNPLUGGED):
            kind, _, name = module.partition("::")
            return f"Device {kind.upper()}::{name} Invalid or No Longer Valid"
        return self._of_module(re.sub(r"\brecord\b", "rec", command).replace(":", " "))

    def _internal(self, command: str) -> str:
        plugged = not self.faults.has(Fault.UNPLUGGED)
        if command == "$version":
            return _VERSION
        if command == "$list":
            return f"1) {self._module}\r\n" if plugged else "No Devices Found\r\n"
        if command == "$list details":
            line = f"1) {self._module} Port:9 Stream:Yes Name:{_NAME}\r\n"
            return line if plugged else "No Devices Found\r\n"
        if command == "$scan":
            return "Started network scan"
        if command.startswith("$scan tcp::"):
            return f"No Quarch Device Found at: {command.partition('::')[2]}"
        return "No Target Device Specified"

    def _of_module(self, command: str) -> str:
        simple = {
            "hello?": _NAME,
            "*idn?": f"Family: Quarch\r\nName: {_NAME}\r\nPart#: QTL1999-02\r\nFW: 5.016",
            "run power?": "ON" if self._is_on else "OFF",
            "stream?": f"{self._state}\r\nStripes Buffered: {self._buffered} of {self._holds}",
        }
        if command in simple:
            return simple[command]
        if command == "stream text header":
            return self._header() if self._has_streamed else "Header Not Available"
        if match := re.fullmatch(r"stream text (all|\d+)", command):
            wanted = _MOST_STRIPES if match[1] == "all" else min(int(match[1]), _MOST_STRIPES)
            return self._stripes(wanted)
        if command in ("run power up", "run power down"):
            self._is_on = command.endswith("up")
            return "OK"
        if command == "rec stream":
            return self._start_stream()
        if command == "rec stop":
            if self._state == "Running":
                self._end(_STOPPED_BY["user"])
            return "OK"
        if match := re.fullmatch(r"rec averaging (\d+)(k?)", command):
            average = max(int(match[1]) * (1024 if match[2] else 1), 1)
            if average not in _AVERAGING:
                return "FAIL: 0x32 -Parameter not recognised"  # assumed
            self._average = average
            return "OK"
        if re.fullmatch(r"rec trigger mode manual|stream mode (header v3|resample off)", command):
            return "OK"
        return "FAIL: 0x31 -Command not recognised"  # assumed

    @property
    def _period_ns(self) -> int:
        return _SAMPLE_NS * self._average

    def _start_stream(self) -> str:
        if self._state == "Running":
            return "FAIL: Stream already running"  # assumed
        self._buffer.clear()
        self._buffered = self._made = 0
        self._begin = self._clock.now()
        self._state = "Running"
        self._has_streamed = True
        self._task = asyncio.create_task(self._measure(), name=f"{self.name} stream")
        return "OK"

    def _end(self, state: str) -> None:
        if self._task is not None:
            self._task.cancel()
        self._state = state

    async def _measure(self) -> None:
        """Put the stripes that are due into the buffer."""
        while True:
            await asyncio.sleep(_EVERY_S)
            due = int((self._clock.now() - _LATENCY_NS - self._begin) // self._period_ns)
            if due <= self._made:
                continue
            number = np.arange(self._made, due)
            rows = np.empty((len(number), 1 + 2 * len(_RAILS)), np.int64)
            rows[:, 0] = number * (self._period_ns // 1000)
            rows[:, 1:] = (
                _simulated_quarch_pattern(number) if self._numbers else await self._measured(number)
            )
            self._made = due
            if self.faults.has(Fault.STUCK):  # nothing comes from the module
                continue
            self._buffer.append(rows)
            self._buffered += len(rows)
            if self._buffered > self._holds:
                self._end(_STOPPED_BY["overrun"])
                return

    async def _measured(self, number: Rows) -> Rows:
        rate = 1 + self._clock.drift_ppm * 1e-6
        first_ns = self._clock.to_host(self._begin)
        begin_ns = first_ns + np.rint(number * self._period_ns / rate).astype(np.int64)
        end_ns = begin_ns + round(self._period_ns / rate)
        columns: list[NDArray[np.float64]] = []
        for probe, errors in self._probes:
            true = await probe.means(begin_ns, end_ns) * self._is_on
            is_volts = len(columns) % 2 == 0
            shown = true * (1 + errors.gain) + errors.offset
            noise = _NOISE_VOLTS if is_volts else _NOISE_AMPS
            shown = shown + self._rng.normal(0.0, noise, len(shown))
            columns.append(np.rint(shown * (1e3 if is_volts else 1e6)))
        return np.column_stack(columns).astype(np.int64)

    def _stripes(self, wanted: int) -> str:
        taken: list[Any] = []
        missing = wanted
        while missing and self._buffer:
            rows = self._buffer.popleft()
            if len(rows) > missing:
                self._buffer.appendleft(rows[missing:])
                rows = rows[:missing]
            taken.append(rows)
            missing -= len(rows)
        self._buffered -= wanted - missing
        if not taken:
            return "eof"
        rows = np.concatenate(taken)
        line = " ".join(["%d"] * rows.shape[1])
        text = ("\r\n".join([line] * len(rows))) % tuple(rows.ravel().tolist())
        return f"{text}\r\neof" if missing else text

    def _header(self) -> str:
        period = f"{self._period_ns // 1000}"
        channels = [("Status", "status", "NA", 0, 0)]
        for place, (rail, group) in enumerate(
            [(rail, group) for rail in _RAILS for group in ("voltage", "current")], start=1
        ):
            unit, most = ("mV", 16384) if group == "voltage" else ("uA", 16777216)
            channels.append((rail, group, unit, most, place))
        lines = [
            '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>',
            "<header>",
            "\t<version>V3</version>",
            f"\t<devicePeriod>{period}us</devicePeriod>",
            f"\t<mainPeriod>{period}uS</mainPeriod>",
            "\t<legacyVersion>5</legacyVersion>",
            "\t<legacyFormat>15</legacyFormat>",
            f"\t<legacyAverage>{self._average.bit_length() - 1}</legacyAverage>",
            "\t<channels>",
        ]
        for name, group, unit, most, place in channels:
            lines += [
                "\t\t<channel>",
                f"\t\t\t<name>{name}</name>",
                f"\t\t\t<group>{group}</group>",
                f"\t\t\t<units>{unit}</units>",
                f"\t\t\t<maxTValue>{most}</maxTValue>",
                f"\t\t\t<dataPosition>{place}</dataPosition>",
                "\t\t</channel>",
            ]
        return "\r\n".join([*lines, "\t</channels>", "</header>"])


def _simulated_quarch_pattern(number: Rows) -> Rows:
    """A test pattern: the lower volts count the stripes in thousands, the lower amps these."""
    columns = (number % 1000, number // 1000 % 1_000_000, number % 7, number % 11)
    return np.column_stack(columns)
