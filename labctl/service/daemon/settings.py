"""Settings of the daemon: the ``[service]`` section of the site file.

Secrets are elsewhere: the addresses of notices, which hold tokens, come from ``LABCTL_NOTIFY``
or from the file that ``notify_file`` names.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from labctl.config.site import of_site, site_file
from labctl.record.phase import parse_size
from labctl.service.daemon.notices import NoticeKind
from labctl.toml_reading import validated

NOTIFY_VARIABLE = "LABCTL_NOTIFY"
_SECTION = "service"
_MOST_ADDRESSES = 50
_TIME_OF_DAY = re.compile(r"([01]\d|2[0-3]):[0-5]\d")


def _time_of_day(text: str) -> str:
    if not _TIME_OF_DAY.fullmatch(text):
        raise ValueError("must be a time of day, such as '07:30'")
    return text


class ServiceSettings(BaseModel):
    """The service of a site."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    notify: tuple[NoticeKind, ...] = tuple(NoticeKind)
    """Kinds of notices that are sent, where there are addresses."""
    notify_file: str | None = None
    """A file with one address a line."""
    morning: Annotated[str, AfterValidator(_time_of_day)] | None = None
    """When the morning summary is sent, local time."""
    commands: bool = False
    """Take commands over MQTT."""
    large_commands: bool = False
    """Such commands may queue what takes longer or writes more than is usual."""
    idle: bool = True
    """Record the meters while no job runs."""
    disk_budget: Annotated[int, BeforeValidator(parse_size), Field(gt=0)] | None = None
    """Runs may take this many bytes before a warning."""

    def addresses(self) -> tuple[str, ...]:
        """The addresses of notices, read at each call. Raises OSError, ValueError (the file)."""
        text = os.environ.get(NOTIFY_VARIABLE, "")
        if self.notify_file is not None:
            text += "\n" + Path(self.notify_file).expanduser().read_text("utf-8")
        lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
        addresses = dict.fromkeys(address for line in lines for address in line.split())
        return tuple(addresses)[:_MOST_ADDRESSES]


def service_settings() -> ServiceSettings:
    """The settings of this site. Raises ConfigurationError with every mistake."""
    return validated(ServiceSettings, of_site(_SECTION), str(site_file()), _SECTION)
