"""The sinks of a rig, as its file or the site file configures them, and how each is made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from labctl.errors import ConfigurationError, Mistake
from labctl.installed import Extra, need
from labctl.sinks.influxdb.settings import InfluxSettings, cursor_name, influx_settings
from labctl.sinks.mqtt.settings import MqttSettings, mqtt_settings
from labctl.sinks.sink import ReportLine

if TYPE_CHECKING:
    from labctl.sinks.sink import Sink


SinkFactory = Callable[[Path, ReportLine], "Sink"]
"""Makes a sink for a run, in the event loop that will use it."""


def influx_sink(
    settings: InfluxSettings,
    *,
    to: str | None = None,
    full_rate: bool = False,
    from_start: bool = False,
) -> SinkFactory:
    """Makes the sink for an InfluxDB. Raises MissingPart when its client is not installed."""
    need(Extra.INFLUX)

    def make(run: Path, report_line: ReportLine) -> Sink:
        from labctl.sinks.influxdb.sink import InfluxSink

        return InfluxSink(
            run,
            cursor_name(settings, to, full_rate),
            settings,
            report_line,
            full_rate=full_rate,
            from_start=from_start,
        )

    return make


def mqtt_sink(settings: MqttSettings, *, live: bool, from_start: bool = False) -> SinkFactory:
    """Makes the sink for an MQTT broker; ``live``: beside a run that is on.

    Raises MissingPart when its client is not installed.
    """
    need(Extra.MQTT)

    def make(run: Path, report_line: ReportLine) -> Sink:
        from labctl.sinks.mqtt.sink import MqttSink

        return MqttSink(run, settings, report_line, live=live, from_start=from_start)

    return make


def configured_sinks(rig_text: str, rig_name: str) -> list[SinkFactory]:
    """The sinks that a rig, or the site file, names for its runs while they are on.

    Raises ConfigurationError with every mistake, MissingPart.
    """
    influx, mqtt, mistakes = None, None, dict[Mistake, None]()
    try:
        influx = influx_settings(rig_text, rig_name)
    except ConfigurationError as error:
        mistakes |= dict.fromkeys(error.mistakes)
    try:
        mqtt = mqtt_settings(rig_text, rig_name)
    except ConfigurationError as error:
        mistakes |= dict.fromkeys(error.mistakes)
    if mistakes:
        raise ConfigurationError(tuple(mistakes))
    configured = ((influx, Extra.INFLUX), (mqtt, Extra.MQTT))
    need(*(extra for settings, extra in configured if settings is not None))
    sinks = [] if influx is None else [influx_sink(influx)]
    return sinks if mqtt is None else [*sinks, mqtt_sink(mqtt, live=True)]
