"""What the kernel shows of link, sensors and host without root."""

from __future__ import annotations

from pathlib import Path

import pytest

from labctl.capture.host.machine import Completed, LocalMachine
from labctl.capture.host.state import parse_cpu_model, read_host
from labctl.capture.identity.sysfs import (
    PciePlace,
    nvme_controller_of,
    parse_link,
    parse_sensors,
    read_place,
    read_sysfs_sensors,
    slow_slot,
)
from labctl.record.drive_state import PcieLink, PciePort
from tests.unit.machine_of_files import MachineOfFiles

FULL = {
    "current_link_speed": "16.0 GT/s PCIe\n",
    "current_link_width": "4\n",
    "max_link_speed": "16.0 GT/s PCIe\n",
    "max_link_width": "4\n",
}


@pytest.fixture
def machine(tmp_path: Path) -> MachineOfFiles:
    return MachineOfFiles(tmp_path)


def test_a_link_as_fast_as_the_drive_is_no_finding() -> None:
    link = parse_link(FULL)
    assert link is not None and (link.speed_gt_s, link.width) == (16.0, 4)
    assert slow_slot(link) == ""


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"current_link_speed": "8.0 GT/s PCIe"}, "runs at 8 GT/s x4, it could 16 GT/s x4"),
        ({"current_link_speed": "8 GT/s"}, "runs at 8 GT/s x4"),
        ({"current_link_width": "1"}, "runs at 16 GT/s x1"),
    ],
)
def test_a_drive_in_a_slow_slot_is_named(changed: dict[str, str], words: str) -> None:
    link = parse_link(FULL | changed)
    assert link is not None
    assert "slow slot" in slow_slot(link)
    assert words in slow_slot(link)


def test_what_the_kernel_does_not_know_of_the_link_is_no_finding() -> None:
    assert parse_link({}) is None
    assert parse_link({"current_link_speed": "Unknown", "current_link_width": "255"}) is None
    link = parse_link({"current_link_speed": "8.0 GT/s", "current_link_width": "0"})
    assert link is not None and link.width is None
    assert slow_slot(link) == ""


def test_the_controller_is_found_also_under_multipath(machine: MachineOfFiles) -> None:
    assert nvme_controller_of("sda", machine) is None
    assert nvme_controller_of("nvme3n1", machine) == "nvme3"
    machine.write("/sys/class/nvme/nvme1/nvme0c1n1/size", "8")
    machine.write("/sys/class/nvme/nvme0/nvme1c0n1/size", "8")
    assert nvme_controller_of("nvme0n1", machine) == "nvme1"
    assert nvme_controller_of("nvme1n1", machine) == "nvme0"


@pytest.mark.parametrize(
    "folder", ["hwmon3", "hwmon/hwmon3", "device/hwmon/hwmon3"], ids=["5.6 on", "SATA", "5.5"]
)
def test_the_sensors_of_a_drive_are_found_where_kernels_put_them(
    machine: MachineOfFiles, folder: str
) -> None:
    base = f"/sys/class/nvme/nvme0/{folder}"
    for name, text in (
        ("name", "nvme"),
        ("temp1_input", "41850"),
        ("temp1_label", "Composite"),
        ("temp1_max", "84850"),
        ("temp1_crit", "89850"),
        ("temp3_input", "47850"),
        ("temp3_label", "Sensor 2"),
    ):
        machine.write(f"{base}/{name}", text + "\n")
    composite, second = read_sysfs_sensors(("/sys/class/nvme/nvme0",), machine)
    assert (composite.name, composite.celsius) == ("composite", 41.85)
    assert (composite.max_celsius, composite.critical_celsius) == (84.85, 89.85)
    assert composite.path == f"{base}/temp1_input"
    assert (second.name, second.max_celsius) == ("sensor_2", None)


def test_a_sensor_without_label_or_number_is_still_a_sensor() -> None:
    (sensor,) = parse_sensors({"/h/temp1_input": "", "/h/name": "drivetemp"})
    assert (sensor.name, sensor.celsius) == ("temp1", None)


def test_the_host_is_described(machine: MachineOfFiles) -> None:
    machine.write("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Ryzen  7\n\nprocessor\t: 1\n")
    machine.write("/proc/meminfo", "MemTotal:       16308488 kB\nMemFree: 1 kB\n")
    machine.write("/etc/os-release", 'NAME=x\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n')
    machine.write("/sys/devices/system/cpu/online", "0-2,5\n")
    for cpu, governor in enumerate(("performance", "powersave", "performance")):
        machine.write(f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor", governor)
    machine.programs["uname"] = Completed(0, "box 6.1.0-18-amd64 x86_64\n", "")
    machine.programs["fio --version"] = Completed(0, "fio-3.36\n", "")
    host = read_host(machine, "io_uring")
    assert (host.name, host.kernel, host.machine) == ("box", "6.1.0-18-amd64", "x86_64")
    assert (host.cpu_model, host.cpus) == ("Ryzen 7", 4)
    assert host.governor == "performance (2), powersave (1)"
    assert host.distribution == "Debian GNU/Linux 12 (bookworm)"
    assert host.memory_bytes == 16308488 * 1024
    assert (host.fio, host.engine) == ("fio-3.36", "io_uring")


def test_a_board_without_a_processor_name_is_named_by_its_model() -> None:
    text = "processor : 0\nBogoMIPS : 108.00\n\nModel\t\t: Raspberry Pi 4 Model B Rev 1.4\n"
    assert parse_cpu_model({"/proc/cpuinfo": text}) == "Raspberry Pi 4 Model B Rev 1.4"
    assert parse_cpu_model({"/proc/device-tree/model": "Pi 5\0"}) == "Pi 5"
    assert parse_cpu_model({}) == ""


def test_a_host_that_tells_nothing_is_no_exception(machine: MachineOfFiles) -> None:
    host = read_host(machine)
    assert (host.name, host.cpu_model, host.fio, host.memory_bytes) == ("", "", "", None)


def test_this_machine_is_described() -> None:
    host = read_host(LocalMachine())
    assert host.kernel and host.machine and host.memory_bytes


def place_of(
    machine: MachineOfFiles, *ports: tuple[str, str, str, str, str], slot: str = ""
) -> PciePlace:
    """nvme0 at 0000:05:00.0 below ports: address, speed and width now, and at best."""
    names = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")
    for address, *texts in ports:
        for name, text in zip(names, texts, strict=True):
            machine.write(f"/sys/bus/pci/devices/{address}/{name}", text)
    machine.write("/sys/bus/pci/devices/0000:05:00.0/numa_node", "1\n")
    if slot:
        machine.write("/sys/bus/pci/slots/3-1/address", slot)
    above = "/".join(address for address, *_ in ports)
    path = f"/sys/devices/pci0000:00/{above}/0000:05:00.0"
    machine.links["/sys/class/nvme/nvme0/device"] = path
    return read_place("nvme0", machine)


def test_the_place_of_a_drive_is_its_ports_slot_and_node(machine: MachineOfFiles) -> None:
    root = ("0000:00:1c.4", "8.0 GT/s PCIe", "4", "8.0 GT/s PCIe", "4")
    assert place_of(machine, root, slot="0000:05:00\n") == PciePlace(
        "0000:05:00.0",
        "3-1",
        (PciePort("0000:00:1c.4", PcieLink(8.0, 4, 8.0, 4)),),
        1,
    )
    assert read_place("nvme7", machine) == PciePlace()


def test_a_slot_may_be_named_by_its_bus(machine: MachineOfFiles) -> None:
    assert place_of(machine, slot="0000:05\n").slot == "3-1"


@pytest.mark.parametrize(
    ("port", "words"),
    [
        (("0000:00:1c.4", "8.0 GT/s", "4", "8.0 GT/s", "4"), "can do no more than 8 GT/s x4"),
        (("0000:00:1c.4", "8.0 GT/s", "4", "16.0 GT/s", "4"), "could 16 GT/s x4 too: reseat"),
    ],
)
def test_whether_the_slot_or_the_seat_is_slow_is_reported(
    machine: MachineOfFiles, port: tuple[str, str, str, str, str], words: str
) -> None:
    link = parse_link(FULL | {"current_link_speed": "8.0 GT/s PCIe"})
    assert link is not None
    assert words in slow_slot(link, place_of(machine, port).ports)


def test_a_narrow_port_further_up_is_named(machine: MachineOfFiles) -> None:
    wide = ("0000:04:00.0", "16.0 GT/s", "4", "16.0 GT/s", "4")
    narrow = ("0000:00:1d.0", "8.0 GT/s", "4", "8.0 GT/s", "4")
    link = parse_link(FULL)
    assert link is not None
    message = slow_slot(link, place_of(machine, narrow, wide).ports)
    assert "port 0000:00:1d.0 above it only at 8 GT/s x4" in message
    assert slow_slot(link, place_of(machine, wide).ports) == ""


@pytest.mark.parametrize(
    ("link", "bytes_per_s"),
    [
        (PcieLink(5.0, 2), 1e9),
        (PcieLink(16.0, 4), 16e9 / 8 * 4 * 128 / 130),
        (PcieLink(64.0, 4), 30.25e9),
        (PcieLink(16.0, None), None),
    ],
)
def test_what_a_link_carries(link: PcieLink, bytes_per_s: float | None) -> None:
    assert link.bytes_per_s == (None if bytes_per_s is None else pytest.approx(bytes_per_s))
