from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
import tty
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from instruments import drivers, identify
from instruments.errors import DriverUnusable
from instruments.instrument import Instrument
from instruments.reading import Status
from labctl.config.rig import parse_rig
from labctl.errors import ConfigurationError

EXAMPLE = Path(__file__).parents[4] / "docs" / "examples" / "labctl-acme-meter"
RIG = """
name = "bench"
[drive]
model = "M"
engine = "io_uring"
target = "/dev/null"
[rails.12V]
nominal_volts = 12.0
voltage = "v12.voltage"
current = "i12.current"
[instruments.v12]
driver = "acme42"
port = "/dev/ttyUSB0"
"""


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example package with the metadata that its build back end makes of its pyproject."""
    site = tmp_path_factory.mktemp("site")
    package = shutil.copytree(EXAMPLE, site / "src")
    make = [sys.executable, "-c", "from setuptools import setup; setup()"]
    make += ["-q", "egg_info", "--egg-base", str(site)]
    subprocess.run(make, cwd=package, check=True, capture_output=True)
    shutil.copy(package / "labctl_acme_meter.py", site)
    assert list(site.glob("*.egg-info/entry_points.txt"))
    return site


@pytest.fixture
def installed(example: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(example)
    yield
    sys.modules.pop("labctl_acme_meter", None)


class Acme:
    """The meter, on a pseudo terminal."""

    def __init__(self) -> None:
        self.master, self.slave = os.openpty()
        tty.setraw(self.slave)
        self.port = os.ttyname(self.slave)

    def send_when_asked(self, *lines: str) -> threading.Thread:
        def serve() -> None:
            assert os.read(self.master, 1) == b"?"
            for line in lines:
                os.write(self.master, line.encode("ascii"))

        thread = threading.Thread(target=serve)
        thread.start()
        return thread

    def close(self) -> None:
        os.close(self.master)
        os.close(self.slave)


def test_a_driver_of_another_package_reads_a_meter(installed: None) -> None:
    assert "acme42" in drivers.names()
    acme = Acme()
    instrument = drivers.create("v12", "acme42", {"port": acme.port}, time.monotonic_ns)
    try:
        assert isinstance(instrument, Instrument)
        serving = acme.send_when_asked("DCV +0.1", "\r\nACME 42 SN0001\r\n")
        assert str(instrument.open()) == "Acme 42 SN0001"
        serving.join()
        instrument.start()
        os.write(acme.master, b"DCV +12.0340 V\r\nDCV OL\r\nACV +1.0 V\r\n?!\r\nDCV +12.03")
        statuses: list[Status] = []
        values: list[float] = []
        while len(values) + len(statuses) < 4:
            batch = instrument.read()
            values += [value for block in batch.blocks for value in block.values]
            statuses += [status.status for status in batch.statuses]
        assert values == [12.034]
        assert statuses == [Status.OVERLOAD, Status.WRONG_FUNCTION, Status.UNREADABLE]
    finally:
        instrument.close()
        acme.close()


def test_its_meter_is_found_at_a_port(installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    signs = [(name, sign) for name, sign in drivers.serial_signs() if name == "acme42"]
    monkeypatch.setattr(drivers, "serial_signs", lambda: signs)
    acme = Acme()
    serving = acme.send_when_asked("DCV +0.1", "\r\nACME 42 SN0001\r\n")
    found = identify.identify_address(acme.port)
    serving.join()
    acme.close()
    assert (found.driver, found.identity) == ("acme42", "Acme 42")
    assert identify.rig_lines(found, "v12")[1:] == ['driver = "acme42"', f'port = "{acme.port}"']


def test_its_settings_are_checked_like_any_other(installed: None) -> None:
    with pytest.raises(ValidationError, match="colour"):
        drivers.create("v12", "acme42", {"port": "x", "colour": 1}, time.monotonic_ns)
    assert set(drivers.settings_model("acme42").model_fields) == {"port"}


def test_it_is_not_imported_before_it_is_used(installed: None) -> None:
    drivers.names()
    assert "labctl_acme_meter" not in sys.modules


def test_without_the_package_the_name_is_unknown() -> None:
    assert "acme42" not in drivers.names()
    with pytest.raises(KeyError):
        drivers.settings_model("acme42")


def package(site: Path, points: str, code: str = "") -> None:
    info = site / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[labctl.instruments]\n{points}\n")
    (site / "broken_driver.py").write_text(code)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import nothing_like_it", "driver acme42 of broken cannot be loaded: ModuleNotFound"),
        ("DRIVER = 1", "is a int, not an instruments.drivers.Driver"),
    ],
)
def test_a_broken_package_is_a_mistake_of_the_rig_that_uses_it(
    code: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(tmp_path, "acme42 = broken_driver:DRIVER", code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken_driver", raising=False)
    with pytest.raises(DriverUnusable, match=message):
        drivers.settings_model("acme42")
    with pytest.raises(ConfigurationError, match="acme42"):
        parse_rig(RIG, "bench.toml")
    monkeypatch.delitem(sys.modules, "broken_driver", raising=False)


def test_a_built_in_driver_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path, "hwmon = broken_driver:DRIVER", "raise RuntimeError")
    monkeypatch.syspath_prepend(tmp_path)
    settings: dict[str, Any] = {"directory": "nvme", "sensors": ["composite"]}
    assert drivers.create("t", "hwmon", settings, time.monotonic_ns).channels
    assert drivers.names().count("hwmon") == 1
