"""Where a run is sent: the ``[sinks.influxdb]`` section of a rig or of the site file.

The site file (``$LABCTL_SITE``, else ``~/.config/labctl/site.toml``) is for every rig; a
rig's own section replaces it key by key. Secrets are in neither: the token comes from
``LABCTL_INFLUX_TOKEN`` or from the file that ``token_file`` names.

The rig texts are those of rigs of this machine, never of a record: a record may come from
anywhere, and secrets would be sent to the server that it names (docs/decisions/0017).
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Annotated
from urllib.parse import parse_qs, urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

from labctl.config.site import Section, configured, joined_sections
from labctl.errors import ConfigurationError, Mistake
from labctl.record.timebase import NS_PER_S
from labctl.toml_reading import validated

TOKEN_VARIABLE = "LABCTL_INFLUX_TOKEN"
INFLUXDB = "influxdb"
_SECTION = f"sinks.{INFLUXDB}"
_PORTS = {"http": 80, "https": 443}


class InfluxSettings(BaseModel):
    """An InfluxDB: 2.x, or 1.8 and later (``bucket`` is the database, ``org`` stays empty, the
    token is ``user:password``)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str
    org: str = ""
    bucket: Annotated[str, Field(min_length=1)]
    token_file: str | None = None
    bin_s: Annotated[float, Field(ge=0.1, le=60)] = 1.0
    ca_file: str | None = None

    @field_validator("url")
    @classmethod
    def _plain_address(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("must be an address such as http://influxdb.example:8086")
        if parts.username or parts.password:
            raise ValueError(
                f"must not hold a password: give the token in {TOKEN_VARIABLE} or token_file"
            )
        if parts.query or parts.fragment:
            raise ValueError("must be the server's address alone; org and bucket are keys")
        return url.rstrip("/")

    @property
    def destination(self) -> str:
        """Server, organisation and bucket for a person, without any secret."""
        org = f"{self.org}/" if self.org else ""
        return f"{self.url} ({org}{self.bucket})"

    @property
    def bin_ns(self) -> int:
        """The width of the bins, ns."""
        return round(self.bin_s * NS_PER_S)

    def token(self) -> str:
        """The token as it is now; empty when there is none. Raises OSError (token file)."""
        if self.token_file is not None:
            return Path(self.token_file).expanduser().read_text("utf-8").strip()
        return os.environ.get(TOKEN_VARIABLE, "").strip()


def influx_settings(rig_text: str, rig_name: str, to: str | None = None) -> InfluxSettings | None:
    """The InfluxDB of a rig of this machine; None when neither it nor the site file names one.

    ``to`` is an address that replaces the configured one; it may carry ``?org=…&bucket=…``.
    Raises ConfigurationError with every mistake.
    """
    layers, source = configured(_SECTION, rig_text, rig_name)
    if to:
        layers, source = [*layers, _of_address(to)], "--to"
    values = joined_sections(layers, _server_of)
    if not values:
        return None
    return validated(InfluxSettings, values, source, _SECTION)


def _server_of(values: Section) -> object:
    """Scheme, host and port of the ``url``."""
    url = values.get("url")
    try:
        parts = urlsplit(str(url))
        return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return url  # no request can be sent to it


def cursor_name(settings: InfluxSettings, to: str | None, full_rate: bool) -> str:
    """The name of the cursor's file: one for the configured server, one each for others."""
    name = INFLUXDB
    if to:
        name += "-" + hashlib.sha256(settings.destination.encode()).hexdigest()[:8]
    return f"{name}-full" if full_rate else name


def _of_address(to: str) -> dict[str, str]:
    parts = urlsplit(to)
    asked = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    unknown = sorted(set(asked) - {"org", "bucket"})
    if unknown:
        allowed = "only org and bucket may follow the ?"  # its value may be a secret
        raise ConfigurationError([Mistake("--to", unknown[0], None, allowed)])
    return {"url": parts._replace(query="").geturl(), **asked}
