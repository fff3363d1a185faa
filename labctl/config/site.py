"""The file of a site: servers, tokens and certificates that its rigs share."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from labctl.errors import ConfigurationError, Mistake
from labctl.store.address import FORMS, StoreAddress, is_address, parse_address
from labctl.toml_reading import parse_toml

SITE_VARIABLE = "LABCTL_SITE"
_RUNS, _STORE = "runs", "store"

Section = dict[str, Any]
"""The keys of a section, as they stand in a file."""


def site_file() -> Path:
    """The file that says what holds for every rig of a site; it need not exist."""
    configured = os.environ.get(SITE_VARIABLE)
    if configured:
        return Path(configured)
    home = Path(os.environ.get("XDG_CONFIG_HOME", "~/.config")).expanduser()
    return home / "labctl" / "site.toml"


def configured(section: str, rig_text: str, rig_name: str) -> tuple[list[Section], str]:
    """A section in the site file, and in the rig: to be joined. The second value is the file that
    the last word stands in. Raises ConfigurationError."""
    of_rig = section_in(section, rig_text, rig_name)
    return [of_site(section), of_rig], rig_name if of_rig else str(site_file())


def of_site(section: str) -> Section:
    """A section of the site file. Raises ConfigurationError."""
    site = site_file()
    return section_in(section, _read(site), str(site))


def joined_sections(layers: Sequence[Section], server_of: Callable[[Section], object]) -> Section:
    """Each layer over those before it, key by key.

    ``server_of``: the server that a section names. Files (``token_file``, ``ca_file`` …) are for
    the server that was named where they stand: a layer that in the end is about another server
    has its files left out, so that no secret goes to an address that it was not configured with.
    """
    both: Section = {}
    servers = []
    for layer in layers:
        both = {**both, **layer}
        servers.append(server_of(both))
    return {
        key: value
        for layer, server in zip(layers, servers, strict=True)
        for key, value in layer.items()
        if server == servers[-1] or not key.endswith("_file")
    }


def site_runs() -> Path | None:
    """The directory of runs that the site file names (``[runs] directory``); None: none.

    Raises ConfigurationError.
    """
    section = of_site(_RUNS)
    directory = section.get("directory")
    if not section:
        return None
    if set(section) != {"directory"} or not isinstance(directory, str) or not directory:
        allowed = 'must have directory = "/a/path", and nothing else'
        raise ConfigurationError([Mistake(str(site_file()), _RUNS, None, allowed)])
    path = Path(directory).expanduser()
    if not path.is_absolute():
        allowed = "must be an absolute path: the daemon is started elsewhere"
        raise ConfigurationError([Mistake(str(site_file()), "runs.directory", directory, allowed)])
    return path


def site_store() -> StoreAddress | None:
    """The store that runs are pushed into at their end (``[store] address``); None: none.

    Only the site file names one: what a rig says may come from elsewhere. Raises
    ConfigurationError.
    """
    section = of_site(_STORE)
    if not section:
        return None
    address = section.get("address")
    if set(section) != {"address"} or not isinstance(address, str) or not is_address(address):
        allowed = f'must have address = "…" ({FORMS}), and nothing else'
        raise ConfigurationError([Mistake(str(site_file()), _STORE, None, allowed)])
    return parse_address(address, str(site_file()))


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except FileNotFoundError:
        if os.environ.get(SITE_VARIABLE):
            raise ConfigurationError(
                [Mistake(SITE_VARIABLE, "file", str(file), "there is no such file")]
            ) from None
        return ""
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ConfigurationError([Mistake(str(file), "file", None, why)]) from error


def section_in(name: str, text: str, file: str) -> Section:
    """A table of a TOML text by its dotted name; empty where there is none.

    Raises ConfigurationError, which names ``file``.
    """
    found: Any = parse_toml(text, file)
    for key in name.split("."):
        found = found.get(key, {}) if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping):
        raise ConfigurationError([Mistake(file, name, found, "must be a table")])
    return dict(found)
