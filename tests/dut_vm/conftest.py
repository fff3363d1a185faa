"""The test machine, booted once for all tests. Only collected when this directory is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from instruments.simulated.bench import Bench
from instruments.transports.ssh import CONFIG_VARIABLE
from tests.dut_vm.vm import DRIVE, HOST, SERIAL, DutVm, MissingPart, image_directory


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """It takes minutes and an image of its own: ``make test-vm``, or name this directory."""
    return None if any("dut_vm" in argument for argument in config.args) else True


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DutVm]:
    try:
        vm = DutVm(tmp_path_factory.mktemp("dut") / "vm", image_directory())
    except MissingPart as missing:
        pytest.exit(str(missing), returncode=2)
    with vm:
        yield vm


@pytest.fixture
def vm(machine: DutVm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DutVm:
    """The machine, for everything that this test starts."""
    monkeypatch.setenv(CONFIG_VARIABLE, str(machine.config))
    monkeypatch.setenv("LABCTL_HOME", str(tmp_path / "home"))
    return machine


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Its meters measure a simulated drive: only the workload is the machine's."""
    with Bench(tmp_path_factory.mktemp("meters") / "bench") as running:
        yield running


@pytest.fixture
def rig(bench: Bench, vm: DutVm, tmp_path: Path) -> Path:
    """The bench's meters, and the drive and its sensor in the machine."""
    file = tmp_path / "rig.toml"
    file.write_text(rig_text(bench))
    return file


def rig_text(bench: Bench, **drive: str) -> str:
    """The bench's rig with another drive; ``drive`` replaces keys of it, as TOML values."""
    keys = {
        "target": f'"{DRIVE}"',
        "engine": '"libaio"',
        "serial": f'"{SERIAL}"',
        "destructive": "true",
        "write_bytes_per_s": '"50M"',
        **drive,
    }
    sections = bench.rig.read_text().split("\n[")
    kept = [text for text in sections if not text.startswith(("drive]", "instruments.drive_temp]"))]
    kept += ["drive]\n" + "".join(f"{name} = {value}\n" for name, value in keys.items())]
    kept += [
        'instruments.drive_temp]\ndriver = "hwmon"\n'
        'directory = "/sys/class/nvme/nvme0/hwmon*"\nsensors = ["composite"]\n'
    ]
    return "\n[".join(kept).replace('host = "local"', f'host = "{HOST}"', 1)
