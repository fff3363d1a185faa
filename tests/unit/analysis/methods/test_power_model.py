"""The power model finds the truth it was made from, and says what it cannot tell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labctl.analysis.estimate import Component, Estimate
from labctl.analysis.methods.frontier import frontiers, least_watts, most_iops
from labctl.analysis.methods.power_model import fit_rail, fit_rails, model_watts
from labctl.analysis.phase_result import PhaseResult
from labctl.config.plan import Plan
from labctl.config.sweeps import Sweep
from tests.unit.analysis.methods.test_efficiency import rail
from tests.unit.report_sample import plan, qd_sweep, result_of

IDLE, READ, WRITE, BYTE = 4.0, 12e-6, 45e-6, 1.5e-9
SIZES = Sweep(pattern=["randread"], block_size=["512", "4k", "32k", "128k"], duration_s=10)
MIXED = Sweep(pattern=["randrw"], queue_depth=[2, 8], read_pct=[100, 70, 30, 0], duration_s=10)


def results(
    made: Plan, *, noise: float = 0.0, stated: float = 0.002, gain: float = 0.0, seed: int = 0
) -> tuple[PhaseResult, ...]:
    """Phases whose watts follow the truth; ``stated`` is their standard uncertainty, W."""
    random = np.random.default_rng(seed)
    found = []
    for phase in made.expand(1 << 40):
        item = result_of(phase, 0)
        reads = item.read.iops if item.read else 0.0
        writes = item.write.iops if item.write else 0.0
        watts = IDLE + READ * reads + WRITE * writes + BYTE * (item.bytes_per_s or 0.0)
        watts = watts * (1 + gain) + random.normal(0, noise) if noise else watts * (1 + gain)
        one = rail(watts, stated)
        found.append(replace(item, rails={"12V": one}, watts=Estimate(watts, one.watts.u)))
    return tuple(found)


def test_it_finds_the_truth() -> None:
    model = fit_rail(results(plan(SIZES, MIXED)), "12V")
    assert model is not None
    assert [term.name for term in model.terms] == ["idle", "read", "write", "byte"]
    assert [term.value for term in model.terms] == pytest.approx([IDLE, READ, WRITE, BYTE])
    assert max(abs(one.residual_watts) for one in model.residuals) < 1e-9
    assert model.idle_known and model.inseparable == {} and model.not_exercised == ()


def test_standard_errors_hold_the_truth_as_often_as_they_say() -> None:
    """200 runs with watts as uncertain as stated: about 95 % of U cover, each term."""
    covered = np.zeros(4)
    for seed in range(200):
        made = results(plan(SIZES, MIXED), noise=0.02, stated=0.02, seed=seed)
        bare = [
            replace(item, rails={"12V": replace(item.rails["12V"], budget=(
                Component("scatter", "A", 0.02, ""),))})
            for item in made
        ]  # fmt: skip
        model = fit_rail(bare, "12V")
        assert model is not None
        truth = (IDLE, READ, WRITE, BYTE)
        covered += [
            term.estimate.covers(value) for term, value in zip(model.terms, truth, strict=True)
        ]
    assert (covered / 200 >= 0.92).all(), covered


def test_a_gain_error_of_the_meter_is_in_u_and_not_in_the_scatter() -> None:
    model = fit_rail(results(plan(SIZES, MIXED), gain=0.015), "12V")
    assert model is not None
    for term, truth in zip(model.terms, (IDLE, READ, WRITE, BYTE), strict=True):
        assert term.estimate.covers(truth), term
        assert term.standard_error < 0.3 * term.estimate.u


def test_one_block_size_cannot_tell_a_read_from_its_bytes() -> None:
    model = fit_rail(results(plan(qd_sweep())), "12V")
    assert model is not None
    assert [term.name for term in model.terms] == ["idle", "read"]
    assert model.inseparable == {"byte": ("read",)}
    assert model.not_exercised == ("write",)
    assert model.value("read") == pytest.approx(READ + BYTE * 4096)
    assert model.value("byte") is None


def test_without_idle_the_intercept_is_extrapolated_and_said_so() -> None:
    made = [item for item in results(plan(qd_sweep())) if item.iops]
    model = fit_rail(made, "12V")
    assert model is not None and not model.idle_known


def test_a_drive_that_is_not_linear_shows_in_the_residuals_and_widens_the_errors() -> None:
    straight = fit_rail(results(plan(SIZES, MIXED)), "12V")
    bent = fit_rail(results(plan(SIZES, MIXED), noise=0.5, stated=0.002), "12V")
    assert straight is not None and bent is not None
    assert straight.birge < 0.01 < 50 < bent.birge
    for before, after in zip(straight.terms, bent.terms, strict=True):
        assert after.standard_error > 20 * before.standard_error


def test_too_few_phases_give_no_model() -> None:
    made = results(plan(qd_sweep()))
    assert fit_rail(made[:2], "12V") is None, "two phases, two terms: nothing left to judge by"
    assert fit_rail(made, "5V") is None
    assert fit_rails([]) == ()


def test_a_phase_whose_work_nobody_counted_is_not_taken_for_idle() -> None:
    made = list(results(plan(qd_sweep())))
    uncounted = replace(
        made[3], iops=None, read=None, bytes_per_s=None, rails={"12V": rail(30.0, 0.002)}
    )
    model = fit_rail([*made, uncounted], "12V")
    assert model is not None and model.value("idle") == pytest.approx(IDLE)


def test_a_throttled_phase_does_not_count() -> None:
    made = list(results(plan(qd_sweep())))
    one = made[3]
    made[3] = replace(one, throttled_s=2.0, rails={"12V": rail(99.0, 0.002)})
    model = fit_rail(made, "12V")
    assert model is not None and model.value("idle") == pytest.approx(IDLE)


@settings(max_examples=40, deadline=None)
@given(st.floats(0.1, 30), st.floats(0, 1e-4), st.floats(0, 1e-4), st.floats(0, 1e-8))
def test_any_linear_drive_is_found(idle: float, read: float, write: float, byte: float) -> None:
    made = []
    for item in results(plan(SIZES, MIXED)):
        reads = item.read.iops if item.read else 0.0
        writes = item.write.iops if item.write else 0.0
        watts = idle + read * reads + write * writes + byte * (item.bytes_per_s or 0.0)
        made.append(replace(item, rails={"12V": rail(watts, 0.001 * watts)}))
    model = fit_rail(made, "12V")
    assert model is not None
    for item in made:
        reads = item.read.iops if item.read else 0.0
        writes = item.write.iops if item.write else 0.0
        got = model.watts(reads, writes, item.bytes_per_s or 0.0).value
        assert got == pytest.approx(item.rails["12V"].watts.value, rel=1e-6)


def test_the_frontier_under_a_limit_and_for_given_iops() -> None:
    made = results(plan(qd_sweep()))
    measured = [item for item in made if item.iops]
    models = fit_rails(made)
    (line,) = frontiers(measured)
    assert [point.queue_depth for point in line.points] == [1, 2, 4, 8, 16, 32]
    each = READ + BYTE * 4096
    limit = 6.0
    answer = most_iops(line, limit, models, measured)
    assert answer.iops is not None and answer.measured is not None and answer.watts is not None
    assert answer.iops.value == pytest.approx((limit - IDLE) / each, rel=1e-6)
    assert answer.iops.u > 0
    assert answer.measured.watts.value + answer.measured.watts.u <= limit
    back = least_watts(line, answer.iops.value, models, measured)
    assert back.watts is not None and back.watts.value == pytest.approx(limit)
    assert back.measured is not None and back.measured.iops >= answer.iops.value


def test_the_frontier_never_goes_beyond_what_was_measured() -> None:
    made = results(plan(qd_sweep()))
    measured = [item for item in made if item.iops]
    models = fit_rails(made)
    (line,) = frontiers(measured)
    above = most_iops(line, 1000.0, models, measured)
    assert above.iops is not None and above.iops.value == line.points[-1].iops
    below = most_iops(line, 1.0, models, measured)
    assert below.iops is None and "below the slowest" in below.why
    too_many = least_watts(line, 1e9, models, measured)
    assert too_many.watts is None and "more than the fastest" in too_many.why
    easy = least_watts(line, 10.0, models, measured)
    assert easy.measured is not None and easy.measured.queue_depth == 1
    assert most_iops(line, 6.0, (), measured).why == "there is no power model"


def test_what_was_measured_overrules_the_model() -> None:
    """A drive that is not linear: phases took more than the line through all of them says."""
    made = results(plan(qd_sweep()))
    models = fit_rails(made)
    measured = [item for item in made if item.iops]
    hungry = [
        replace(item, watts=Estimate(8.0 + place, 0.1)) for place, item in enumerate(measured)
    ]
    (line,) = frontiers(hungry)
    none = most_iops(line, 7.0, models, hungry)
    assert none.iops is None and "below the slowest phase measured (8 W)" in none.why
    # the model alone would allow more IOPS than the second phase had at 9 W
    held = most_iops(line, 8.5, models, hungry)
    assert held.iops is not None and held.iops.value == line.points[1].iops
    assert held.why == "held to a phase that took more"


def test_a_phase_that_another_beats_is_not_on_the_frontier() -> None:
    measured = [item for item in results(plan(qd_sweep())) if item.iops]
    beaten = replace(measured[2], watts=Estimate(50.0, 0.1))
    (line,) = frontiers([*measured[:2], beaten, *measured[3:]])
    assert [point.queue_depth for point in line.points] == [1, 2, 8, 16, 32]


def test_watts_of_all_rails_add_up_and_so_does_their_doubt() -> None:
    made = results(plan(SIZES, MIXED))
    both = [replace(item, rails={**item.rails, "3.3V": item.rails["12V"]}) for item in made]
    models = fit_rails(both)
    alone = models[0].watts(1e4, 1e4, 1e8)
    together = model_watts(models, 1e4, 1e4, 1e8)
    assert (together.value, together.u) == pytest.approx((2 * alone.value, 2 * alone.u))
