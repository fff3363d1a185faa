from __future__ import annotations

import pytest

from instruments.child_process import start_until_ready

SLOW_TO_END = "trap 'sleep 2; exit 7' TERM; while :; do sleep 0.05; done"


def test_a_child_that_is_not_ready_in_time_has_its_own_time_to_end() -> None:
    with pytest.raises(RuntimeError, match="exit status 7"):
        start_until_ready(["sh", "-c", SLOW_TO_END], "the child", 1.0)
