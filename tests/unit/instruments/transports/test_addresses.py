from __future__ import annotations

from pathlib import Path

import pytest

from instruments.transports.addresses import canonical_address, checked_resource


@pytest.mark.parametrize(
    ("resource", "message"),
    [
        ("192.168.1.20", "such as TCPIP0::192.168.1.20::5025::SOCKET"),
        ("192.168.1.20:5025", "such as TCPIP0::192.168.1.20::5025::SOCKET"),
        ("TCPIP0::192.168.1.20::5025:SOCKET", "a single ':' in '5025:SOCKET'"),
        ("TCPIP0::192.168.1.20::SOCKET", "a socket has a host and a port"),
        ("TCPIP0::::INSTR", "nothing between"),
        ("TCPIP0", "is no VISA resource"),
        ("/dev/ttyUSB0", "ASRL/dev/ttyUSB0::INSTR"),
        ("TCIP0::192.168.1.20::INSTR", "is no VISA resource"),
    ],
)
def test_what_is_no_visa_resource_is_refused(resource: str, message: str) -> None:
    with pytest.raises(ValueError) as refused:
        checked_resource(resource)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "resource",
    [
        "TCPIP::192.168.1.20::INSTR",
        "TCPIP0::dmm.lab.example::hislip0::INSTR",
        "TCPIP0::dmm::inst0",
        "USB0::0x2A8D::0x0101::MY1::INSTR",
        "USB0::10893::257::MY1::0::INSTR",
        "GPIB0::22::INSTR",
        "GPIB::22",
        "ASRL/dev/serial/by-id/usb-FTDI_x:y-if00::INSTR",
        "ASRL1",
    ],
)
def test_every_form_of_a_visa_resource_is_accepted(resource: str) -> None:
    assert checked_resource(resource) == resource


@pytest.mark.parametrize(
    "spellings",
    [
        ("TCPIP0::192.0.2.1::inst0::INSTR", "tcpip::192.0.2.1::INST0", "TCPIP1::192.0.2.1::inst0"),
        ("USB0::10893::257::MY1::0::INSTR", "usb::0x2A8D::0x0101::my1", "USB1::0x2a8d::257::MY1"),
        ("GPIB0::22::INSTR", "gpib::22"),
        ("ASRL0::INSTR", "asrl::instr"),
    ],
)
def test_one_meter_has_one_name(spellings: tuple[str, ...]) -> None:
    assert len({canonical_address(spelling) for spelling in spellings}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("USB0::10893::257::MY1::INSTR", "USB0::10893::257::MY2::INSTR"),
        ("USB0::10893::257::MY1::INSTR", "USB0::10893::258::MY1::INSTR"),
        ("USB0::10893::257::MY1::0::INSTR", "USB0::10893::257::MY1::1::INSTR"),
        ("GPIB0::22::INSTR", "GPIB1::22::INSTR"),
        ("ASRL1::INSTR", "ASRL2::INSTR"),
    ],
)
def test_two_meters_have_two_names(one: str, other: str) -> None:
    assert canonical_address(one) != canonical_address(other)


@pytest.mark.parametrize("address", ["hid/ch9325", "u/js220/1", "1a86.e008", "i2c-1-0x40"])
def test_a_meter_that_is_on_no_path_has_one_name_from_every_folder(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon works in /, a person at home: they lock the same meter."""
    monkeypatch.chdir("/")
    before = canonical_address(address)
    monkeypatch.chdir(tmp_path)
    assert canonical_address(address) == before
