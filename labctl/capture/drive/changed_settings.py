"""Settings of the drive and its host that a run changes, and their values before it.

Each change is recorded before it is made (``setting_changed``), and ``settings_restored`` when it
is undone: after a run that was killed, its record lists what must be put back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from labctl.capture.identity.nvme_pages import power
from labctl.record.events import Event, EventKind

POWER_STATE, POWER_LIMIT, POWER_MEASUREMENT = "power_state", "power_limit", "power_measurement"
"""The names of the drive's settings; every other name is the path of a governor on its host."""
OF_DRIVE = {
    POWER_MEASUREMENT: "power measurement",
    POWER_LIMIT: "power limit",
    POWER_STATE: "power state",
}
"""They in words, in the order in which they are put back."""
OFF = "off"
"""Of a power measurement; one that is on is named by its generation number."""
GOVERNORS = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"

_GOVERNOR = re.compile(GOVERNORS.replace("*", r"\d+"))
_WORDS = {
    POWER_STATE: re.compile(r"[0-9]|[12][0-9]|3[01]"),
    POWER_LIMIT: re.compile(r"[0-9]{1,6}"),
    POWER_MEASUREMENT: re.compile(rf"{OFF}|[0-9]{{1,3}}"),
}
_GOVERNOR_WORD = re.compile(r"[a-z_]{1,32}")
"""Form of each setting: records are untrusted input. A power limit is the number that the drive
has for it (NVMe feature 23h)."""

Values = Mapping[str, str]
"""Settings by name, as text."""


@dataclass(frozen=True)
class Changed:
    """Settings that a run has changed: what they were ``before`` it, and what they are ``now``."""

    before: Values = field(default_factory=dict)
    now: Values = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.before)

    def and_also(self, before: Values, now: Values) -> Changed:
        """With another change added; ``before`` keeps the oldest value of each setting."""
        return Changed({**before, **self.before}, {**self.now, **now})

    def without(self, names: Iterable[str]) -> Changed:
        """Without the settings ``names``, which were put back."""
        gone = set(names)
        return self.only(self.before.keys() - gone)

    def only(self, names: Iterable[str]) -> Changed:
        """Only the settings ``names``."""
        kept = set(names)
        return Changed(
            {name: value for name, value in self.before.items() if name in kept},
            {name: value for name, value in self.now.items() if name in kept},
        )

    def __str__(self) -> str:
        """For a person: ``power state 3 (before: 0), CPU governor x (before: y)``."""
        settings = [
            f"{OF_DRIVE.get(name, 'CPU governor')} {_changed_setting_words(name, self.now[name])} "
            f"(before: {_changed_setting_words(name, self.before[name])})"
            for name in sorted(self.before)
        ]
        return ", ".join(dict.fromkeys(settings))


def left_changed(events: Iterable[Event], drive: str = "") -> Changed:
    """What a run changed and did not put back, by its events.

    ``drive``: the one of several drives, by its name in the rig.
    """
    changed = Changed()
    for event in events:
        if event.data.get("drive", "") != drive:
            continue
        if event.kind == EventKind.SETTING_CHANGED:
            before, now = (
                _changed_setting_values(event.data.get("before")),
                _changed_setting_values(event.data.get("now")),
            )
            both = before.keys() & now.keys()
            changed = changed.and_also(
                {name: before[name] for name in both}, {name: now[name] for name in both}
            )
        elif event.kind == EventKind.SETTINGS_RESTORED:
            names = event.data.get("settings")
            changed = changed.without(names if isinstance(names, list) else ())
    return changed


def _changed_setting_words(name: str, value: str) -> str:
    return power_limit_words(int(value)) if name == POWER_LIMIT else value


def power_limit_words(value: int) -> str:
    """A power limit as the drive has it, for people."""
    watts = power(value)
    return "none" if watts is None else f"{watts:g} W"


def _changed_setting_values(data: Any) -> dict[str, str]:
    if not isinstance(data, dict):
        return {}
    return {name: value for name, value in data.items() if _is_setting(name, value)}


def _is_setting(name: str, value: object) -> bool:
    known = name in OF_DRIVE or _GOVERNOR.fullmatch(name) is not None
    good = _WORDS.get(name, _GOVERNOR_WORD)
    return known and isinstance(value, str) and good.fullmatch(value) is not None
