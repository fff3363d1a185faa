"""Opens a meter's file for what it is, and says of a file that is no recording what it is."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import IO, Any, cast

from labctl.importing.mapping import not_there
from labctl.printable import printable

GZIP = b"\x1f\x8b"
PARQUET = b"PAR1"
JLS = b"jlsfmt\r\n \n \x1a  \xb2\x1c"
JLS_1 = b"\xd3tagfmt \r\n \n  \x1a\x1c"

_NO_TABLE = (
    (JLS_1, "is a JLS file of version 1: save it again with the Joulescope UI of today"),
    (b"PK\x03\x04", "is a workbook (.xlsx, .ods) or a zip: save the sheet of readings as CSV, or "
                    "unpack it"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "is an old Excel workbook: save the sheet of readings "
                                          "as CSV"),
    (b"SQLite format 3\0", "is a database of SQLite: export the table of readings as CSV"),
    (b"%PDF", "is a PDF: a recording is needed, as CSV"),
    (b"BZh", "is packed with bzip2: unpack it (bunzip2)"),
    (b"\xfd7zXZ\0", "is packed with xz: unpack it (unxz)"),
    (b"\x28\xb5\x2f\xfd", "is packed with zstd: unpack it (unzstd)"),
    (b"7z\xbc\xaf\x27\x1c", "is packed with 7-Zip: unpack it"),
)  # fmt: skip
"""Files that people give by mistake, by their first bytes (file(1) knows the same ones)."""


UNREADABLE = (OSError, EOFError, zlib.error)
"""What reading a file raises that is packed wrongly, or cut off."""


def why(error: Exception) -> str:
    """In words what was raised."""
    if isinstance(error, EOFError):
        return "is cut off: it was packed with gzip, and ends before that does"
    if isinstance(error, gzip.BadGzipFile | zlib.error):
        return f"cannot be unpacked with gzip: {printable(str(error))}"
    return getattr(error, "strerror", None) or printable(str(error))


def first_bytes(file: Path) -> bytes:
    """Its first bytes. Raises OSError."""
    with file.open("rb") as stream:
        return stream.read(32)


def opened(file: Path) -> IO[bytes]:
    """Its bytes, unpacked where it is packed with gzip.

    Raises OSError, and ConfigurationError where it is known to be no table.
    """
    start = first_bytes(file)
    for magic, words in _NO_TABLE:
        if start.startswith(magic):
            raise not_there(file, "file", None, words)
    if start.startswith(GZIP):
        return cast(IO[bytes], gzip.open(file, "rb"))
    return file.open("rb")


def position(stream: IO[Any]) -> int:
    """How far the file itself was read, packed as it may be."""
    under = getattr(stream, "buffer", stream)
    place: int = getattr(under, "fileobj", under).tell()
    return place
