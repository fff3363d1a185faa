"""An MQTT broker's address and login: settings that the sink and the instrument share."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

PLAIN_PORT = 1883
TLS_PORT = 8883


class BrokerSettings(BaseModel):
    """The keys of a broker in a rig."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: Annotated[str, Field(min_length=1)]
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """Default: 1883, or 8883 with TLS."""
    user: str = ""
    password_file: str | None = None
    tls: bool = False
    ca_file: str | None = None
    """Certificates that sign the broker's; default: the authorities that the system trusts."""
    certificate_file: str | None = None
    key_file: str | None = None
    """The client's own certificate, for brokers that ask for one, and its key."""

    @field_validator("host")
    @classmethod
    def _host_alone(cls, host: str) -> str:
        if any(mark in host for mark in "/@ ") or host.count(":") == 1:
            raise ValueError("must be a name or address alone; port and user are keys")
        return host

    @model_validator(mode="after")
    def _belong_together(self) -> Self:
        files = (self.ca_file, self.certificate_file, self.key_file)
        if any(files) and not self.tls:
            raise ValueError("ca_file, certificate_file and key_file need tls = true")
        if self.key_file and not self.certificate_file:
            raise ValueError("key_file needs certificate_file")
        if self.password_file and not self.user:
            raise ValueError("password_file needs user")
        return self

    @property
    def port_used(self) -> int:
        """The port to connect to."""
        return self.port or (TLS_PORT if self.tls else PLAIN_PORT)

    @property
    def address(self) -> str:
        """Host and port, for messages."""
        return f"{self.host}:{self.port_used}"

    def password_in_file(self) -> str:
        """The present content of ``password_file``; empty without one.

        Raises OSError or UnicodeDecodeError.
        """
        if self.password_file is None:
            return ""
        return Path(self.password_file).expanduser().read_text("utf-8").strip()

    def tls_context(self) -> ssl.SSLContext | None:
        """Verifies the broker and shows the client's certificate; None without TLS.

        Raises OSError (a file is missing or is no certificate).
        """
        if not self.tls:
            return None
        context = ssl.create_default_context(cafile=_broker_file_path(self.ca_file))
        if self.certificate_file is not None:
            context.load_cert_chain(
                Path(self.certificate_file).expanduser(), _broker_file_path(self.key_file)
            )
        return context


def _broker_file_path(path: str | None) -> Path | None:
    return None if path is None else Path(path).expanduser()
