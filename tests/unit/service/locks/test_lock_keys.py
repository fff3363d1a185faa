"""The names under which meters are locked."""

from __future__ import annotations

import os
from pathlib import Path

from labctl.config.rig import parse_rig
from labctl.service.locks.lock_keys import key_of_meter, keys_of_rig
from tests.unit.config.test_rig import RIG


def test_a_pseudo_terminal_is_known_by_the_path_that_leads_to_it(tmp_path: Path) -> None:
    """Its number is given to the next one as soon as it is free: here that of the first meter,
    which was unplugged, to the second."""
    ends = os.openpty()
    first, second = tmp_path / "first", tmp_path / "second"
    for link in (first, second):
        link.symlink_to(os.ttyname(ends[1]))
    assert key_of_meter(str(first)).name != key_of_meter(str(second)).name
    for end in ends:
        os.close(end)


def test_two_links_to_one_serial_port_are_one_meter(tmp_path: Path) -> None:
    port = tmp_path / "ttyUSB0"
    port.touch()
    (tmp_path / "by-id").symlink_to(port)
    assert key_of_meter(str(tmp_path / "by-id")).name == key_of_meter(str(port)).name


def test_a_visa_resource_is_one_in_any_spelling() -> None:
    names = ("TCPIP0::192.0.2.1::inst0::INSTR", "tcpip::192.0.2.1::INST0::instr")
    assert len({key_of_meter(name).name for name in names}) == 1


def test_a_meter_behind_sigrok_is_locked_by_its_port() -> None:
    rig = parse_rig(
        RIG + '[instruments.odd]\ndriver = "sigrok"\nsigrok_driver = "uni-t-ut61b-ser"\n'
        'conn = "/dev/ttyX7"\nquantity = "current"\naccuracy_pct_of_reading = 1\n'
        "accuracy_floor = 0.03\n",
        "rig.toml",
    )
    assert key_of_meter("/dev/ttyX7").name in {key.name for key in keys_of_rig(rig)}
