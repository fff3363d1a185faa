"""A sweep of the simulated drive for tests of several subjects."""

from __future__ import annotations

import pytest

from tests.unit.importing.exported import (
    Bench,
    bench,
)
from tests.unit.importing.made_runs import SWEEP


@pytest.fixture(scope="module")
def sweep() -> Bench:
    return bench(SWEEP, gain=0.004)
