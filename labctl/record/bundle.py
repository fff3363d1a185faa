"""An audit bundle: everything raw of a run in one archive, with checksums and versions.

A bundle is a ZIP file (it keeps a CRC of each member and can be read anywhere)::

    <run>/run.json journal.jsonl channels/… fio/…     the record, byte for byte
    <run>/summary.json                                what was derived from it when it was bundled
    MANIFEST.json                                     format, versions, size and SHA-256 of each

Files that can be made again from these (charts, page, CSV) are not in it. Every member has the
same date, and they are sorted: bundling a run twice with one labctl gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import zipfile
import zlib
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import IO, Any

from labctl.errors import JournalError
from labctl.installed import labctl_version
from labctl.printable import printable
from labctl.record.atomic_write import replacing
from labctl.record.bounded_read import read_small
from labctl.record.json_values import UNREADABLE, parse_json, printable_texts
from labctl.record.layout import raw_files
from labctl.record.reader import RunRecord

BUNDLE_FORMAT = 1
MANIFEST = "MANIFEST.json"
SUMMARY_FILE = "summary.json"
SUFFIX = ".labctl.zip"

LARGEST_MEMBER = 1 << 40
"""A member that claims to be larger is no channel of any run: refused before it is unpacked."""

MOST_SUMMARY_BYTES = 1 << 28
MOST_MANIFEST_BYTES = 1 << 26
"""Some 300,000 files: what a bundle says of itself may be compressed a thousand times."""

_CHUNK = 1 << 20
_DATE = (1980, 1, 1, 0, 0, 0)
_PACKAGES = ("numpy", "altair", "pydantic")


_NO_ARCHIVE = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError, LookupError)
"""What reading an archive raises that is damaged, encrypted, or of another kind than ours."""


@dataclass(frozen=True, slots=True)
class Member:
    """A file of a bundle as its manifest has it."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a bundle holds and what made it."""

    run_id: str
    members: dict[str, Member]
    versions: dict[str, str] = field(default_factory=dict)
    format: int = BUNDLE_FORMAT

    def to_json(self) -> str:
        """As it stands in the bundle."""
        data = {
            "format": self.format,
            "run_id": self.run_id,
            "versions": self.versions,
            "members": {
                name: {"size": member.size, "sha256": member.sha256}
                for name, member in sorted(self.members.items())
            },
        }
        return json.dumps(data, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """The manifest of a bundle. Raises JournalError when it is none, or is newer."""
        try:
            data = json.loads(text)
            if data["format"] > BUNDLE_FORMAT:
                raise JournalError(
                    f"the bundle has format {data['format']}, this labctl reads up to "
                    f"{BUNDLE_FORMAT}: update labctl"
                )
            members = {
                str(name): Member(int(one["size"]), str(one["sha256"]))
                for name, one in data["members"].items()
            }
            run_id, versions = printable_texts([str(data["run_id"]), dict(data["versions"])])
            return cls(run_id, members, versions, data["format"])
        except UNREADABLE as error:
            raise JournalError(f"{MANIFEST} cannot be read: {error}") from error


def write_bundle(record: RunRecord, summary_json: str, target: Path) -> Manifest:
    """Write the bundle of a run, in one step: a reader never sees half of it.

    Raises JournalError when it cannot be written.
    """
    members: dict[str, Member] = {}
    folder = PurePosixPath(record.path.resolve().name)
    try:
        with (
            replacing(target) as fresh,
            zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED, allowZip64=True) as archive,
        ):
            for file in raw_files(record.path):
                name = str(folder / PurePosixPath(file.relative_to(record.path)))
                with file.open("rb") as stream:
                    members[name] = _add(archive, name, stream)
            name = str(folder / SUMMARY_FILE)
            members[name] = _add_text(archive, name, summary_json)
            manifest = Manifest(record.header.run_id, members, _bundle_versions())
            _add_text(archive, MANIFEST, manifest.to_json())
    except UnicodeEncodeError as error:
        name = printable(str(error.object))
        raise JournalError(f"cannot write {target}: rename {name}, it is no UTF-8") from error
    except OSError as error:
        raise JournalError(f"cannot write {target}: {error.strerror or error}") from error
    return manifest


def _info(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _DATE)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    return info


def _add(archive: zipfile.ZipFile, name: str, source: IO[bytes]) -> Member:
    with archive.open(_info(name), "w", force_zip64=True) as member:
        return _copied_bundle_member(source, member)


def _copied_bundle_member(source: IO[bytes], target: IO[bytes]) -> Member:
    """Copy a stream; its size and digest."""
    digest, size = hashlib.sha256(), 0
    while chunk := source.read(_CHUNK):
        target.write(chunk)
        digest.update(chunk)
        size += len(chunk)
    return Member(size, digest.hexdigest())


def _add_text(archive: zipfile.ZipFile, name: str, text: str) -> Member:
    data = text.encode()
    archive.writestr(_info(name), data)
    return Member(len(data), hashlib.sha256(data).hexdigest())


def _bundle_versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "labctl": labctl_version()}
    return found | {name: version(name) for name in _PACKAGES}


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A bundle that was unpacked and checked. ``problems``: a line for each file that differs."""

    run: Path
    manifest: Manifest
    summary: dict[str, Any] | None
    problems: tuple[str, ...]


def unpack_bundle(bundle: Path, into: Path) -> Unpacked:
    """Unpack a bundle into an empty folder and check every file against the manifest.

    Raises JournalError when it is no bundle. Names that lead out of the folder are refused.
    """
    problems: list[str] = []
    try:
        with zipfile.ZipFile(bundle) as archive:
            manifest = Manifest.from_json(_text(archive, MANIFEST))
            infos = archive.infolist()
            names = [info.filename for info in infos if info.filename != MANIFEST]
            run = into / _folder(manifest)
            run.mkdir()
            problems += [
                f"{name}: is in the bundle twice"
                for name in dict.fromkeys(names)
                if names.count(name) > 1
            ]
            problems += [
                f"{name}: is not in the manifest"
                for name in dict.fromkeys(names)
                if name not in manifest.members
            ]
            for name, member in manifest.members.items():
                if name not in names:
                    problems.append(f"{name}: is missing")
                    continue
                problem = _unpack(archive, name, member, into)
                if problem:
                    problems.append(f"{name}: {problem}")
    except FileNotFoundError as error:
        raise JournalError(f"{bundle}: there is no such file") from error
    except (OSError, *_NO_ARCHIVE) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or error
        raise JournalError(f"{bundle} is no bundle of labctl, or a torn one: {why}") from error
    return Unpacked(run, manifest, _bundle_summary(run / SUMMARY_FILE), tuple(problems))


def _text(archive: zipfile.ZipFile, name: str) -> str:
    try:
        with archive.open(name) as member:
            data = member.read(MOST_MANIFEST_BYTES + 1)
        if len(data) > MOST_MANIFEST_BYTES:
            raise JournalError(f"{name} is larger than {MOST_MANIFEST_BYTES} bytes")
        return data.decode()
    except KeyError as error:
        raise JournalError(f"there is no {MANIFEST} in it: not a bundle of labctl") from error
    except UnicodeDecodeError as error:
        raise JournalError(f"{MANIFEST} cannot be read: {error}") from error


def _folder(manifest: Manifest) -> str:
    """The one folder that everything is in. Raises JournalError for names that lead elsewhere."""
    folders = set()
    for name in manifest.members:
        parts = PurePosixPath(name).parts
        if len(parts) < 2 or name.startswith("/") or ".." in parts or "\\" in name:
            raise JournalError(f"the manifest names {name!r}: no file of a run")
        folders.add(parts[0])
    if len(folders) != 1:
        raise JournalError(f"a bundle holds one run, the manifest names {sorted(folders)}")
    return folders.pop()


def _unpack(archive: zipfile.ZipFile, name: str, member: Member, into: Path) -> str:
    """Write one file; what is wrong with it, or nothing."""
    target = into / name
    target.parent.mkdir(parents=True, exist_ok=True)
    if member.size > LARGEST_MEMBER or archive.getinfo(name).file_size > LARGEST_MEMBER:
        raise JournalError(f"{name} would be larger than {LARGEST_MEMBER} bytes: not unpacked")
    try:
        with archive.open(name) as source, target.open("wb") as file:
            found = _copied_bundle_member(source, file)
    except _NO_ARCHIVE as error:
        return f"cannot be unpacked ({error})"
    if found.size != member.size:
        return f"has {found.size} bytes, the manifest says {member.size}"
    return "" if found == member else "its SHA-256 is not the manifest's"


def _bundle_summary(file: Path) -> dict[str, Any] | None:
    try:
        data = parse_json(read_small(file, MOST_SUMMARY_BYTES))
    except (OSError, *UNREADABLE):
        return None
    return data if isinstance(data, dict) else None


def enough_room(bundle: Path, into: Path) -> None:
    """Raises JournalError when what the bundle holds does not fit where it is unpacked."""
    try:
        with zipfile.ZipFile(bundle) as archive:
            needed = sum(info.file_size for info in archive.infolist())
    except (OSError, *_NO_ARCHIVE):
        return
    free = shutil.disk_usage(into).free
    if needed > free:
        raise JournalError(
            f"the bundle holds {needed / 1e9:.1f} GB, {into} has room for {free / 1e9:.1f} GB: "
            "set TMPDIR to a larger disk"
        )
