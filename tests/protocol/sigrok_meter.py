"""A meter on a pseudo-terminal for the real sigrok-cli, which sends frames when it is told to.

libserialport wants modem lines, which a pseudo-terminal lacks: a small library answers for them.
It also wants a port to be called ``/dev/NAME`` and to have ``/sys/class/tty/NAME``: a name that
climbs out of both folders leads to the same file. A USB cable without a serial port is what hidapi
says of it: another small library answers in its place, from the same pseudo-terminal.
"""

from __future__ import annotations

import contextlib
import os
import pty
import select
import shutil
import subprocess
import termios
import threading
import time
import tty
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from instruments.drivers.sigrok import Sigrok, SigrokSettings
from instruments.reading import Status

SOURCES = [Path(__file__).with_name(name) for name in ("modem_lines.c", "hid_cable.c")]


def sigrok_on_pty(folder: Path) -> Path:
    """A ``sigrok-cli`` for pseudo-terminals in ``folder``. Skips the test where it cannot be."""
    compiler, real = shutil.which("cc") or shutil.which("gcc"), shutil.which("sigrok-cli")
    if compiler is None or real is None:
        pytest.skip("needs sigrok-cli and a C compiler (apt install sigrok-cli gcc)")
    library = folder / "modem_lines.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, *SOURCES, "-ldl"], check=True)
    program = folder / "sigrok-cli"
    program.write_text(
        f"#!/bin/sh\nexport MODEM_LINES={folder}/modem_lines HID_CABLE={folder}/cable\n"
        f'LD_PRELOAD={library} exec {real} "$@"\n'
    )
    program.chmod(0o755)
    return program


class FedMeter:
    """labctl's driver on the real sigrok-cli, and the frames that the meter sends.

    ``asked``: it sends when a letter has come; ``copies``: how often it sends each frame;
    ``cable``: it hangs on a USB cable without a serial port.
    """

    def __init__(
        self, program: Path, folder: Path, *, copies: int = 1, asked: bool = False,
        cable: bool = False, **rig: Any,
    ) -> None:  # fmt: skip
        self._copies, self._asked = copies, asked
        self._meter, self._port = pty.openpty()
        tty.setraw(self._port)
        link = program.parent / "cable" if cable else folder / "port"
        link.unlink(missing_ok=True)
        link.symlink_to(os.ttyname(self._port))
        values = {"quantity": "voltage", "accuracy_pct_of_reading": 0.5, "interval_s": 0.02}
        conn = "hid/ch9325" if cable else f"/dev/../../..{link}"
        values |= {"conn": conn, "command": str(program)} | rig
        settings = SigrokSettings.model_validate(values)
        self.instrument = Sigrok("meter", settings, time.monotonic_ns)
        self._lines = program.parent / "modem_lines"
        self._made: list[tuple[float | Status, str]] = []

    def send(self, frame: bytes) -> None:
        """One frame, as often as this meter sends each."""
        if self._asked:
            if not select.select([self._meter], [], [], 1.0)[0]:
                return
            os.read(self._meter, 1000)
        os.write(self._meter, frame * self._copies)

    def start(self, frame: bytes, last: bytes) -> None:
        """Open the instrument while the meter sends ``frame``, then read until ``last``, of which
        it makes something else, has come through."""
        opened = threading.Event()

        def sends() -> None:
            while not opened.wait(0.05):
                self.send(frame)

        sender = threading.Thread(target=sends)
        sender.start()
        try:
            self.instrument.open()
            self.instrument.start()
        finally:
            opened.set()
            sender.join()
        of_first = self._next()
        self.send(last)
        deadline = time.monotonic() + 60
        while not self._has_come() or self._next() == of_first:
            # What has gathered waits in libsigrok, which takes one frame each time that it reads.
            os.write(self._meter, b"\0")
            assert time.monotonic() < deadline, "the last frame does not come through"

    def reading(self, frame: bytes) -> tuple[float | Status, str]:
        """What the instrument makes of this frame: a value, or a status and its words."""
        self.send(frame)
        return self._next()

    def _next(self) -> tuple[float | Status, str]:
        deadline = time.monotonic() + 20
        while not self._has_come() and time.monotonic() < deadline:
            pass
        return self._made.pop(0)

    def _has_come(self) -> bool:
        """Whether there is a reading, after half a second at most."""
        if not self._made:
            batch = self.instrument.read()
            made = [(one.t_ns, one.status, one.detail) for one in batch.statuses if one.count]
            for block in batch.blocks:
                times, values = block.t_ns.tolist(), block.values.tolist()
                made += [(t, value, "") for t, value in zip(times, values, strict=True)]
            self._made += [
                (what, words)
                for _, what, words in sorted(made, key=lambda one: one[0])
                if what is not Status.DUPLICATE
            ]
        return bool(self._made)

    @property
    def baud(self) -> int:
        """What the port was set to, as termios counts it."""
        return int(termios.tcgetattr(self._port)[4])

    @property
    def modem_lines(self) -> str:
        """What sigrok-cli set last: ``dtr=1 rts=0``."""
        return self._lines.read_text()

    def close(self) -> None:
        """Close the instrument and the port."""
        self.instrument.close()
        os.close(self._meter)
        os.close(self._port)


@contextlib.contextmanager
def fed_meter(program: Path, folder: Path, **meter: Any) -> Iterator[FedMeter]:
    """A meter that is closed in the end."""
    meter_at_work = FedMeter(program, folder, **meter)
    try:
        yield meter_at_work
    finally:
        meter_at_work.close()
