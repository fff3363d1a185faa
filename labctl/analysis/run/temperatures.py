"""The temperatures of a phase."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from labctl.analysis.phase_result import TemperatureResult
from labctl.analysis.readings.channel_series import ChannelSeries
from labctl.analysis.readings.phase_spans import PhaseSpan
from labctl.record.reader import RunRecord


def temperatures_of(
    record: RunRecord, channels: Mapping[str, ChannelSeries], span: PhaseSpan
) -> dict[str, TemperatureResult]:
    """Each sensor in a phase, °C."""
    found = {}
    for sensor, name in record.header.temperatures.items():
        if name not in channels:
            continue
        _, celsius = channels[name].between(span.begin_ns, span.end_ns)
        celsius = celsius[np.isfinite(celsius)]
        if len(celsius):
            found[sensor] = TemperatureResult(
                start=float(celsius[0]), max=float(celsius.max()), end=float(celsius[-1])
            )
    return found
