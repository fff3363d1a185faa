"""The broker that a rig's runs are sent to: ``[sinks.mqtt]`` of a rig or of the site file.

The password comes from ``LABCTL_MQTT_PASSWORD`` or from the file that ``password_file`` names.
"""

from __future__ import annotations

import os
from typing import Annotated

from pydantic import Field, field_validator

from instruments.transports.mqtt_broker import PLAIN_PORT, TLS_PORT, BrokerSettings
from labctl.config.site import Section, configured, joined_sections, of_site
from labctl.record.timebase import NS_PER_S
from labctl.toml_reading import validated

PASSWORD_VARIABLE = "LABCTL_MQTT_PASSWORD"
MQTT = "mqtt"
_SECTION = f"sinks.{MQTT}"


class MqttSettings(BrokerSettings):
    """A broker, and how a rig shows itself there."""

    prefix: Annotated[str, Field(min_length=1, max_length=200)] = "labctl"
    """What the topics begin with; may have several levels."""
    bin_s: Annotated[float, Field(ge=0.1, le=60)] = 1.0
    """Live values are means over bins of this width."""
    home_assistant: bool = False
    """Announce the rig's sensors to Home Assistant."""
    home_assistant_prefix: Annotated[str, Field(min_length=1, max_length=200)] = "homeassistant"

    @field_validator("prefix", "home_assistant_prefix")
    @classmethod
    def _plain_levels(cls, prefix: str) -> str:
        if any(mark in prefix for mark in "+#\0") or prefix.startswith("$"):
            raise ValueError("must be a topic without + and #, not beginning with $")
        if "" in prefix.split("/"):
            raise ValueError("must not begin or end with / nor have // in it")
        return prefix

    @property
    def destination(self) -> str:
        """Broker and prefix for a person, without any secret."""
        return f"{self.address} ({self.prefix}/)"

    @property
    def bin_ns(self) -> int:
        """The width of the bins, ns."""
        return round(self.bin_s * NS_PER_S)

    def password(self) -> str:
        """The password as it is now; empty when there is none.

        Raises OSError or UnicodeDecodeError (password file).
        """
        if self.password_file is not None:
            return self.password_in_file()
        return os.environ.get(PASSWORD_VARIABLE, "").strip()


def mqtt_settings(rig_text: str, rig_name: str) -> MqttSettings | None:
    """The broker of a rig of this machine; None when neither it nor the site file names one.

    Raises ConfigurationError with every mistake.
    """
    layers, source = configured(_SECTION, rig_text, rig_name)
    values = joined_sections(layers, _broker_of)
    return validated(MqttSettings, values, source, _SECTION) if values else None


def at_broker(host: str, port: int | None) -> MqttSettings:
    """The site's settings at a broker that a person named. Raises ValueError."""
    site = of_site(_SECTION)
    asked = {"host": host, "port": port}
    return MqttSettings.model_validate(joined_sections([site, asked], _broker_of))


def _broker_of(values: Section) -> object:
    """TLS or not, host and port: secrets are for this broker alone."""
    tls = bool(values.get("tls"))
    port = values.get("port") or (TLS_PORT if tls else PLAIN_PORT)
    return tls, str(values.get("host")).lower(), port
