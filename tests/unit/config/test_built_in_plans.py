"""The built-in plans: what they do, what the docs say of them, and what scaling leaves of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labctl.cli.rig.lists import list_plans
from labctl.config.estimate import estimate, more_than_usual
from labctl.config.find_rig import EXAMPLES
from labctl.config.plan import built_in_plans, load_plan, parse_plan
from labctl.config.scaling import LEAST_BYTES, LEAST_S
from labctl.errors import ConfigurationError
from labctl.record.phase import Pattern, Role
from tests.forked_labctl import labctl

ROOT = Path(__file__).parents[3]
TB = 10**12
NAMES = list(built_in_plans())


@pytest.mark.parametrize("name", NAMES)
def test_the_docs_state_phases_hours_and_bytes_of_every_plan(name: str) -> None:
    """Of a drive of 1 TB that writes 1 GB/s."""
    phases = load_plan(name)[0].expand(TB)
    cost = estimate(phases, 10**9)
    assert cost.seconds is not None and cost.bytes_written is not None
    (row,) = [
        line
        for line in (ROOT / "docs" / "plans.md").read_text().splitlines()
        if line.startswith(f"| `{name}` |") and line.count("|") == 6
    ]
    message = [cell.strip() for cell in row.split("|")[3:6]]
    hours, terabytes = f"{cost.seconds / 3600:.2f}", f"{cost.bytes_written / TB:.2f}"
    assert message == [str(len(phases)), hours, terabytes]


def test_the_list_of_plans_says_what_the_docs_say(capsys: pytest.CaptureFixture[str]) -> None:
    list_plans(json_output=True)
    rows = json.loads(capsys.readouterr().out)
    docs = (ROOT / "docs" / "plans.md").read_text()
    assert [row["plan"] for row in rows] == NAMES
    for row in rows:
        reported = f"| {row['phases']} | {row['hours']:.2f} | {row['TB_written']:.2f} |"
        assert f"{reported}\n" in "".join(
            f"{line}\n" for line in docs.splitlines() if line.startswith(f"| `{row['plan']}` |")
        )
    list_plans(json_output=False)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


READ_AS_FOUND = ("demo", "conditioned-against-fresh")  # these read a drive as it is, on purpose


@pytest.mark.parametrize("name", [name for name in NAMES if name not in READ_AS_FOUND])
def test_a_plan_that_reads_a_whole_drive_has_filled_it(name: str) -> None:
    """An empty drive answers reads of unwritten LBAs without touching NAND."""
    filled = False
    for phase in load_plan(name)[0].expand(TB):
        filled = (filled or phase.fills) and phase.pattern is not Pattern.PURGE
        if phase.role is Role.MEASURE and "read" in phase.directions:
            assert filled, phase.label


def measured(name: str) -> list[tuple[str, str, int, float]]:
    return [
        (phase.sweep, phase.pattern.value, phase.queue_depth, phase.duration_s)
        for phase in load_plan(name)[0].expand(TB)
        if phase.role is Role.MEASURE
    ]


def test_the_review_holds_the_points_of_every_method_it_names() -> None:
    """M1 to M3 in power-per-qd, M4 to M6 in plans of their own."""
    review = {item[1:] for item in measured("review-2015")}
    for part in ("power-per-qd", "mixed-random", "mixed-sequential", "consistency"):
        assert {item[1:] for item in measured(part)} <= review, part


def test_snia_iops_is_the_matrix_of_the_standard() -> None:
    phases = load_plan("snia-iops")[0].expand(TB)
    first = [phase for phase in phases if phase.round == 1]
    sizes = {1 << 20, 1 << 17, 1 << 16, 1 << 15, 1 << 14, 1 << 13, 4096, 512}
    shares = {100, 95, 65, 50, 35, 5, 0}
    matrix = {(size, share) for size in sizes for share in shares}
    assert {(phase.block_size_bytes, phase.read_pct) for phase in first} == matrix
    assert [(p.block_size_bytes, p.read_pct) for p in first if p.tracked] == [
        (1 << 20, 100), (1 << 16, 65), (4096, 0),
    ]  # fmt: skip
    assert max(phase.round for phase in phases) == 25
    assert [phase.fill_bytes for phase in phases if phase.fills] == [TB, TB]


def test_compressibility_is_an_axis() -> None:
    text = """
        name = "p"
        [[sweeps]]
        pattern = "write"
        buffer_compress_pct = [0, 50]
        queue_depth = [1, 2]
        duration_s = 1
    """
    labels = [phase.label for phase in parse_plan(text, "p.toml").expand()[1:-1]]
    assert labels == [
        "write 4k QD1", "write 4k QD2",
        "write 4k QD1 50% compressible", "write 4k QD2 50% compressible",
    ]  # fmt: skip


@settings(max_examples=30)  # the SNIA plans have a thousand phases
@given(
    st.sampled_from(NAMES),
    st.floats(min_value=1e-5, max_value=1.0),
    st.integers(min_value=1 << 20, max_value=1 << 44),
)
def test_a_scaled_plan_does_the_same_points_in_less(
    name: str, scale: float, drive_bytes: int
) -> None:
    whole = load_plan(name)[0].expand(drive_bytes)
    small = load_plan(name, scale)[0].expand(drive_bytes)
    assert len(small) == len(whole)
    for one, before in zip(small, whole, strict=True):
        axes = ("role", "sweep", "label", "pattern", "queue_depth", "jobs", "round", "tracked")
        assert all(getattr(one, axis) == getattr(before, axis) for axis in axes)
        assert one.fills == before.fills
        assert one.duration_s <= before.duration_s
        assert one.duration_s >= min(before.duration_s, LEAST_S)
        if one.pattern.io:
            most = before.span_bytes or drive_bytes
            assert one.span_bytes is None or min(most, LEAST_BYTES) <= one.span_bytes <= most


@settings(max_examples=30)
@given(st.sampled_from(NAMES), st.floats(min_value=1e-5, max_value=0.5))
def test_a_scaled_plan_reads_only_what_its_fill_wrote(name: str, scale: float) -> None:
    phases = load_plan(name, scale)[0].expand(TB)
    filled = [phase.fill_bytes or 0 for phase in phases if phase.fills]
    if filled:
        assert len(set(filled)) == 1
        assert all((phase.span_bytes or 0) <= filled[0] for phase in phases if phase.pattern.io)


def test_the_text_of_a_scaled_plan_says_so() -> None:
    plan, text = load_plan("consistency", 0.01)
    assert parse_plan(text, "again").expand(TB) == plan.expand(TB)
    assert plan.expand(TB)[-2].duration_s == 36


def test_a_plan_that_is_scaled_cannot_be_scaled_again(tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text(load_plan("power", 0.1)[1])
    assert load_plan(str(file), 1.0)[0].scale == 0.1
    with pytest.raises(ConfigurationError, match="also in the plan"):
        load_plan(str(file), 0.1)


def test_what_takes_long_or_writes_much_is_asked_about() -> None:
    phases = load_plan("snia-wsat")[0].expand(TB)
    reasons = more_than_usual(phases, estimate(phases, 10**9), TB)
    assert reasons == ("takes up to 24 hours (the limit is 24)",)
    phases = load_plan("snia-iops")[0].expand(TB)
    reasons = more_than_usual(phases, estimate(phases, 10**9), TB)
    assert reasons == ("may write the drive 44 times over (the limit is 10)",)
    small = load_plan("snia-wsat", 0.001)[0].expand(TB)
    assert more_than_usual(small, estimate(small, 10**9), TB) == ()
    unknown = load_plan("power")[0].expand()
    assert more_than_usual(unknown, estimate(unknown, 10**9), None) == ()


@pytest.mark.parametrize("words", [("run",), ("queue", "add")])
def test_without_a_terminal_a_large_plan_is_refused(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABCTL_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    text = (EXAMPLES / "nvme-adapter.toml").read_text()
    rig = tmp_path / "rig.toml"
    rig.write_text(text.replace("[drive]", "[drive]\nsize_bytes = 1000000000000"))
    done = labctl(*words, rig, "snia-iops", cwd=tmp_path)
    assert done.returncode == 2
    assert "44 times over" in done.stderr and "--yes" in done.stderr
