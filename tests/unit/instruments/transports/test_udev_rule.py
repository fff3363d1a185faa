from __future__ import annotations

import pytest

from instruments.transports import udev_rule as module
from instruments.transports.serial_ports import SerialPort
from instruments.transports.udev_rule import may_not_open, udev_rule

RULE = (
    'SUBSYSTEM=="{}", {a}{{idVendor}}=="{}", {a}{{idProduct}}=="{}", MODE="0660", '
    'GROUP="dialout", TAG+="uaccess"'
)


def test_a_usb_meter_has_a_rule_for_its_vendor_and_product() -> None:
    rule = RULE.format("usb", "2a8d", "0101", a="ATTR")
    assert udev_rule("USB0::0x2A8D::0x0101::MY1::INSTR") == rule
    assert udev_rule("USB0::10893::257::MY1::0::INSTR") == rule  # as PyVISA-py lists it
    rigol = RULE.format("usb", "1ab1", "04ce", a="ATTR")
    assert udev_rule("USB0::6833::1230::DM3R1::0::INSTR") == rigol


def test_a_serial_port_has_the_rule_of_its_adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    port = SerialPort("/dev/ttyUSB7", vid=0x1A86, pid=0x7523)
    monkeypatch.setattr(module, "connected_ports", lambda: [port])
    rule = RULE.format("tty", "1a86", "7523", a="ATTRS")
    assert udev_rule("/dev/ttyUSB7") == rule == udev_rule("ASRL/dev/ttyUSB7::INSTR")
    assert udev_rule("/dev/ttyUSB8") == udev_rule("") == ""


@pytest.mark.parametrize("address", ["TCPIP0::h::5025::SOCKET", "GPIB0::22::INSTR", "ASRL1::INSTR"])
def test_what_is_not_on_usb_has_none(address: str) -> None:
    assert udev_rule(address) == ""


def test_a_message_that_rights_are_missing_is_known() -> None:
    assert may_not_open("i12: this user may not open it (group dialout?)")
    assert may_not_open("[Errno 13] Access denied (insufficient permissions)")
    assert not may_not_open("there is no such port; is it plugged in?")
