"""labctl as it is installed here: its version, and its optional parts.

Nothing of it is written twice: the version, and the libraries that an extra stands for, come from
the metadata of the installed distribution, hence from ``pyproject.toml``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution, entry_points

from packaging.requirements import Requirement

from instruments.install_command import install_command
from labctl.errors import LabctlError, MissingPart

COMMAND, ENTRY_POINT = "labctl", "labctl.cli.main:main"
"""What makes a distribution this one. On a package index the name is another project's."""


class Extra(StrEnum):
    """The extras that commands need."""

    INFLUX = "influx"
    JLS = "jls"
    JOULESCOPE = "joulescope"
    MQTT = "mqtt"
    NOTIFY = "notify"
    PARQUET = "parquet"
    QUERY = "query"
    STORE = "store"


_USES = {
    Extra.INFLUX: "sending to InfluxDB",
    Extra.JLS: "reading a Joulescope's JLS file",
    Extra.JOULESCOPE: "reading a Joulescope",
    Extra.MQTT: "talking to an MQTT broker",
    Extra.NOTIFY: "sending notices",
    Extra.PARQUET: "reading CSV and writing Parquet",
    Extra.QUERY: "asking with SQL",
    Extra.STORE: "a store in an S3 bucket",
}


def need(*extras: Extra) -> None:
    """Whoever imports a library of an extra asks this first.

    Raises MissingPart where one is not installed, with the command that adds all that is missing.
    """
    missing = {extra: found for extra in extras if (found := missing_of(extra))}
    if not missing:
        return
    needs = ", ".join(f"{_USES[extra]} needs the extra {extra}" for extra in missing)
    wanted = dict.fromkeys(text for found in missing.values() for text in found)
    raise MissingPart(f"{needs}, not installed here; add it: {install_command(*wanted)}")


def missing_of(extra: Extra) -> tuple[str, ...]:
    """The requirements (PEP 508) of an extra; empty where all of them are installed."""
    wanted = list(_required_by(_own(), (extra,)))
    if all(_is_met(one) for one in wanted):
        return ()
    return tuple(f"{one.name}{_in_brackets(one.extras)}{one.specifier}" for one in wanted)


@cache
def labctl_version() -> str:
    """The version of labctl. Raises LabctlError where it is not installed."""
    return _own().version


@cache
def _own() -> Distribution:
    for point in entry_points(group="console_scripts", name=COMMAND):
        if point.value == ENTRY_POINT and point.dist is not None:
            return point.dist
    raise LabctlError("labctl is not installed here: run pip install . in its checkout")


def _required_by(found: Distribution, extras: Iterable[str]) -> Iterator[Requirement]:
    """What a distribution requires for these extras alone."""
    for requirement in map(Requirement, found.requires or ()):
        marker = requirement.marker
        if marker is None or marker.evaluate({"extra": ""}):
            continue  # required without any extra
        if any(marker.evaluate({"extra": extra}) for extra in extras):
            yield requirement


def _is_met(requirement: Requirement) -> bool:
    try:
        found = distribution(requirement.name)
    except PackageNotFoundError:
        return False
    return requirement.specifier.contains(found.version, prereleases=True) and all(
        _is_met(part) for part in _required_by(found, requirement.extras)
    )


def _in_brackets(extras: Iterable[str]) -> str:
    names = ",".join(sorted(extras))
    return f"[{names}]" if names else ""
