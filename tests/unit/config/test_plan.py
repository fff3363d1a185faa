from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labctl.config.plan import built_in_plans, load_plan, parse_plan
from labctl.config.sweeps import Sweep
from labctl.errors import ConfigurationError
from labctl.record.json_values import known
from labctl.record.phase import Pattern, Phase, Role, format_size, parse_size

SWEEP = """
name = "p"
idle_before_s = 1
idle_after_s = 2
[[sweeps]]
pattern = ["randread", "randwrite"]
block_size = ["4k", 8192]
queue_depth = [1, 32]
duration_s = 3
"""


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("4k", 4096), ("4 KiB", 4096), ("128k", 131072), ("16g", 16 << 30), (512, 512), ("0.5k", 512)],
)
def test_sizes_are_powers_of_1024(text: str | int, size_bytes: int) -> None:
    assert parse_size(text) == size_bytes


@given(st.integers(min_value=1, max_value=1 << 45))
def test_a_printed_size_reads_back_the_same(size_bytes: int) -> None:
    assert parse_size(format_size(size_bytes)) == size_bytes


def test_a_plan_expands_with_queue_depth_fastest() -> None:
    phases = parse_plan(SWEEP, "p.toml").expand()
    assert [phase.role for phase in phases[:2]] == [Role.IDLE_BEFORE, Role.MEASURE]
    axes = [(p.pattern.value, p.block_size_bytes, p.queue_depth) for p in phases[1:-1]]
    assert axes == [
        ("randread", 4096, 1), ("randread", 4096, 32),
        ("randread", 8192, 1), ("randread", 8192, 32),
        ("randwrite", 4096, 1), ("randwrite", 4096, 32),
        ("randwrite", 8192, 1), ("randwrite", 8192, 32),
    ]  # fmt: skip
    assert [phase.index for phase in phases] == list(range(10))
    assert len({phase.slug for phase in phases}) == 10


def test_idle_in_each_power_state_comes_before_the_work() -> None:
    states = SWEEP.replace("idle_before_s = 1", "idle_before_s = 1\nidle_power_states = [0, 2]")
    phases = parse_plan(states, "p.toml").expand()
    idle = [(p.label, p.power_state) for p in phases if p.pattern is Pattern.IDLE]
    assert idle == [("idle before PS0", 0), ("idle before PS2", 2), ("idle after", None)]
    assert phases[2].role is Role.MEASURE and phases[2].power_state is None


@pytest.mark.parametrize(
    ("before", "states", "why"),
    [("0", "[0]", "needs idle_before_s"), ("1", "[1, 1]", "each state once"), ("1", "[32]", "31")],
)
def test_wrong_idle_power_states(before: str, states: str, why: str) -> None:
    keys = f"idle_before_s = {before}\nidle_power_states = {states}"
    with pytest.raises(ConfigurationError, match=why):
        parse_plan(SWEEP.replace("idle_before_s = 1", keys), "p.toml")


def test_all_mistakes_of_a_plan_come_at_once_with_key_and_value() -> None:
    text = 'name = "P!"\nwrong = 1\n[[sweeps]]\npattern = "rred"\nblock_size = "4q"\n'
    with pytest.raises(ConfigurationError) as caught:
        parse_plan(text, "plan.toml")
    keys = {mistake.key for mistake in caught.value.mistakes}
    expected = {"name", "wrong", "sweeps[0].pattern[0]", "sweeps[0].block_size"}
    assert keys == expected | {"sweeps[0].duration_s"}
    assert all(str(item).startswith("plan.toml: ") for item in caught.value.mistakes)
    assert "'rred'" in str(caught.value)


@pytest.mark.parametrize(
    ("watts", "known"), [(0.004, False), (0.01, True), (655.34, True), (655.35, False)]
)
def test_a_power_limit_is_none_that_a_drive_takes_for_no_limit(watts: float, known: bool) -> None:
    """It is given in hundredths of a watt: 0, and all ones, are no limit."""
    text = f"{SWEEP}power_limit_watts = {watts}\n"
    if known:
        limits = {phase.power_limit_watts for phase in parse_plan(text, "p.toml").expand()}
        assert limits == {None, watts}
        return
    with pytest.raises(ConfigurationError, match="power_limit_watts"):
        parse_plan(text, "p.toml")


def test_a_mixed_pattern_needs_a_read_share_and_a_pure_one_refuses_it() -> None:
    mixed = 'name="p"\n[[sweeps]]\npattern="randrw"\nduration_s=1\n'
    with pytest.raises(ConfigurationError, match="needs read_pct"):
        parse_plan(mixed, "p.toml")
    pure = 'name="p"\n[[sweeps]]\npattern="randread"\nread_pct=50\nduration_s=1\n'
    with pytest.raises(ConfigurationError, match="needs a mixed pattern"):
        parse_plan(pure, "p.toml")
    both = parse_plan(mixed + "read_pct=[100, 60, 0]\n", "p.toml").expand()
    assert [phase.read_pct for phase in both[1:-1]] == [100, 60, 0]
    assert [phase.writes for phase in both[1:-1]] == [False, True, True]


@pytest.mark.parametrize(
    ("pattern", "share", "directions"),
    [
        (Pattern.IDLE, 100, ()),
        (Pattern.RANDREAD, 100, ("read",)),
        (Pattern.WRITE, 0, ("write",)),
        (Pattern.RANDRW, 30, ("read", "write")),
        (Pattern.RW, 0, ("write",)),
        (Pattern.RW, 100, ("read",)),
    ],
)
def test_a_phase_knows_its_directions(
    pattern: Pattern, share: int, directions: tuple[str, ...]
) -> None:
    phase = Phase(0, Role.MEASURE, "s", pattern, 1.0, 4096, 1, 1, share)
    assert phase.directions == directions


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ('block_size = "4097"', "block_size"),
        ("block_size = " + "9" * 400, "block_size"),
        ('span = "100m"\nblock_size = "64m"\njobs = 4', "sweeps[0]"),
        ("duration_s = true", "duration_s"),
    ],
)
def test_axes_that_fio_would_take_otherwise_are_mistakes(line: str, key: str) -> None:
    duration = "" if "duration_s" in line else "duration_s = 1"
    text = f'name = "p"\n[[sweeps]]\npattern = "read"\n{duration}\n{line}\n'
    with pytest.raises(ConfigurationError) as caught:
        parse_plan(text, "p.toml")
    assert any(key in mistake.key for mistake in caught.value.mistakes)


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "/"])
def test_a_name_that_is_no_file_is_one_message(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"no such file|is a folder"):
        load_plan(name)


def test_a_binary_plan_is_a_mistake(tmp_path: Path) -> None:
    file = tmp_path / "binary.toml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match="encoding"):
        load_plan(str(file))


def test_broken_toml_is_a_mistake_not_a_crash() -> None:
    with pytest.raises(ConfigurationError, match=r"plan\.toml: TOML"):
        parse_plan("name = ", "plan.toml")


def test_an_unknown_plan_names_those_that_exist() -> None:
    with pytest.raises(ConfigurationError, match="power-per-qd"):
        load_plan("no-such-plan")


@pytest.mark.parametrize("name", list(built_in_plans()))
def test_every_built_in_plan_loads_and_says_what_it_is(name: str) -> None:
    plan, text = load_plan(name)
    assert plan.name == name
    assert plan.summary and plan.source
    assert plan.expand(1 << 40)
    assert text


def test_power_per_qd_is_the_review_method() -> None:
    """FIELD M1-M3: six queue depths, three minutes each, on a filled drive, writes in 16 GB."""
    plan, _ = load_plan("power-per-qd")
    phases = plan.expand(drive_bytes=1_200_000_000_000)
    assert phases[0].role is Role.PREPARE
    assert phases[0].fill_bytes == 1_200_000_000_000
    measured = [phase for phase in phases if phase.role is Role.MEASURE]
    assert len(measured) == 24
    assert {phase.duration_s for phase in measured} == {180}
    writes = [phase for phase in measured if phase.pattern is Pattern.RANDWRITE]
    assert {phase.span_bytes for phase in writes} == {16 << 30}
    assert [phase.queue_depth for phase in writes] == [1, 2, 4, 8, 16, 32]


@given(
    st.sampled_from(list(Pattern)),
    st.integers(1, 256),
    st.integers(0, 100),
    st.one_of(st.none(), st.integers(4096, 1 << 40)),
)
def test_a_phase_reads_back_from_its_json(
    pattern: Pattern, depth: int, share: int, span: int | None
) -> None:
    phase = Phase(3, Role.MEASURE, "s", pattern, 1.5, 4096, depth, 2, share, span)
    assert known(Phase, phase.to_json()) == phase


def test_the_plan_of_the_docs_expands_to_every_step() -> None:
    page = (Path(__file__).parents[3] / "docs" / "plans.md").read_text()
    text = page.split("```toml\n")[1].split("```")[0]
    phases = parse_plan(text, "plans.md").expand(drive_bytes=1 << 30)
    assert [phase.label for phase in phases[:4]] == [
        "purge (auto)", "write 128k QD32", "write 128k QD32", "randwrite 4k QD32 round 1",
    ]  # fmt: skip
    assert [phase.label for phase in phases[28:31]] == ["rest", "cool to 45 °C", "idle before"]
    assert len(phases) == 1 + 2 + 25 + 1 + 1 + 1 + 25 + 1
    assert all(phase.writes for phase in phases[:28])
    assert phases[1].fill_bytes == 1 << 30
    assert len({phase.slug for phase in phases}) == len(phases)


def test_every_key_of_a_sweep_stands_in_the_docs() -> None:
    page = (Path(__file__).parents[3] / "docs" / "plans.md").read_text()
    missing = [name for name in Sweep.model_fields if f"| `{name}` |" not in page]
    assert missing == []


def test_an_unknown_step_names_those_that_there_are() -> None:
    with pytest.raises(ConfigurationError, match=r"purge.*fill.*precondition.*cool_down.*rest"):
        parse_plan(SWEEP + '[[prepare]]\nstep = "wash"\n', "p.toml")


def test_a_sync_burst_loads_and_rests_after_the_preparation() -> None:
    text = 'sync_burst = true\n[fill]\nspan = "1g"\n'
    plan = parse_plan('name = "b"\n' + text + '[[sweeps]]\npattern = "read"\nduration_s = 5\n', "b")
    phases = plan.expand()
    burst = [phase for phase in phases if phase.sweep == "sync burst"]
    assert [phase.pattern for phase in burst] == [Pattern.READ, Pattern.IDLE] * 5
    assert {phase.role for phase in burst} == {Role.PREPARE}
    assert phases[0].fills and phases[11].role is Role.IDLE_BEFORE
    assert not any(phase.writes for phase in burst)
