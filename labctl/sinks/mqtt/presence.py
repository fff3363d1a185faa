"""A rig at a broker while no run is on: online as long as its daemon lives, with its heartbeats.

What a run says comes from its own :class:`~labctl.sinks.mqtt.sink.MqttSink`, beside this one.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from labctl.sinks.mqtt.connection import MqttPublisher, ReconnectPace
from labctl.sinks.mqtt.messages import RigMessages
from labctl.sinks.mqtt.settings import MqttSettings
from labctl.sinks.schema import Point


class MqttPresence:
    """Stands behind a rig's availability. Entered and used in one event loop; never raises."""

    def __init__(
        self,
        settings: MqttSettings,
        rig: str,
        tell: Callable[[str], None],
        pace: ReconnectPace | None = None,
    ) -> None:
        """``tell`` gets a sentence when trouble begins and when it ends."""
        self._messages = RigMessages(settings.prefix, {"rig": rig})
        self._publisher = MqttPublisher(
            settings, tell, availability=self._messages.availability, pace=pace
        )

    async def __aenter__(self) -> MqttPresence:
        """Begin to connect; and go on for ever."""
        self._publisher.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Say that nobody is there any more."""
        await self._publisher.stop()

    def beat(self, point: Point) -> None:
        """A sign of life: a point of ``rig``. Only the newest is ever kept."""
        self._publisher.show(self._messages.heartbeat(point))

    @property
    def trouble(self) -> str:
        """What is wrong now, in words, or empty."""
        return self._publisher.trouble
