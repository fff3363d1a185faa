"""Runs side by side: a true difference is seen, none is not, and the gate has teeth."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from labctl.analysis.compare.comparison import (
    Change,
    Comparison,
    compare,
    compare_sides,
    relative_change,
)
from labctl.analysis.compare.gate import (
    Gate,
    GateLimit,
    GateVerdict,
    check_gate,
    parse_allowances,
    parse_gate,
)
from labctl.analysis.compare.points import named_points
from labctl.analysis.compare.repeats import Basis
from labctl.analysis.estimate import Estimate
from labctl.analysis.phase_result import TemperatureResult
from labctl.analysis.run.summary import summarise
from labctl.analysis.run_summary import RunSummary
from labctl.analysis.steady_state.rounds import steady_rounds_of
from labctl.analysis.steady_state.window_means import rounds_of_mean, window_means
from labctl.cli.results.compare import app, compare_runs
from labctl.cli.results.repeats import repeats
from labctl.config.plan import parse_plan
from labctl.errors import ConfigurationError
from labctl.record.events import Event
from labctl.record.reader import RunRecord
from labctl.report.charts.comparison import comparison_charts
from labctl.report.pages.comparison import comparison_page
from labctl.report.text.comparison import comparison_csv, comparison_text
from tests.unit.report.pages.test_report import assert_tables_can_be_read_aloud
from tests.unit.report_sample import HOSTILE, plan, qd_sweep, record_of, summary_of
from tests.unit.synthetic_run import WORK, Bench, Load, build
from tests.unit.test_docs import ROOT, blocks
from tests.unit.vega_lite import assert_valid

Pair = tuple[RunRecord, RunSummary]


def faster(factor: float, watts: float = 1.0) -> tuple[Load, ...]:
    return tuple(
        replace(
            load,
            iops=load.iops * factor,
            amps_12=load.amps_12 * watts,
            amps_3=load.amps_3 * watts,
        )
        for load in WORK
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    def run(seed: int, factor: float = 1.0, watts: float = 1.0) -> Path:
        root = tmp_path_factory.mktemp("runs")
        return build(root, Bench(loads=faster(factor, watts), seed=seed)).path

    return run


def pair(path: Path) -> Pair:
    record = RunRecord(path)
    return record, summarise(record)


def repeated(
    made: Callable[..., Path], seed: int, factor: float = 1.0, watts: float = 1.0
) -> list[Pair]:
    return [pair(made(seed + number, factor, watts)) for number in range(3)]


def test_a_drive_a_tenth_faster_is_seen_by_repeats(made: Callable[..., Path]) -> None:
    found = compare_sides([repeated(made, 1), repeated(made, 11, factor=1.1)])
    assert [run.name for run in found.runs] == ["A1", "A2", "A3", "B1", "B2", "B3"]
    rows = found.quantity("iops")
    assert len(rows) == 4
    for row in rows:
        cell = row.cells[1]
        assert cell.difference is Change.SIGNIFICANT and cell.basis is Basis.REPEATS
        assert cell.p is not None and cell.p <= 0.05
        assert cell.change is not None and cell.change.covers(0.1)
        assert len(cell.repeats) == len(cell.against) == 3
    assert {row.cells[1].difference for row in found.quantity("watts")} == {
        Change.NOT_DISTINGUISHABLE
    }


def test_one_run_each_does_not_tell(made: Callable[..., Path]) -> None:
    """However large it is: nobody knows how the next run would differ."""
    found = compare([pair(made(1)), pair(made(2, factor=1.1))])
    cells = [row.cells[1] for row in found.quantity("iops")]
    assert {cell.difference for cell in cells} == {Change.ONE_RUN_EACH}
    assert {cell.p for cell in cells} == {None}
    text = " ".join(comparison_text(found).split())
    assert "~ beyond the scatter within the runs: cannot be told from one run each" in text
    assert "3 repeats a side would tell a change of" in text


def test_the_same_drive_again_is_not_told_apart(made: Callable[..., Path]) -> None:
    found = compare_sides([repeated(made, 1), repeated(made, 11)])
    told = {row.cells[1].difference for row in found.rows if row.quantity != "latency_p99_us"}
    assert told == {Change.NOT_DISTINGUISHABLE}


def test_watts_that_differ_are_seen_and_efficiency_with_them(made: Callable[..., Path]) -> None:
    found = compare_sides([repeated(made, 1), repeated(made, 1, watts=1.05)])
    for row in found.quantity("watts"):
        assert row.cells[1].difference is Change.SIGNIFICANT
    for row in found.quantity("iops_per_watt"):
        change = row.cells[1].change
        assert change is not None and change.value == pytest.approx(1 / 1.05 - 1, abs=0.005)


def test_a_single_run_is_judged_against_repeats(made: Callable[..., Path]) -> None:
    new = pair(made(20, factor=0.9))
    found = compare_sides([repeated(made, 1), [new]])
    assert {row.cells[1].difference for row in found.quantity("iops")} == {Change.SIGNIFICANT}


def test_other_meters_count_with_what_they_allow(made: Callable[..., Path]) -> None:
    """The made-up meters do not say who they are; once they do, their errors are in both sides."""
    sides = [repeated(made, 1), repeated(made, 11)]
    others = compare_sides(sides).quantity("watts")[0].cells[1]
    assert others.instruments > 0 and others.change is not None
    assert others.change.u == pytest.approx(
        others.instruments + (others.change.repeatability or 0), rel=0.02
    )
    for record, _ in (run for side in sides for run in side):
        channels = [name for rail in record.header.rails for name in (rail.voltage, rail.current)]
        meters = {channel.partition(".")[0] for channel in channels}
        record.header = replace(record.header, identities={name: f"S/N {name}" for name in meters})
    same = compare_sides(sides).quantity("watts")[0].cells[1]
    assert same.instruments == 0 and same.change is not None
    assert same.change.u == same.change.repeatability < others.change.u


@given(st.floats(0.1, 1e6), st.floats(0, 0.3), st.floats(0.1, 1e6), st.floats(0, 0.3))
def test_which_run_is_first_does_not_decide_significance(
    one: float, u_one: float, other: float, u_other: float
) -> None:
    a, b = (Estimate(value, 0.0, value * u) for value, u in ((one, u_one), (other, u_other)))
    assert relative_change(a, b)[1] is relative_change(b, a)[1]


def test_by_hand() -> None:
    """10 ± 0.3 against 10.5 ± 0.4: 0.5 = √(0.3² + 0.4²) is not more than it; U decides nothing."""
    base = Estimate(10, 9.0, 0.3)
    change, verdict = relative_change(base, Estimate(10.5, 9.0, 0.4))
    assert verdict is Change.NOT_DISTINGUISHABLE
    assert change is not None and change.value == pytest.approx(0.05)
    assert change.u == pytest.approx(((0.4 / 10) ** 2 + (0.3 * 10.5 / 100) ** 2) ** 0.5)
    assert relative_change(base, Estimate(10.51, 9.0, 0.4))[1] is Change.ONE_RUN_EACH
    assert relative_change(base, None)[1] is Change.MISSING
    assert relative_change(base, Estimate(20, 0.1))[1] is Change.UNKNOWN


def samples(root: Path) -> tuple[Pair, Pair]:
    """Two made-up runs of plans that share a sweep, the second with a point of its own."""
    one = summary_of(plan(qd_sweep()))
    other = summary_of(plan(qd_sweep(), qd_sweep("write", "128k")))
    other = replace(other, run_id="20261009T085320Z_bench_other", drive_model=HOSTILE)
    return (
        (record_of(root / "a", one), one),
        (record_of(root / "b", other), other),
    )


def test_points_that_only_one_run_has_are_named(tmp_path: Path) -> None:
    found = compare(samples(tmp_path))
    assert found.only_in["write 128k QD8"] == ("B",)
    assert all("write" not in row.point for row in found.rows)


def test_at_80_columns_nothing_is_wider(tmp_path: Path) -> None:
    first, second = samples(tmp_path)
    for pairs in ([first, second], [first, *[second] * 5]):
        text = comparison_text(compare(pairs))
        assert max(len(line) for line in text.splitlines()) <= 80, text
        assert "randread 4k QD32" in text
        for letter in "ABCDEF"[: len(pairs)]:
            assert re.search(rf"\b{letter}\b", text)


def test_the_csv_has_every_number(tmp_path: Path) -> None:
    found = compare(samples(tmp_path))
    rows = list(csv.DictReader(io.StringIO(comparison_csv(found))))
    assert len(rows) == sum(len(row.cells) for row in found.rows)
    one = next(row for row in rows if row["quantity"] == "watts" and row["run"] == "B")
    assert float(one["value"]) > 0 and float(one["value_u"]) > 0
    assert float(one["change"]) == pytest.approx(0.0)
    assert one["difference"] == "no scatter known", "a made-up run without repeatability"
    assert next(row for row in rows if row["quantity"] == "latency_p99_us")["value_u"] == ""


def test_the_page_is_whole_offline_and_safe(tmp_path: Path) -> None:
    pairs = samples(tmp_path)
    found = compare(pairs)
    gate = check_gate(found, Gate(limits=[GateLimit(quantity="watts", worse_pct=1)]))
    page = comparison_page(found, pairs[0][1], gate)
    assert_tables_can_be_read_aloud(page)
    assert HOSTILE not in page and "&lt;script&gt;" in page
    assert not re.search(r'(src|href)="https?:', page)
    assert page.count("<figure data-chart=") == 6
    assert "Gate passed" in page
    for chart in comparison_charts(found, pairs[0][1]):
        assert_valid(chart.spec)


def test_what_others_than_a_share_is_no_chart_and_yet_in_common(tmp_path: Path) -> None:
    alone, (_, other) = summary_of(plan(qd_sweep("randwrite"))), samples(tmp_path)
    pairs = [(record_of(tmp_path / "alone", alone), alone), other, other]
    found = compare(pairs)
    page = comparison_page(found, alone)
    assert found.rows and "<figure data-chart=" not in page
    assert "A has no measured point in common with another side" in page


def gated(found: Comparison, **limit: float) -> list[GateVerdict]:
    ((quantity, worse_pct),) = limit.items()
    checks = check_gate(
        found, Gate(limits=[GateLimit(quantity=quantity, worse_pct=worse_pct)])
    ).checks
    return [check.verdict for check in checks]


def test_the_gate_of_a_slower_firmware(made: Callable[..., Path]) -> None:
    found = compare_sides([repeated(made, 1), repeated(made, 11, factor=0.9)])
    assert set(gated(found, iops=3)) == {GateVerdict.BROKEN}
    assert set(gated(found, iops=20)) == {GateVerdict.PASSED}
    assert GateVerdict.UNDECIDED in gated(found, iops=10)
    better = compare_sides([repeated(made, 11, factor=0.9), repeated(made, 1)])
    assert set(gated(better, iops=0)) == {GateVerdict.PASSED}, "faster is never a regression"


def test_a_gate_on_one_run_each_is_undecided(made: Callable[..., Path]) -> None:
    found = compare([pair(made(1)), pair(made(2, factor=0.9))])
    gate = Gate(limits=[GateLimit(quantity="iops", worse_pct=3)])
    result = check_gate(found, gate)
    assert result.passed and {check.verdict for check in result.checks} == {GateVerdict.UNDECIDED}
    assert "cannot be told from one run each" in str(result.checks[0])
    assert "gate: passed (4 of 4 checks undecided)" in comparison_text(found, result)
    assert not check_gate(found, Gate(limits=gate.limits, strict=True)).passed


def test_more_watts_are_worse(made: Callable[..., Path]) -> None:
    found = compare_sides([repeated(made, 1), repeated(made, 1, watts=1.05)])
    assert set(gated(found, watts=2)) == {GateVerdict.BROKEN}
    assert set(gated(found, watts=8)) == {GateVerdict.PASSED}


def test_strict_fails_what_is_undecided(made: Callable[..., Path]) -> None:
    found = compare([pair(made(1)), pair(made(2))])
    limits = [GateLimit(quantity="iops", worse_pct=0)]
    loose = check_gate(found, Gate(limits=limits))
    strict = check_gate(found, Gate(limits=limits, strict=True))
    assert {check.verdict for check in loose.checks} <= {GateVerdict.UNDECIDED, GateVerdict.PASSED}
    assert loose.passed and not strict.passed


def test_a_phase_that_did_not_complete_breaks_the_gate(tmp_path: Path) -> None:
    first, (record, summary) = samples(tmp_path)
    phases = tuple(replace(item, outcome="failed") for item in summary.phases)
    found = compare([first, (record, replace(summary, phases=phases))])
    assert set(gated(found, watts=50)) == {GateVerdict.MISSING}


def test_a_gate_about_nothing_is_a_mistake(tmp_path: Path) -> None:
    found = compare(samples(tmp_path))
    gate = Gate(limits=[GateLimit(quantity="iops", worse_pct=3, points="randwrite*")])
    with pytest.raises(ConfigurationError, match="no point with iops fits; the runs have: idle"):
        check_gate(found, gate)


def test_the_gate_of_the_docs_is_a_gate() -> None:
    (text,) = [one for one in blocks(ROOT / "docs" / "analyses.md", "toml") if "limits" in one]
    gate = parse_gate(text, "docs/analyses.md")
    assert [limit.quantity for limit in gate.limits] == ["iops_per_watt", "latency_p99_us"]


def test_every_mistake_of_a_gate_is_named() -> None:
    text = '[[limits]]\nquantity = "wats"\nworse_pct = -1\n[[limits]]\nworse = 3\n'
    with pytest.raises(ConfigurationError) as caught:
        parse_gate(text, "gate.toml")
    said = str(caught.value)
    for part in ("limits[0].quantity", "one of watts, iops", "limits[0].worse_pct",
                 "limits[1].quantity: is missing", "limits[1].worse"):  # fmt: skip
        assert part in said
    with pytest.raises(ConfigurationError, match="QUANTITY=PERCENT"):
        parse_allowances(["watts"])
    with pytest.raises(ConfigurationError, match="one of watts"):
        parse_allowances(["power=3"])


def test_the_command_and_its_exit_code(
    made: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = [made(seed) for seed in (1, 2, 3)]
    slow = [made(seed, factor=0.9) for seed in (11, 12, 13)]
    page = tmp_path / "compare.html"

    def asked(*words: object) -> int:
        args = [str(word) for word in words]
        return int(typer.main.get_command(app).main(args, standalone_mode=False) or 0)

    assert asked(*base, "--against", *slow, "--allow", "iops=3", "--html", page) == 1
    shown = capsys.readouterr().out
    assert "gate: FAILED (4 of 4 checks)" in shown
    assert all(f"{name}  " in shown for name in ("A1", "A3", "B2"))
    assert page.is_file()
    file = tmp_path / "gate.toml"
    file.write_text('[[limits]]\nquantity = "iops"\npoints = "randread*"\nworse_pct = 15\n')
    assert asked("--gate", file, "--json", *base, "--against", *slow) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["gate"]["passed"] is True
    assert [run["side"] for run in data["runs"]] == ["A"] * 3 + ["B"] * 3
    assert asked(*base, "--against", *slow, "--against", slow[0], "--csv") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {row["run"] for row in rows} == {"A", "B", "C"}
    assert {row["basis"] for row in rows} == {"", "repeats"}
    assert compare_runs([base[0], slow[0]], None, ["iops=3"], False, None, False, False) == 0
    with pytest.raises(ConfigurationError, match="at least two"):
        compare_runs([base[0]], None, [], False, None, False, False)
    with pytest.raises(ConfigurationError, match="no repeat of itself"):
        asked(base[0], base[0], "--against", slow[0])


def test_how_many_repeats_tell_a_change(
    made: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [made(seed) for seed in (1, 2, 3)]
    assert repeats(runs, 3.0) == 0
    shown = capsys.readouterr().out
    assert "3 runs, from run to run" in shown and "IOPS per watt" in shown
    assert max(len(line) for line in shown.splitlines()) <= 80
    needed = []
    for change in (1.0, 10.0):
        assert repeats(runs, change, True) == 0
        data = json.loads(capsys.readouterr().out)
        needed.append({one["quantity"]: one["every"] for one in data["needed"]})
    assert needed[1]["iops"] < (needed[0]["iops"] or 51)
    assert repeats(runs[:1], 3.0) == 0
    assert "so these are the fewest" in capsys.readouterr().out
    with pytest.raises(ConfigurationError, match="larger than zero"):
        repeats(runs, 0.0)


def test_what_was_done_in_rounds_is_one_point_and_what_came_again_has_a_name() -> None:
    text = """
        name = "p"
        idle_before_s = 0
        idle_after_s = 0
        [[sweeps]]
        name = "fresh"
        pattern = "randread"
        duration_s = 5
        [[sweeps]]
        name = "conditioned"
        pattern = "randread"
        duration_s = 5
        [[sweeps]]
        name = "conditioned"
        pattern = "randread"
        duration_s = 5
        [[sweeps]]
        name = "writes"
        pattern = "randwrite"
        duration_s = 5
        rounds = 6
    """
    summary = summary_of(parse_plan(text, "p"))
    event = Event(0, "steady_state", {"sweep_number": 4, "round": 6, "reached": True})
    steady = steady_rounds_of([event], summary.phases)
    means = window_means(summary.phases, steady)
    summary = replace(summary, steady_rounds=steady, window_means=means)
    named = named_points(summary)
    assert list(named) == [
        "randread 4k QD1",
        "conditioned: randread 4k QD1",
        "randread 4k QD1 (2nd time)",
        "randwrite 4k QD1",
    ]
    assert [item.phase.round for item in rounds_of_mean(summary, means[0])] == [2, 3, 4, 5, 6]
    assert rounds_of_mean(summary, named["randread 4k QD1"]) == ()


def in_rounds(root: Path, watts: list[float]) -> Pair:
    """A run of one point in as many rounds; its measurement window is the last five."""
    text = f"""
        name = "p"
        idle_before_s = 0
        idle_after_s = 0
        [[sweeps]]
        name = "writes"
        pattern = "randwrite"
        duration_s = 5
        rounds = {len(watts)}
    """
    summary = summary_of(parse_plan(text, "p"))
    phases = tuple(
        replace(item, watts=Estimate(value, 0.01))
        for item, value in zip(summary.phases, watts, strict=True)
    )
    event = Event(0, "steady_state", {"sweep_number": 1, "round": len(watts), "reached": True})
    steady = steady_rounds_of([event], phases)
    means = window_means(phases, steady)
    summary = replace(summary, phases=phases, steady_rounds=steady, window_means=means)
    return record_of(root, summary), summary


def test_one_run_each_in_rounds_is_judged_by_its_rounds(tmp_path: Path) -> None:
    """By hand: the last five of 5.0 ± 0.05 W against 5.5 and against 5.02, by Student's t."""
    quiet = [0.0, 0.05, -0.05, 0.02, -0.02]
    base, more, same = (
        in_rounds(tmp_path / name, [9.0, *(watts + one for one in quiet)])
        for name, watts in (("a", 5.0), ("b", 5.5), ("c", 5.02))
    )
    found = compare([base, more, same])
    (row,) = found.quantity("watts")
    assert [len(cell.repeats) for cell in row.cells] == [0, 5, 5]
    assert {cell.basis for cell in row.cells[1:]} == {Basis.ROUNDS}
    assert row.cells[1].difference is Change.SIGNIFICANT
    assert row.cells[2].difference is Change.NOT_DISTINGUISHABLE
    assert "judged by its rounds" in comparison_text(found)


def test_a_point_that_one_repeat_lacks_is_named_and_not_judged(tmp_path: Path) -> None:
    one = summary_of(plan(qd_sweep(), qd_sweep("write", "128k")))
    less = summary_of(plan(qd_sweep()))
    runs = [
        (record_of(tmp_path / str(number), summary), summary)
        for number, summary in enumerate((one, one, one, less))
    ]
    found = compare_sides([runs[:2], runs[2:]])
    assert found.only_in["write 128k QD8"] == ("A1", "A2", "B1")
    assert all("write" not in row.point for row in found.rows)


def test_temperatures_are_compared_in_kelvins(made: Callable[..., Path]) -> None:
    """A share of °C means nothing: 40 to 42 °C is 2 K, not 5 %."""
    pairs = []
    for warmer in (0.0, 2.0):
        record = RunRecord(made(7))
        summary = summarise(record)
        warm = {"drive": TemperatureResult(40.0, 40.0 + warmer, 40.0)}
        phases = tuple(replace(item, temperatures=warm) for item in summary.phases)
        pairs.append((record, replace(summary, phases=phases)))
    found = compare(pairs)
    cell = found.quantity("celsius_max")[0].cells[1]
    assert cell.change is not None and cell.change.value == pytest.approx(2.0)
    assert "+2.0 K?" in comparison_text(found)
    for allowed, verdict in ((3, GateVerdict.PASSED), (1, GateVerdict.UNDECIDED)):
        gate = Gate(limits=parse_allowances([f"celsius_max={allowed}"]))
        checks = check_gate(found, gate).checks
        assert {(check.verdict, check.unit) for check in checks} == {(verdict, "K")}
    with pytest.raises(ConfigurationError, match="worse_kelvin"):
        parse_gate('[[limits]]\nquantity = "celsius_max"\nworse_pct = 3', "g")
