"""Which arrivals become clock pairs."""

from __future__ import annotations

from instruments.driver_kit.arrival_pairs import ArrivalPairs
from instruments.reading import Accuracy, Channel, Clock, ClockPair, Quantity

MS = 1_000_000
CHANNELS = [
    Channel(name, quantity, Clock.DEVICE, 1e-3, 1e-3, Accuracy(0.01, 0.0, "the test"))
    for name, quantity in (("voltage", Quantity.VOLTAGE), ("current", Quantity.CURRENT))
]


def pair(device_ms: int, arrived_ms: int) -> tuple[ClockPair, ...]:
    return tuple(
        ClockPair(channel.name, device_ms * MS, arrived_ms * MS, 0) for channel in CHANNELS
    )


def test_each_half_second_the_one_with_the_least_delay() -> None:
    pairs = ArrivalPairs(CHANNELS)
    found = [
        pairs.add(device_ms * MS, arrived_ms * MS)
        for device_ms, arrived_ms in ((0, 109), (100, 203), (300, 402), (500, 610), (1100, 1211))
    ]
    # The last one is the slowest of all: what came in another half second does not count.
    assert found == [pair(0, 109), (), (), pair(300, 402), pair(1100, 1211)]


def test_a_new_epoch_begins_with_a_pair_of_its_own() -> None:
    pairs = ArrivalPairs(CHANNELS)
    pairs.add(0, 100 * MS)
    assert pairs.add(110 * MS, 111 * MS) == ()
    pairs.restart()
    assert pairs.add(1_000 * MS, 200 * MS + 1_000 * MS) == pair(1_000, 1_200)
