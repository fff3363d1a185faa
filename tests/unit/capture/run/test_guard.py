"""Limits of a rig: when they trip, what they do, and that each change is told once."""

from __future__ import annotations

import pytest

from labctl.capture.meters.live_values import LiveRail, View
from labctl.capture.run.guard import BLIND_S, HOLDS_S, Guard, GuardSample, Trip, passed
from labctl.config.find_rig import EXAMPLES
from labctl.config.rig import Rig, parse_rig
from labctl.errors import ConfigurationError

EXAMPLE = (EXAMPLES / "nvme-adapter.toml").read_text()


def rig(limits: str = "") -> Rig:
    head = EXAMPLE.split("[limits]")[0]
    return parse_rig(f"{head}\n[limits]\n{limits}\n", "rig.toml")


def sample(
    celsius: float | None = 40.0,
    volts: float | None = 12.0,
    amps: float | None = 1.0,
    free: int | None = 10**12,
    running_s: float = 60.0,
) -> GuardSample:
    watts = None if volts is None or amps is None else volts * amps
    view = View(rails={"12V": LiveRail(volts, amps, watts), "3V3": LiveRail(3.3, 0.1, 0.33)})
    return GuardSample(view, {} if celsius is None else {"": celsius}, free, running_s)


def limits_of(rig: Rig, seen: GuardSample) -> dict[str, Trip]:
    return {trip.limit: trip for trip in passed(rig, seen)}


@pytest.mark.parametrize(
    ("limits", "seen", "limit", "action", "words"),
    [
        ("celsius = 80", sample(celsius=80.2), "celsius", "pause", "80 °C, the limit is 80 °C"),
        ('celsius = 80\nwhen_hot = "abort"', sample(celsius=85.0), "celsius", "abort", "85 °C"),
        ("", sample(volts=11.3), "volts of 12V", "warn", "11.300 V, -5.8 % of 12 V"),
        ('when_out_of_tolerance = "abort"', sample(volts=12.7), "volts of 12V", "abort", "+5.8 %"),
        ("watts = 25", sample(amps=2.1), "watts", "abort", "25.5 W, the limit is 25 W"),
        ('free_disk = "1g"', sample(free=10**9), "free_disk", "abort", "1000 MB left, the limit"),
        ("", sample(free=4 * 10**8), "free_disk", "warn", "400 MB left"),
        ("hours = 12", sample(running_s=43201), "hours", "abort", "more than 12 h"),
    ],
)
def test_each_limit_says_what_was_passed_and_what_is_done(
    limits: str, seen: GuardSample, limit: str, action: str, words: str
) -> None:
    (trip,) = limits_of(rig(limits), seen).values()
    assert (trip.limit, trip.action) == (limit, action)
    assert words in trip.reason


def test_what_is_not_known_passes_no_limit_and_is_warned_of_after_a_while() -> None:
    strict = rig('celsius = 1\nresume_celsius = 0\nwatts = 0.5\nfree_disk = "1g"')
    blind = sample(celsius=None, volts=None, amps=None, free=None)
    guard = Guard(strict)
    assert guard.changes(blind, 0.0) == guard.changes(blind, BLIND_S - 1.0) == ([], [])
    reported, _ = guard.changes(blind, BLIND_S)
    assert {(trip.limit, trip.action) for trip in reported} == {
        ("celsius unknown", "warn"),
        ("watts unknown", "warn"),
    }
    assert "12V is not measured: 0.5 W is not watched" in [trip.reason for trip in reported]
    assert guard.changes(sample(celsius=0.0, amps=0.0), BLIND_S + 1.0)[1] == reported
    assert limits_of(rig(), blind) == {}


def test_one_odd_reading_trips_nothing_and_each_change_is_reported_once() -> None:
    guard = Guard(rig("celsius = 80"))
    hot, cool = sample(celsius=90.0), sample(celsius=60.0)
    reported = []
    for seconds, seen in [(0, hot), (1, cool), (2, hot), (3, hot), (4, hot), (5, hot), (6, cool)]:
        tripped, over = guard.changes(seen, float(seconds))
        reported += [(seconds, "tripped") for _ in tripped] + [(seconds, "over") for _ in over]
    assert HOLDS_S == 1.5
    assert reported == [(4, "tripped"), (6, "over")]


def test_the_drive_goes_on_ten_degrees_below_unless_the_rig_says_otherwise() -> None:
    assert rig("celsius = 80").file.limits.cool_celsius == 70
    assert rig("celsius = 80\nresume_celsius = 55").file.limits.cool_celsius == 55
    with pytest.raises(ConfigurationError, match="must be below celsius"):
        rig("celsius = 80\nresume_celsius = 80")
