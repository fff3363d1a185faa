"""What holds for all tests."""

from __future__ import annotations

import os
import signal

from hypothesis import settings

settings.register_profile("labctl", deadline=None)  # timing belongs in make bench
settings.load_profile("labctl")

# A shell starts what is in its background with SIGINT ignored, and children inherit that; tests
# that press Ctrl-C must work there too.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests start labctl some hundred times: compiling it each time would cost as much as it does.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
