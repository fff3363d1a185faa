"""What is said of meters, and how soon, where one cannot even be opened."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from labctl.config.find_rig import EXAMPLES
from labctl.config.rig import Rig, load_rig
from labctl.record.timebase import Timebase
from labctl.service.doctor import meters

released = threading.Event()


def never_opened(*_: Any) -> None:
    released.wait(60)


@pytest.mark.long
def test_a_meter_that_never_opened_has_no_panel_to_let_go_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor is anybody listened to where nobody reads: a silent host took doctor over 15 s."""
    rig = load_rig(EXAMPLES / "nvme-adapter.toml")
    made = rig.create_instruments(Timebase().now_ns)
    for one in made.values():
        monkeypatch.setattr(type(one), "open", never_opened)
    monkeypatch.setattr(Rig, "create_instruments", lambda *_: made)
    monkeypatch.setattr(meters, "CONNECT_WITHIN_S", 0.1)
    listened: list[float] = []
    stop = SimpleNamespace(wait=listened.append)
    try:
        checks = meters.listen(rig, Timebase(), stop)  # type: ignore[arg-type]
    finally:
        released.set()
    assert {check.subject for check in checks} >= set(made)
    assert not [check for check in checks if "let go" in check.text]
    assert listened == []
