from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from instruments import drivers
from labctl.capture.meters.closing_gaps import samplings, without_gap, without_ratios
from labctl.config.find_rig import EXAMPLES
from labctl.config.rig import Rig, load_rig

RIG = EXAMPLES / "sata-12v-5v.toml"


def rig_with(**changes: Any) -> Rig:
    """The rig with other settings of its two current meters, i12 (truevolt) and i5 (scpi_dmm)."""
    rig = load_rig(RIG)
    entries = {
        name: entry.model_copy(update=changes.get(name, {}))
        for name, entry in rig.file.instruments.items()
    }
    changed = replace(rig, file=rig.file.model_copy(update={"instruments": entries}))
    made = changed.create_instruments(lambda: 0)
    return replace(changed, channels={name: item.channels for name, item in made.items()})


def test_a_regular_meter_gets_what_closes_its_gap() -> None:
    truevolt, dithered = samplings(rig_with(i12={"model": "34465A", "nplc": 1, "interval_s": 0.1}))
    assert truevolt.instrument == "i12"
    assert truevolt.gap_in_words == "blind for 80% of the time, read at regular times"
    assert truevolt.remedies[0] == "nplc = 1 and interval_s = 0.021"
    assert truevolt.remedies[1].startswith("interval_s = 0.0909 ")
    assert dithered.gap_in_words == "blind for 90% of the time, read at random moments"
    assert dithered.remedies == ()


def test_one_that_is_asked_is_advised_to_dither() -> None:
    _, asked = samplings(rig_with(i5={"dither": False}))
    assert asked.gap_in_words.endswith("read at regular times") and asked.remedies == (
        "dither = true",
    )


def test_one_without_a_gap_is_left_alone() -> None:
    first, _ = samplings(rig_with(i12={"model": "34465A", "nplc": 10, "interval_s": 0.21}))
    assert first.gap_in_words == "blind for 5% of the time, read at regular times"
    assert first.remedies == ()


DMM6500 = {
    "resource": "TCPIP0::meter::inst0::INSTR",
    "model": "DMM6500",
    "function": "voltage",
    "range": 10.0,
}


@pytest.mark.parametrize(
    ("nplc", "interval_s", "closed"),
    [
        (1.0, 0.1, (4, 0.084)),
        (0.2, 0.011, (0.2, 0.0042)),
        (1.0, 0.5, (12, 0.26)),
        (2.0, 0.05, (2, 0.042)),
    ],
)
def test_what_leaves_no_gap(nplc: float, interval_s: float, closed: tuple[float, float]) -> None:
    model = drivers.settings_model("dmm6500")
    settings: Any = model.model_validate({**DMM6500, "nplc": nplc, "interval_s": interval_s})
    found = without_gap(settings)
    assert found == pytest.approx(closed)
    model.model_validate({**DMM6500, "nplc": found[0], "interval_s": found[1]})


@pytest.mark.parametrize("interval_s", [0.011, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0])
def test_an_interval_without_ratios_beats_soon_with_every_usual_period(interval_s: float) -> None:
    found = without_ratios(interval_s, 0.004)
    assert found == pytest.approx(interval_s, rel=0.1)
    for period_s in (0.05, 0.1, 0.2, 0.5, 1.0):
        cycles = found / period_s
        if cycles >= 0.5:
            assert abs(cycles - round(cycles)) > 0.04, period_s
