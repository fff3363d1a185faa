"""One bench for the tests of this folder: what goes wrong with a run seldom depends on IOPS."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from instruments.simulated.bench import Bench, configure

SLOW = {"speed_divisor": 60.0}
"""Of the simulated drive: 150 IOPS at queue depth 1, and the watts of the fast one. Serving a fast
one keeps a core busy."""


@pytest.fixture(scope="package")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Running, and shared: a test leaves its drive and its meters as they were."""
    with Bench(tmp_path_factory.mktemp("faults") / "bench", configure(overrides=SLOW)) as running:
        yield running
