"""The address of a store: ``s3://bucket/prefix``, ``file:///folder``, or a plain folder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from labctl.errors import ConfigurationError, Mistake

_S3, _FILE = "s3", "file"
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_PREFIX_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+=@ -]*")
FORMS = "s3://bucket/prefix, file:///folder"


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """Where a store is: a bucket and a prefix, or a folder. As text it is what a person types."""

    bucket: str = ""
    """Of S3; empty where the store is a folder."""
    prefix: str = ""
    """Before every key in the bucket, without slashes at its ends; may be empty."""
    folder: Path | None = None
    """None where the store is a bucket."""

    def __str__(self) -> str:
        if self.folder is not None:
            return self.folder.as_uri()
        return f"{_S3}://{self.bucket}" + (f"/{self.prefix}" if self.prefix else "")

    def of(self, key: str) -> str:
        """The address of an object of the store, for people."""
        return f"{self}/{key}"


def is_address(text: str) -> bool:
    """Whether a word is an address rather than the name of a run or a folder."""
    return "://" in text


def parse_address(text: str, where: str = "command line") -> StoreAddress:
    """The store that a text names; a text without ``://`` is a folder.

    ``where``: the file or place that it stands in, for the message. Raises ConfigurationError, also
    where it holds credentials or a server: these come from the environment or a profile.
    """
    if not is_address(text):
        return StoreAddress(folder=Path(text).expanduser().absolute())

    def mistake(allowed: str) -> ConfigurationError:
        return ConfigurationError([Mistake(where, "store", text, allowed)])

    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise mistake(f"must be {FORMS}: {error}") from error
    if parts.scheme not in (_S3, _FILE):
        raise mistake(f"must be {FORMS}")
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise mistake(
            "must have neither credentials nor options: they come from the environment "
            "(AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL …) or a profile (AWS_PROFILE)"
        )
    if parts.scheme == _FILE:
        path = Path(unquote(parts.path))
        if parts.netloc not in ("", "localhost") or not path.is_absolute():
            raise mistake("must be a folder of this machine with three slashes: file:///folder")
        return StoreAddress(folder=path)
    if not _BUCKET.fullmatch(parts.netloc):
        raise mistake("must name a bucket: s3://bucket/prefix")
    prefix = parts.path.strip("/")
    if any(not _PREFIX_PART.fullmatch(part) for part in prefix.split("/") if prefix):
        raise mistake("must have a prefix of letters, digits and _ . + - = @, parted by slashes")
    return StoreAddress(parts.netloc, prefix)
