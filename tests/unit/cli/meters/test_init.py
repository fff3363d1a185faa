"""``labctl init``: what it makes of the instruments that answered, without any."""

from __future__ import annotations

import io
import tomllib
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from instruments import identify
from instruments.identify import FoundInstrument
from labctl.cli.meters.init import init
from labctl.config.rig import parse_rig

SIGROK = {"sigrok_driver": "uni-t-ut61b-ser", "conn": "/dev/ttyUSB7"}
LIMITS = """voltage_pct_of_reading = 0.1
voltage_floor_volts = 0.001
current_pct_of_reading = 0.1
current_floor_amps = 0.001
"""


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a rig of rails and of what is found at their addresses: its text."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LABCTL_HOME", str(tmp_path / "home"))
    # a meter's lock is the whole machine's, and another's tests may have it
    monkeypatch.setattr("labctl.cli.meters.init.holding_meter", lambda *_: nullcontext())

    def make(found: dict[str, FoundInstrument], *rails: str) -> str:
        monkeypatch.setattr(identify, "identify_address", found.__getitem__)
        init("mine", drive="/nowhere/scratch", rail=list(rails), size="1g")
        return (tmp_path / "rigs" / "mine.toml").read_text()

    return make


def test_what_is_known_of_a_serial_meter_stays_known(made: Any) -> None:
    at = "/dev/ttyUSB7"
    for settings in (SIGROK, {"chip": "es51986"}):
        driver = "sigrok" if settings is SIGROK else "es51922"
        found = {at: FoundInstrument(at, "a meter", driver, settings=settings)}
        text = made(found, f"12V,amps={at},fixed=5")
        assert settings.items() <= tomllib.loads(text)["instruments"]["i12"].items()
        Path("rigs/mine.toml").unlink()


def test_a_chip_is_named_by_its_bus_and_address(made: Any) -> None:
    at = "i2c-1-0x40", "i2c-1-0x41"
    found = {a: FoundInstrument(a, "INA226", "ina2xx", "ina226") for a in at}
    text = made(
        found, *(f"{n},amps={a},volts={a}" for n, a in zip(("12V", "3V3"), at, strict=True))
    )
    meters = tomllib.loads(text)["instruments"]
    assert [meters[name]["device"] for name in ("m12", "m33")] == list(at)


@pytest.mark.parametrize(
    ("driver", "model", "at", "rails"),
    [
        ("quarch", "", "usb::QTL1999-02-020", ["12V", "3V3"]),
        ("elmorlabs_pmd", "PMD2", "/dev/ttyACM0", ["atx_12v", "atx_3v3"]),
    ],
)
def test_an_instrument_of_several_rails_is_there_once(
    made: Any, driver: str, model: str, at: str, rails: list[str]
) -> None:
    found = {at: FoundInstrument(at, "it", driver, model)}
    text = made(found, f"12V,amps={at},volts={at}", f"3V3,amps={at},volts={at}")
    (name,) = tomllib.loads(text)["instruments"]
    assert tomllib.loads(text)["instruments"][name]["rails"] == rails
    filled = text.replace("# voltage_pct_of_reading = ?", LIMITS + "#")
    rig = parse_rig(filled, "mine.toml")
    channels = {channel.name for channel in rig.channels[name]}
    assert {f"{q}_{rail}" for q in ("voltage", "current") for rail in rails} <= channels


def test_a_power_analyser_of_a_rail_records_its_volts_and_amps_on_dc(made: Any) -> None:
    at = "TCPIP0::wt::INSTR"
    text = made({at: FoundInstrument(at, "WT", "wt300", "WT310E")}, f"12V,amps={at},volts={at}")
    wanted = {"coupling": "dc", "voltage_range": 15, "current_range": 2}
    meter = tomllib.loads(text)["instruments"]["m12"]
    assert wanted.items() <= meter.items() and meter["quantities"] == ["voltage", "current"]
    parse_rig(text.replace("quantities = ", LIMITS + "quantities = "), "mine.toml")


def test_a_person_is_shown_what_is_on_no_port(
    made: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    at = "i2c-1-0x40"
    chip = FoundInstrument(at, "INA226", "ina2xx", "ina226")
    module = FoundInstrument("usb::QTL1999", "Quarch", "quarch")
    monkeypatch.setattr(identify, "power_monitors", lambda: [chip])
    monkeypatch.setattr(identify, "quarch_modules", lambda: [module])
    answers = [at, "", "12V", "1", "1", ""]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(answers)))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert 'device = "i2c-1-0x40"' in made({at: chip})
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in shown if line.endswith(("INA226", "Quarch"))] == [
        at,
        module.address,
    ]


def test_more_volts_than_any_range_has_take_the_largest(made: Any) -> None:
    at = "TCPIP0::wt::INSTR"
    found = {at: FoundInstrument(at, "WT", "wt300", "WT310E")}
    text = made(found, f"12V,amps={at},volts={at},nominal=3300")
    assert "voltage_range = 600" in text
