"""The sample of the report's tests is whole."""

from __future__ import annotations

import pytest

from labctl.record.phase import Role
from tests.unit.report_sample import DEPTHS, plan, qd_sweep, summary_of


@pytest.mark.parametrize("rails", [(), ("12V",), ("12V", "3.3V"), ("12V", "5V", "3.3V")])
def test_a_sample_run_has_every_phase_of_its_plan(rails: tuple[str, ...]) -> None:
    summary = summary_of(plan(qd_sweep()), rails=rails)
    assert [item.phase.role for item in summary.phases].count(Role.MEASURE) == len(DEPTHS)
    assert all(tuple(item.rails) == rails for item in summary.phases)
