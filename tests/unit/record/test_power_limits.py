"""Files with limits of power: what they may say, and a clear word for what they may not."""

from __future__ import annotations

import pytest

from labctl.errors import ConfigurationError
from labctl.record.power_limits import LENGTHS_S, load_limits, parse_limits

ONE = '[[limits]]\nname = "one"\n'
TWO = '[[limits]]\nname = "two"\n'


def mistakes(limits: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        parse_limits(f'name = "ours"\n{limits}', "ours.toml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (ONE + 'over = "1 s"', "needs max_watts or drive_says, and one of them alone"),
        (ONE + 'over = "1 s"\nmax_watts = 5\ndrive_says = "max"', "one of them alone"),
        (ONE + 'over = "2 s"\nmax_watts = 5', "one of 100 µs, 1 ms"),
        (ONE + 'over = "1 s"\nmax_watts = -5', "limits[0].max_watts"),
        (ONE + 'over = "1 s"\nmax_watts = nan', "limits[0].max_watts"),
        (ONE + 'over = "1 s"\nmax_wats = 5', "max_watts"),
        (ONE + 'over = "15 min"\nmax_watts = 5\nmin_duration_s = 60', "does not fit into"),
        (
            ONE + 'over = "1 s"\nmax_watts = 5\nmin_duration_s = 60\ninterval_s = 2',
            "interval_s is longer than a window",
        ),
        (
            ONE + 'over = "1 s"\nmax_watts = 5\ninterval_s = 2',
            "interval_s is longer than a window",
        ),
        (
            ONE + 'over = "1 s"\nmax_watts = 5\n' + TWO + 'over = "1 s"\nmax_watts = 5',
            "limits[0] (one) and limits[1] (two) are both on 1 s of the same phases",
        ),
        (
            ONE + 'over = "1 s"\ndrive_says = "max"\n' + TWO + 'over = "1 s"\ndrive_says = "max"',
            "limits[0] (one) and limits[1] (two) are both on 1 s of the same phases",
        ),
        (
            f'{ONE}over = "1 s"\nmax_watts = 5\npoints = "r*"\n{ONE}over = "1 s"\nmax_watts = 4',
            "limits[0] and limits[1] have one name (one)",
        ),
        (
            ONE + 'over = "1 s"\nmax_watts = 5\n' + ONE + 'over = "15 min"\nmax_watts = 6',
            "is never above the largest over a shorter one, which may be 5 W at most",
        ),
        ("", "limits"),
    ],
)
def test_every_mistake_has_a_clear_word(text: str, said: str) -> None:
    assert said in mistakes(text)


def test_limits_of_other_phases_do_not_contradict() -> None:
    text = (
        'name = "ours"\n'
        + ONE
        + 'over = "1 s"\nmax_watts = 5\npoints = "read*"\n'
        + TWO
        + 'over = "1 s"\nmax_watts = 6\npoints = "write*"\n'
        + TWO.replace("two", "three")
        + 'over = "100 us"\nmax_watts = 9\npoints = "write*"'
    )
    found = parse_limits(text, "ours.toml")
    assert [one.window_s for one in found.limits] == [1.0, 1.0, LENGTHS_S["100 µs"]]


def test_a_name_that_is_none_leads_to_one_that_is() -> None:
    with pytest.raises(ConfigurationError, match=r"ocp-2\.6"):
        load_limits("ocp-2.7")


def test_a_limit_of_ones_own_and_the_drives_word_stand_beside_each_other() -> None:
    """A slot carries 25 W, whatever the drive's table says."""
    text = f'name = "ours"\n{ONE}over = "1 s"\nmax_watts = 25\n{TWO}over = "1 s"\n'
    found = parse_limits(f'{text}drive_says = "max"', "ours.toml")
    assert [one.drive_says for one in found.limits] == [None, "max"]
