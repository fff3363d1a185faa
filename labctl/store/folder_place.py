"""A store in a folder: a file an object. It needs no library, and stands a loss of power."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from labctl.errors import StoreError
from labctl.printable import printable
from labctl.record.atomic_write import sync_folder
from labctl.store.address import StoreAddress
from labctl.store.place import NoSuchObject, StoredObject

_FRESH = ".labctl-"
"""Begins the name of a file that is being written; no key has a part that begins with a dot."""
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK)


class FolderPlace:
    """A folder as a store (:class:`labctl.store.place.Place`)."""

    def __init__(self, address: StoreAddress, root: Path) -> None:
        """Open a folder that is there. Raises StoreError."""
        self.address = address
        self._root = root
        if not root.is_dir():
            raise StoreError(
                f"{address}: there is no such folder: is its disk mounted? (mkdir makes a new one)"
            )

    def list(self, folder: str = "") -> Iterator[StoredObject]:
        """The objects below a folder of keys, sorted by key."""
        found = []
        for where, folders, names in os.walk(self._path(folder) if folder else self._root):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in names:
                file = Path(where, name)
                if not name.startswith(".") and not file.is_symlink():
                    found.append(file)
        for key, file in sorted((str(file.relative_to(self._root)), file) for file in found):
            one = self._stat(key, file)
            if one is not None:
                yield one

    def head(self, key: str) -> StoredObject | None:
        """Size and etag of an object; None where there is none."""
        return self._stat(key, self._path(key))

    def _stat(self, key: str, file: Path) -> StoredObject | None:
        try:
            stat = file.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._failed(key, error) from error
        etag = f"{stat.st_mtime_ns:x}-{stat.st_size:x}"
        return StoredObject(key, stat.st_size, etag, stat.st_mtime)

    def get(self, key: str, begin: int = 0, end: int | None = None) -> bytes:
        """The bytes of an object, or a range of them."""
        try:
            with self._path(key).open("rb") as file:
                file.seek(begin)
                return file.read() if end is None else file.read(max(end - begin, 0))
        except OSError as error:
            raise self._failed(key, error) from error

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Write an object where there is none, in one step, and wait until the disk has it."""
        target = self._path(key)
        fresh = target.with_name(f"{_FRESH}{secrets.token_hex(8)}")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                with fresh.open("xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.link(fresh, target)  # unlike a rename it fails where there is one already
            finally:
                fresh.unlink(missing_ok=True)
            sync_folder(target.parent)
        except FileExistsError:
            return False
        except OSError as error:
            raise self._failed(key, error) from error
        return True

    def remove(self, key: str) -> None:
        """Remove an object, where there is one."""
        try:
            self._path(key).unlink(missing_ok=True)
        except OSError as error:
            raise self._failed(key, error) from error

    def md5_of(self, found: StoredObject) -> str | None:
        """None: nobody computed one; what is stored is read again."""
        return None

    def _path(self, key: str) -> Path:
        parts = key.split("/")
        if any(not part or part.startswith(".") for part in parts):
            raise StoreError(f"{self.address}: {printable(repr(key))} is no key of an object")
        return self._root.joinpath(*parts)

    def _failed(self, key: str, error: OSError) -> StoreError:
        if error.errno in _NO_LINKS and error.filename2:
            why = "its file system has no hard links, by which nothing is overwritten"
        elif isinstance(error, FileNotFoundError | NotADirectoryError):
            return NoSuchObject(f"{self.address.of(printable(key))}: there is no such object")
        else:
            why = error.strerror or str(error)
        return StoreError(f"{self.address.of(printable(key))}: {why}")
