"""A store in an S3 bucket, by obstore: any server that knows ``If-None-Match`` on PUT."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from labctl.errors import StoreError
from labctl.installed import Extra, need
from labctl.printable import printable
from labctl.store.address import StoreAddress
from labctl.store.credentials import S3Access, s3_access
from labctl.store.place import NoSuchObject, StoredObject
from labctl.store.threads import interruptible

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta
    from obstore.store import S3Config, S3Store

T = TypeVar("T")

REQUEST_S = 300
"""A request that takes longer is given up: an object of 32 MiB needs 0.9 Mbit/s."""
RETRIES = 5
RETRY_WITHIN_S = 60
"""A request that the server fails (5xx) or whose connection breaks is sent again so long."""

_MD5 = re.compile(r'"?([0-9a-f]{32})"?')
_CODE = re.compile(r"<Code>(\w+)</Code>")
_STATUS = re.compile(r"status code: (\d{3} [A-Za-z ]+)")
_WRONG_KEY = (
    "SignatureDoesNotMatch",
    "InvalidAccessKeyId",
    "InvalidToken",
    "ExpiredToken",
    "XAdminUserNotFound",  # versitygw
)
_FULL = ("QuotaExceeded", "XMinioStorageFull", "NoSpaceLeftOnDevice", "InsufficientStorage")


class _ThereAlready(StoreError):
    """There is an object under the key that was to be written."""


def open_bucket(address: StoreAddress) -> S3Place:
    """A bucket with the credentials of the environment or a profile; it is not asked yet.

    Raises MissingPart, ConfigurationError.
    """
    need(Extra.STORE)
    from obstore.store import S3Store

    access = s3_access(os.environ)
    config: S3Config = {"region": access.region}
    if access.endpoint:
        config["endpoint"] = access.endpoint
    if access.access_key_id:
        config["access_key_id"] = access.access_key_id
        config["secret_access_key"] = access.secret_access_key
    if access.session_token:
        config["session_token"] = access.session_token
    store = S3Store(
        address.bucket,
        config=config,
        client_options={
            "allow_http": access.endpoint.startswith("http://"),
            "timeout": timedelta(seconds=REQUEST_S),
        },
        retry_config={
            "max_retries": RETRIES,
            "retry_timeout": timedelta(seconds=RETRY_WITHIN_S),
        },
    )
    return S3Place(address, access, store)


class S3Place:
    """A bucket as a store (:class:`labctl.store.place.Place`)."""

    def __init__(self, address: StoreAddress, access: S3Access, store: S3Store) -> None:
        """See :func:`open_bucket`."""
        self.address = address
        self.access = access
        """Endpoint, region and credentials: what another engine that reads the bucket needs."""
        self._store = store
        self._before = f"{address.prefix}/" if address.prefix else ""

    def list(self, folder: str = "") -> Iterator[StoredObject]:
        """The objects below a folder of keys, sorted by key."""
        batches = self._store.list(f"{self._before}{folder}" or None)
        while batch := self._ask(folder, lambda: next(batches, None)):
            for one in batch:
                yield self._found(one)

    def head(self, key: str) -> StoredObject | None:
        """Size and etag of an object; None where there is none."""
        try:
            found = self._ask(key, lambda: self._store.head(f"{self._before}{key}"))
        except NoSuchObject:
            return None
        return self._found(found)

    def _found(self, about: ObjectMeta) -> StoredObject:
        key = about["path"].removeprefix(self._before)
        etag = about["e_tag"] or ""
        return StoredObject(key, about["size"], etag, about["last_modified"].timestamp())

    def get(self, key: str, begin: int = 0, end: int | None = None) -> bytes:
        """The bytes of an object, or a range of them."""
        path = f"{self._before}{key}"
        if end is not None:
            return self._ask(key, lambda: bytes(self._store.get_range(path, start=begin, end=end)))
        range_of: GetOptions = {"range": {"offset": begin}} if begin else {}
        return self._ask(key, lambda: bytes(self._store.get(path, options=range_of).bytes()))

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Write an object where there is none, in one step."""
        path = f"{self._before}{key}"
        try:
            self._ask(key, lambda: self._store.put(path, data, mode="create", use_multipart=False))
        except _ThereAlready:
            return False
        return True

    def remove(self, key: str) -> None:
        """Remove an object, where there is one."""
        self._ask(key, lambda: self._store.delete(f"{self._before}{key}"))

    def md5_of(self, found: StoredObject) -> str | None:
        """The MD5 that an etag is of an object that was put whole and is not encrypted by a key
        management service: 32 hexadecimal digits."""
        digits = _MD5.fullmatch(found.etag)
        return digits.group(1) if digits else None

    def _ask(self, key: str, request: Callable[[], T]) -> T:
        """What a request gives; whatever obstore raises as a StoreError of one line."""
        from obstore.exceptions import AlreadyExistsError, BaseError

        try:
            return interruptible(request)
        except AlreadyExistsError as error:
            raise _ThereAlready(self.address.of(key)) from error
        except (BaseError, OSError, ValueError) as error:
            word = self._word(printable(key), error)
            if word:
                raise StoreError(word) from error
            where = self.address.of(printable(key))
            raise NoSuchObject(f"{where}: there is no such object") from error

    def _word(self, key: str, error: Exception) -> str:
        """What is wrong, in a line; empty where there is just no such object."""
        from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

        text = str(error).partition("Debug source:")[0]
        code = match.group(1) if (match := _CODE.search(text)) else ""
        status = match.group(1).strip() if (match := _STATUS.search(text)) else ""
        place = self.address.of(key) if key else str(self.address)
        server = self.access.endpoint or f"Amazon S3 ({self.access.region})"
        if code == "NoSuchBucket":
            return f"{self.address}: {server} has no bucket {self.address.bucket}: make it first"
        if "169.254." in text or "credential" in text.lower():
            return (
                f"{self.address}: no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                "or AWS_PROFILE"
            )
        if code in _WRONG_KEY or isinstance(error, UnauthenticatedError):
            return f"{place}: {server} does not take these credentials ({code or status})"
        if isinstance(error, PermissionDeniedError):
            return f"{place}: {server} refuses it to these credentials ({code or status})"
        if code in _FULL or status.startswith("507"):
            return f"{place}: the store is full ({code or status})"
        if isinstance(error, FileNotFoundError):
            return ""
        if status:
            return f"{place}: {server} answers {status}{f' ({code})' if code else ''}"
        return f"{place}: {server} cannot be reached, or does not answer"
