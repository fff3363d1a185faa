"""The page on security names every text that somebody may give."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from instruments import drivers
from labctl.config.plan import Plan
from labctl.config.rig_file import RigFile
from labctl.service.daemon.mqtt_commands import Add
from labctl.service.daemon.settings import ServiceSettings
from labctl.service.queue.job import Job
from labctl.service.queue.new_jobs import _Matrix
from labctl.sinks.influxdb.settings import InfluxSettings
from labctl.sinks.mqtt.settings import MqttSettings

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
ROWS = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("|")]
NAMED = {name for row in ROWS for name in re.findall(r"`([a-z_.]+)`", row)}


def kinds(hint: Any) -> Iterator[Any]:
    """The texts and models that a field may hold; the words of a fixed list are no text."""
    if hint in (str, Any) or (isinstance(hint, type) and issubclass(hint, BaseModel)):
        yield hint
    elif typing.get_origin(hint) is not Literal:
        for part in typing.get_args(hint):
            yield from kinds(part)


def texts(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The dotted key of every text of a model."""
    hints = typing.get_type_hints(model)
    for name in model.model_fields:
        for kind in kinds(hints[name]):
            if kind in (str, Any):
                yield prefix + name
            else:
                yield from texts(kind, f"{prefix}{name}.")


MODELS = (
    *(RigFile, Plan, InfluxSettings, MqttSettings, ServiceSettings, Job, _Matrix, Add),
    *map(drivers.settings_model, drivers.names()),
)


@pytest.mark.parametrize("model", dict.fromkeys(MODELS), ids=lambda model: model.__name__)
def test_every_text_that_somebody_may_give_stands_there(model: type[BaseModel]) -> None:
    found = set(texts(model))
    found = {
        key.replace("drives.", "drive.") if key.startswith("drives.") else key for key in found
    }
    assert found - NAMED == set()


def test_texts_are_found_at_every_depth() -> None:
    assert {"name", "drive.target", "rails.current.channel", "calibration.compare"} <= set(
        texts(RigFile)
    )
    assert {"sweeps.name", "sweeps.replay"} <= set(texts(Plan))


def test_every_test_that_it_names_is_there() -> None:
    named = set(re.findall(r"`(?:tests/)?([\w/]+/test_\w+\.py)`", PAGE))
    assert len(named) > 15
    assert [name for name in named if not (Path(__file__).parents[1] / name).is_file()] == []
