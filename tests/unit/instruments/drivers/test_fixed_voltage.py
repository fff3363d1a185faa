from __future__ import annotations

import pytest
from pydantic import ValidationError

from instruments import drivers
from instruments.drivers import fixed_voltage
from instruments.drivers.fixed_voltage import SOURCE

SETTINGS = {"volts": 3.3, "tolerance_pct": 3, "interval_s": 0.5}


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.ns = 10**9

    def __call__(self) -> int:
        return self.ns


def test_its_readings_are_the_volts_without_a_gap_and_their_limit_is_the_tolerance() -> None:
    clock = Clock()
    meter = drivers.create("v33", "fixed_voltage", SETTINGS, clock)
    (channel,) = meter.channels
    assert channel.accuracy.limit(3.3) == pytest.approx(0.099)
    assert channel.accuracy.source == SOURCE
    identity = meter.open()
    assert (identity.maker, identity.model) == ("", "3.3 V ±3 %, not measured")
    meter.start()
    assert meter.read().blocks[0].t_ns.tolist() == [10**9]
    clock.ns += 1_700_000_000  # as if nobody had asked for a while
    (block,) = meter.read().blocks
    assert block.t_ns.tolist() == [1_500_000_000, 2_000_000_000, 2_500_000_000]
    assert block.values.tolist() == [3.3, 3.3, 3.3]
    meter.close()


def test_a_long_interval_is_waited_for_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run must be able to end between two of them."""
    clock, naps = Clock(), []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        clock.ns += round(seconds * 1e9)

    monkeypatch.setattr(fixed_voltage.time, "sleep", sleep)
    meter = drivers.create("v33", "fixed_voltage", {**SETTINGS, "interval_s": 10}, clock)
    meter.start()
    times = [t for _ in range(21) for block in meter.read().blocks for t in block.t_ns.tolist()]
    assert times == [10**9, 11 * 10**9]
    assert max(naps) <= 0.5


@pytest.mark.parametrize("key", ["volts", "tolerance_pct"])
def test_neither_volts_nor_tolerance_are_guessed(key: str) -> None:
    with pytest.raises(ValidationError, match=key):
        drivers.create("v", "fixed_voltage", {**SETTINGS, key: 0}, Clock())
    with pytest.raises(ValidationError, match=key):
        left = {name: value for name, value in SETTINGS.items() if name != key}
        drivers.create("v", "fixed_voltage", left, Clock())
