"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("labctl", deadline=None)  # timing belongs in make bench
settings.load_profile("labctl")
