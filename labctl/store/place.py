"""A store that is open: its objects by key, read, listed, and written once.

An object is never changed: :meth:`Place.put_if_absent` writes a key that is not there yet, in one
step, and whatever is there already stays. So two machines may write to one store at a time. Only
what can be made again, tables of many runs, is ever removed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from labctl.errors import StoreError
from labctl.store.address import StoreAddress
from labctl.store.threads import mapped

AT_ONCE = 32
"""Requests of :func:`get_many` at a time: 10,000 small objects in seconds, not minutes."""


class NoSuchObject(StoreError):
    """The store can be read, and has nothing under that key."""


class DamagedObject(StoreError):
    """The store can be read, and what it has under a key is not what it says that it is."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object of a store as its listing has it: ``key`` is relative to the store's address."""

    key: str
    size: int
    """Bytes."""
    etag: str
    """Another one when the object is another: what a cache of it goes by."""
    written_s: float = 0.0
    """When, in seconds since 1970, by the clock of the server."""


class Place(Protocol):
    """An open store. Keys are relative to its address, with slashes and none at the ends.

    Every method raises StoreError where the store cannot be reached, refuses, or has no room.
    """

    @property
    def address(self) -> StoreAddress:
        """What it was opened by."""

    def list(self, folder: str = "") -> Iterator[StoredObject]:
        """The objects below a folder of keys, at any depth, sorted by key; all, if empty."""

    def head(self, key: str) -> StoredObject | None:
        """Size and etag of an object; None where there is none."""

    def get(self, key: str, begin: int = 0, end: int | None = None) -> bytes:
        """The bytes of an object, or those from ``begin`` up to ``end`` (exclusive; None: its end).
        Raises NoSuchObject where there is none."""

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Write an object, in one step, where there is none: True. Where there is one: False, and
        it stays as it is."""

    def remove(self, key: str) -> None:
        """Remove an object, where there is one."""

    def md5_of(self, found: StoredObject) -> str | None:
        """The MD5 (hex) that the server computed of what it stored; None where it does not tell.
        Some etags look like one and are none: another MD5 than expected says nothing."""


def get_many(place: Place, keys: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Whole small objects, many at a time, in the order of ``keys``, without those that are not
    there. Raises StoreError."""

    def got(key: str) -> tuple[str, bytes] | None:
        try:
            return key, place.get(key)
        except NoSuchObject:
            return None

    yield from filter(None, mapped(got, list(keys), AT_ONCE))


def holds(place: Place, key: str, data: bytes) -> bool:
    """Whether the store has these bytes under a key: by the MD5 that the server computed of them,
    or, where that is another, by reading them again. Raises StoreError."""
    found = place.head(key)
    if found is None or found.size != len(data):
        return False
    if place.md5_of(found) == hashlib.md5(data, usedforsecurity=False).hexdigest():
        return True
    return place.get(key) == data
