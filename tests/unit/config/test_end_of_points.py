"""When points end before their time, as a plan says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from labctl.config.plan import built_in_plans, load_plan, parse_plan
from labctl.errors import ConfigurationError
from labctl.record.phase import Phase, Role, Until

SWEEP = '[[sweeps]]\npattern = "randread"\nduration_s = 60\n'


def phases_of(plan: str, sweep: str = "") -> list[Phase]:
    """The measured phases of a plan with these lines of its own and of its only sweep."""
    text = f'name = "p"\n{plan}\n{SWEEP}{sweep}\n'
    return [one for one in parse_plan(text, "p.toml").expand(1 << 30) if one.role is Role.MEASURE]


@pytest.mark.parametrize(
    ("plan", "sweep", "until"),
    [
        ("", "", None),
        ('until = "settled"', "", Until()),
        ('until = "settled"', 'until = "duration"', None),
        ("", 'until = "settled"\nmin_duration_s = 30', Until(min_duration_s=30.0)),
        ('until = "settled"\nmin_duration_s = 20', "min_duration_s = 30", Until(None, None, 30.0)),
        (
            "until_pct = { watts = 0.5, iops = 1.0 }\nmin_duration_s = 20",
            "",
            Until(0.5, 1.0, 20.0),
        ),
        ('until = "settled"', "until_pct = { iops = 2 }", Until(None, 2.0)),
        ('until = "settled"', "steady_temperature_s = 10", None),
        ('until = "settled"', "rounds = 9\nuntil_drive_writes = 4", None),
        ('until = "settled"', "rounds = 9", Until()),
    ],
)
def test_a_sweep_says_it_or_the_plan_for_all(plan: str, sweep: str, until: Until | None) -> None:
    assert {one.until for one in phases_of(plan, sweep)} == {until}


@pytest.mark.parametrize(
    ("plan", "sweep", "words"),
    [
        ("", 'until = "setled"', "is 'settled' meant"),
        ("", "until_pct = { watts = 0 }", "greater than 0"),
        ("", "until_pct = { watts = -0.5 }", "greater than 0"),
        ("", "until_pct = { watts = nan }", "less than or equal to 100"),
        ("", "until_pct = { iops = 101 }", "less than or equal to 100"),
        ("", "until_pct = {}", "needs watts, iops or both"),
        ("", "until_pct = { celsius = 1 }", "no such key"),
        ("", 'until = "settled"\nuntil_pct = { iops = 1 }', "one of them"),
        ("", "min_duration_s = 30", "only with until"),
        ("min_duration_s = 30", "", "only with until"),
        ("", 'until = "duration"\nmin_duration_s = 30', "not with until"),
        ("", 'until = "settled"\nmin_duration_s = 61', "61 s) is longer than duration_s (60 s)"),
        ('until = "settled"\nmin_duration_s = 61', "", "61 s) is longer than duration_s (60 s)"),
        ("", 'until = "settled"\nsteady_temperature_s = 9', "not with until"),
        ("", 'until = "settled"\nrounds = 9\nuntil_drive_writes = 4', "not with until"),
    ],
)
def test_nonsense_is_refused_with_what_is_wrong(plan: str, sweep: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        phases_of(plan, sweep)
    assert words in str(caught.value)


@pytest.mark.parametrize("key", ['until = "settled"', "until_pct = { iops = 1 }"])
def test_a_trace_takes_its_time(key: str) -> None:
    text = f'name = "p"\n[[sweeps]]\nreplay = "t.csv"\n{key}\n'
    with pytest.raises(ConfigurationError, match="a replay takes these from its trace"):
        parse_plan(text, "p.toml")


@pytest.mark.parametrize("name", [one for one in built_in_plans() if one != "ocp-power"])
def test_the_option_makes_every_built_in_plan_fast_and_cuts_no_preparation(name: str) -> None:
    plan, text = load_plan(name, until="settled")
    assert parse_plan(text, "again.toml") == plan, "the record says it, for a run that goes on"
    phases = plan.expand(1 << 40)
    early = [one for one in phases if one.until is not None]
    assert all(one.role is Role.MEASURE and one.pattern.io and one.timed for one in early)
    assert bool(early) == (name not in ("consistency", "snia-wsat"))
    assert [one.duration_s for one in phases] == [
        one.duration_s for one in load_plan(name)[0].expand(1 << 40)
    ]


def test_the_option_goes_with_a_shortest_time_of_the_plan(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text(f'name = "p"\nmin_duration_s = 30\n{SWEEP}')
    phases = load_plan(str(file), until="settled")[0].expand(1 << 30)
    assert [one.until for one in phases if one.until] == [Until(min_duration_s=30.0)]
    with pytest.raises(ConfigurationError, match="only with until"):
        load_plan(str(file))


def test_the_option_is_refused_where_the_plan_says_it_itself(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text(f'name = "p"\nuntil_pct = {{ iops = 1 }}\n{SWEEP}')
    for name in (str(file), "ocp-power"):  # its limits are on the largest second of 15 minutes
        with pytest.raises(ConfigurationError, match="also in the plan"):
            load_plan(name, until="settled")
    with pytest.raises(ConfigurationError, match="must be 'settled'"):
        load_plan("demo", until='settled"\nname = "other')


def test_a_scaled_plan_has_its_shortest_time_scaled() -> None:
    text = f'name = "p"\nscale = 0.1\n{SWEEP}until = "settled"\nmin_duration_s = 50\n'
    (phase,) = (one for one in parse_plan(text, "p.toml").expand(1 << 30) if one.until)
    assert phase.duration_s == 6.0 and phase.until == Until(min_duration_s=5.0)
