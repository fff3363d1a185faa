"""A mapping that a person wrote: what cannot be is refused with its key."""

from __future__ import annotations

import pytest

from labctl.errors import ConfigurationError
from labctl.importing.mapping import parse_mapping
from tests.unit.test_docs import ROOT

TEXT = (ROOT / "docs" / "examples" / "import" / "psu.toml").read_text()
AMPS = 'amps = { column = "12V current (A)" }'

WRONG = {
    'zone = "Nowhere/X"': ('zone = ""', "zone = 'Nowhere/X': .*no such zone: say UTC"),
    'zone = "../../../etc/passwd"': ('zone = ""', "no such zone: say UTC"),
    'amps = { column = "12V current (A)", unit = "mB" }': (AMPS, "unit must be one of V, mV"),
    'delimiter = "."': ('delimiter = ","', "delimiter and decimal must differ"),
    "time = [0]": ('time = ["Timestamp"]', r"time\[0\].*must be greater than or equal to 1"),
    "channel_column = 0": ('zone = ""', "channel_column"),
    "first_line = 1": ("first_line = 2", "first_line must come after heading_line"),
    "interval_s = 0.1": ('time_format = "iso"', "time_format"),
    'time_format = "rows"': ('time_format = "iso"', "interval_s goes with the time_format rows"),
    "stated = { volts = 12, tolerance_pct = 5 }": (AMPS, "stated volts go with amps alone"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_is_refused(wrong: str) -> None:
    right, why = WRONG[wrong]
    assert TEXT.count(right) == 1
    with pytest.raises(ConfigurationError, match=why):
        parse_mapping(TEXT.replace(right, wrong), "psu.toml")


@pytest.mark.parametrize("zone", ["", "UTC", "+02:00", "-0530", "Europe/Berlin"])
def test_a_zone_is_a_name_or_an_offset(zone: str) -> None:
    text = TEXT.replace('zone = ""', f'zone = "{zone}"')
    assert parse_mapping(text, "psu.toml").meters[0].zone == zone
