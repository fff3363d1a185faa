"""Ids that Home Assistant takes."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from labctl.sinks.mqtt.home_assistant import LONGEST_ID, device_id, identifier


@given(st.text(max_size=80))
def test_ids_have_only_what_is_allowed(name: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]+", identifier(name))
    assert len(identifier(name)) <= LONGEST_ID + 9


@given(st.text(max_size=30), st.text(max_size=30))
def test_two_names_never_become_one(one: str, other: str) -> None:
    assert (identifier(one) == identifier(other)) == (one == other)


def test_plain_names_stay() -> None:
    assert identifier("12V") == "12V"
    assert device_id("labctl", "nvme-adapter") == "labctl_nvme-adapter"
