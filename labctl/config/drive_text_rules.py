"""What the texts of a drive in a rig may be, before they reach fio, a command line or a shell.

fio 3.13 to 3.41 ends a value of a job file at ``;`` and ``#``, drops blanks and control characters
around it, replaces ``${NAME}``, ``$pagesize``, ``$mb_memory`` and ``$ncpus`` (and passes what is
around these to a shell with ``bc``), takes ``\\`` before ``:`` away, and begins another option at a
line break (its init.c, options.c and parse.c). No target is written into a job since
docs/decisions/0016-what-fio-opens.md; a text that two programs read differently is refused still.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

_FORBIDDEN = ';#$\\"'
_MOST_BYTES = 4095
"""PATH_MAX of linux/limits.h, without the zero at the end."""
_HOST = r"(?:[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?|\[[0-9A-Fa-f:.]+\])"
_NBD = re.compile(
    rf"nbd://{_HOST}(?::(?P<port>[0-9]{{1,5}}))?(?:/[A-Za-z0-9._~/-]*)?"
    r"|nbd\+unix:///[A-Za-z0-9._~/-]*\?socket=/[A-Za-z0-9._~/@:,=-]+"
)
"""Nothing that is encoded (``%20``, ``+``): fio's library and labctl may decode it differently."""


def checked_path(path: str) -> str:
    """``path``, of a device or a file. Raises ValueError with what is allowed.

    It may be relative; see :func:`is_absolute`.
    """
    spoilt = next((mark for mark in path if mark in _FORBIDDEN or not mark.isprintable()), None)
    if spoilt is not None:
        raise ValueError(
            f"must be an absolute path without control characters, odd blanks or any of "
            f"{' '.join(_FORBIDDEN)}; it has {spoilt!a}"
        )
    if path != path.strip():
        raise ValueError("must be an absolute path without blanks around it")
    if len(path.encode()) > _MOST_BYTES:
        raise ValueError(f"must be an absolute path of at most {_MOST_BYTES} bytes")
    return path


def _absolute_drive_path(path: str) -> str:
    if checked_path(path) and not path.startswith("/"):
        raise ValueError("must be an absolute path (it begins with /)")
    return path


def _one_folder(path: str) -> str:
    if ":" in _absolute_drive_path(path):
        raise ValueError("must be the absolute path of one folder, without ':'")
    return path


def _one_line_drive_text(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be one line without control characters or odd blanks")
    return text


AbsolutePath = Annotated[str, AfterValidator(_absolute_drive_path)]
OneFolder = Annotated[str, AfterValidator(_one_folder)]
"""It is put before PATH."""
Line = Annotated[str, AfterValidator(_one_line_drive_text)]


def checked_nbd_address(address: str) -> str:
    """``address``, by the grammar of its standard (NetworkBlockDevice, doc/uri.md), as far as
    nothing in it is encoded. Raises ValueError with what is allowed."""
    found = _NBD.fullmatch(address)
    if found is None or not 0 < int(found["port"] or 1) <= 65535:
        raise ValueError(
            "must look like nbd://HOST:PORT, nbd://HOST:PORT/EXPORT or "
            "nbd+unix:///EXPORT?socket=PATH, with PATH absolute and of letters, digits and "
            ". _ ~ / @ : , = - alone"
        )
    return address
