"""What holds for all tests."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile

import pytest
from hypothesis import settings

settings.register_profile("labctl", deadline=None)  # timing belongs in make bench
settings.load_profile("labctl")

# A shell starts what is in its background with SIGINT ignored, and children inherit that; tests
# that press Ctrl-C must work there too.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests start labctl some hundred times: compiling it each time would cost as much as it does.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Threads of numpy's OpenBLAS cost each process 0.05 s of CPU to start, and none is needed here.
# labctl sets this itself; the simulated meters and numpy alone do not.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# What a test leaves of rigs, locks and queues is not this user's, nor another session's.
_DATA_HOME = tempfile.mkdtemp(prefix="labctl-tests-")
os.environ["XDG_DATA_HOME"] = _DATA_HOME
os.environ["LABCTL_HOME"] = f"{_DATA_HOME}/labctl"  # and its runs, which are else in ~/labctl-runs


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(_DATA_HOME, ignore_errors=True)
