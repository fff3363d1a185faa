"""Opens a store: a bucket, or a folder."""

from __future__ import annotations

from labctl.store.address import StoreAddress
from labctl.store.folder_place import FolderPlace
from labctl.store.place import Place
from labctl.store.s3_place import open_bucket


def open_place(address: StoreAddress) -> Place:
    """Open a store. Nothing is written, and a bucket is first asked when it is first used.

    Raises StoreError for a folder that is not there, MissingPart where the extra is not installed,
    ConfigurationError for credentials that cannot be used.
    """
    if address.folder is not None:
        return FolderPlace(address, address.folder)
    return open_bucket(address)
