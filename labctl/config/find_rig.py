"""Where rigs are found: by path (``.toml`` may be left out), or by name where rigs are kept; and
the rig of this machine that a record was made with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from labctl.config.rig import Rig, load_rig
from labctl.errors import ConfigurationError, Mistake
from labctl.printable import printable
from labctl.record.reader import RunRecord
from labctl.toml_reading import FOLDER, is_file, is_folder, meant, parse_toml, read_configuration

EXAMPLES = Path(__file__).parents[2] / "rigs" / "examples"


def rig_folders() -> list[Path]:
    """``./rigs``, the folders of ``$LABCTL_RIGS``, ``~/.config/labctl/rigs``."""
    configured = os.environ.get("LABCTL_RIGS", "")
    home = Path(os.environ.get("XDG_CONFIG_HOME", "~/.config")).expanduser()
    folders = [Path(part) for part in configured.split(":") if part]
    return [Path("rigs"), *folders, home / "labctl" / "rigs"]


def example_rigs() -> dict[str, Path]:
    """The rigs that come with labctl, by name: to be copied, since they are nobody's bench."""
    return {path.stem: path for path in sorted(EXAMPLES.glob("*.toml"))}


def rig_files() -> Iterator[Path]:
    """Every rig file in those folders."""
    for folder in rig_folders():
        yield from sorted(folder.glob("*.toml"))


def new_rig_file(name: str) -> Path:
    """Where a new rig of this name goes."""
    return rig_folders()[0] / f"{name}.toml"


def write_new(file: Path, text: str) -> None:
    """Write a rig that a person will go on with. Raises ConfigurationError where one is there."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        allowed = "is there already: choose another name"
        raise ConfigurationError([Mistake(str(file), "file", None, allowed)]) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigurationError([Mistake(str(file), "file", None, reason)]) from error


def rig_file(name_or_file: str) -> Path | None:
    """The file of the rig at a path or of a name; None where there is none."""
    for file in (name_or_file, f"{name_or_file}.toml"):
        if is_file(Path(file)):
            return Path(file)
    return {path.stem: path for path in rig_files()}.get(name_or_file)


def find_rig(name_or_file: str) -> Rig:
    """The rig at a path or of a name. Raises ConfigurationError."""
    if (found := rig_file(name_or_file)) is not None:
        return load_rig(found)
    if is_folder(Path(name_or_file)):
        raise ConfigurationError([Mistake("rig", "name", name_or_file, FOLDER)])
    names = [path.stem for path in rig_files()]
    known = ", ".join(dict.fromkeys(names)) or "none"
    allowed = f"no such file, and no rig of that name where labctl rigs looks ({known})"
    if name_or_file in example_rigs():
        allowed += f"; labctl rigs --copy {name_or_file} makes one of the example"
    else:
        allowed += meant(name_or_file, names) or "; labctl init makes one"
    raise ConfigurationError([Mistake("rig", "name", name_or_file, allowed)])


def rig_of(record: RunRecord) -> Rig | None:
    """The rig of this machine that has the name of a record's; None where there is none.

    The record says no more than the name: it is no path, and no file in the record's own directory
    is a rig of this machine. Of several rigs with the name it is the one whose file is called so,
    which find_rig finds by it. Raises ConfigurationError where there is none such, or where the
    rig has mistakes.
    """
    name, inside = record.header.rig_name, record.path.resolve()
    found = [
        file
        for file in rig_files()
        if not file.resolve().is_relative_to(inside) and _name_in(file) == name
    ]
    called_so = [file for file in found if file.stem == name]
    chosen = called_so[-1:] or list({file.resolve(): file for file in found}.values())
    if len(chosen) > 1:
        files = ", ".join(map(str, chosen))
        allowed = f"is the name of several rigs here ({files}): say which one is meant"
        raise ConfigurationError([Mistake(str(record.path), "rig", printable(name), allowed)])
    return load_rig(chosen[0]) if chosen else None


def _name_in(file: Path) -> object:
    """The name that a rig file gives itself; of one that cannot be read, that of the file."""
    try:
        return parse_toml(read_configuration(file), str(file)).get("name")
    except ConfigurationError:
        return file.stem
