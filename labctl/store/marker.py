"""The object that says that a place is a store of labctl, and of which format."""

from __future__ import annotations

import json

from labctl.errors import StoreError
from labctl.record.json_values import UNREADABLE
from labctl.store.place import NoSuchObject, Place

FORMAT = 1
"""Of a store and of an entry; a reader refuses what is newer than itself."""
MARKER = "labctl-store.json"


def check_store(place: Place) -> None:
    """Raises StoreError where there is no store of labctl, or one of a newer labctl."""
    try:
        _check_marker(place, place.get(MARKER))
    except NoSuchObject as error:
        raise StoreError(
            f"{place.address}: no store of labctl is here (there is no {MARKER}): the first "
            f"labctl push RUN {place.address} makes one"
        ) from error


def make_store(place: Place) -> None:
    """Make a store where there is none. Raises StoreError where one of a newer labctl is."""
    # asked by its content: unlike a HEAD it is answered with what is wrong with key or bucket
    data = (json.dumps({"store": "labctl", "format": FORMAT}) + "\n").encode()
    try:
        found = place.get(MARKER)
    except NoSuchObject:
        found = data if place.put_if_absent(MARKER, data) else place.get(MARKER)
    _check_marker(place, found)


def _check_marker(place: Place, data: bytes) -> None:
    name = place.address.of(MARKER)
    try:
        found = json.loads(data)
        is_ours, format_of = found["store"] == "labctl", int(found["format"])
    except UNREADABLE as error:
        raise StoreError(f"{name} is not what labctl wrote: is this another's folder?") from error
    if not is_ours:
        raise StoreError(f"{name} is not what labctl wrote: is this another's folder?")
    if format_of > FORMAT:
        raise StoreError(
            f"{name}: the store is of a newer labctl (format {format_of}, this one reads up to "
            f"{FORMAT}): update labctl"
        )
