"""Several drives in one rig: what it says, what fio is told, and whose numbers are whose."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labctl.analysis.run.summary import summarise
from labctl.capture.drive.check_target import check_targets
from labctl.capture.identity.node import DrivePlace, Node
from labctl.capture.identity.opened_target import OpenedTarget
from labctl.capture.identity.sharing import shared_ports, what_they_share
from labctl.capture.meters.live_values import View
from labctl.capture.phases.fio_job import job_file
from labctl.capture.run.guard import GuardSample, passed
from labctl.config.estimate import estimate
from labctl.config.plan import Plan
from labctl.config.rig import Rig, parse_rig
from labctl.config.rig_file import Drive
from labctl.config.sweeps import Sweep
from labctl.errors import ConfigurationError, Refused
from labctl.fio.status import status_of
from labctl.record.drive_state import DriveState, HostState, PcieLink, PciePort
from labctl.record.phase import Pattern, Phase, Replay, Role
from labctl.record.reader import RunRecord
from labctl.service.data_dir import Home
from labctl.service.locks.rig_lock import RigBusy, RigLock
from tests.fio_result import final_result
from tests.unit import synthetic_run
from tests.unit.machine_of_files import MachineOfFiles
from tests.unit.several_drives import fio_document, several

DRIVES = """
name = "two"
[drives.left]
target = "/dev/nvme0n1"
serial = "S1"
size_bytes = "2t"
[drives.right]
target = "/dev/nvme1n1"
serial = "S2"
size_bytes = "1t"
write_bytes_per_s = "500m"
[rails.left_12V]
drive = "left"
nominal_volts = 12.0
voltage = "ina.voltage"
current = "ina.current"
[rails.right_12V]
drive = "right"
nominal_volts = 12.0
voltage = "inb.voltage"
current = "inb.current"
[temperatures]
left = { channel = "heat.composite", drive = "left" }
room = "heat.composite"
[instruments.ina]
driver = "ina2xx"
device = "i2c-1-0x40"
shunt_ohm = 0.01
shunt_tolerance_pct = 1
model = "ina226"
[instruments.inb]
driver = "ina2xx"
device = "i2c-1-0x41"
shunt_ohm = 0.01
shunt_tolerance_pct = 1
model = "ina226"
[instruments.heat]
driver = "hwmon"
directory = "/sys/class/hwmon/hwmon0"
sensors = ["composite"]
"""


def rig(text: str = DRIVES) -> Rig:
    return parse_rig(text, "two.toml")


def mistakes(text: str) -> dict[str, str]:
    with pytest.raises(ConfigurationError) as caught:
        rig(text)
    return {item.key: item.allowed for item in caught.value.mistakes}


def test_each_drive_is_seen_alone_with_its_rails_and_sensors() -> None:
    both = rig()
    seen = both.each_drive()
    assert list(seen) == ["left", "right"]
    left = seen["left"]
    assert (left.drive.serial, left.drive_key) == ("S1", "drives.left")
    assert (list(left.file.rails), list(left.temperatures)) == (["left_12V"], ["left"])
    assert [rail.drive for rail in both.rail_infos()] == ["left", "right"]
    assert both.temperature_drives() == {"left": "left"}
    assert (both.targets, both.serials) == ("/dev/nvme0n1 /dev/nvme1n1", "S1 S2")


def test_the_smallest_drive_and_the_slowest_set_size_and_time() -> None:
    both = rig()
    assert (both.size_bytes, both.write_bytes_per_s) == (1 << 40, 500 << 20)
    phases = Plan(name="w", sweeps=[Sweep(pattern=["write"], duration_s=10)]).expand(10**9)
    one, two = estimate(phases, both.write_bytes_per_s), estimate(phases, 500 << 20, 2)
    assert one.seconds == two.seconds
    assert (one.bytes_written, two.bytes_written) == (5000 << 20, 10_000 << 20)


@pytest.mark.parametrize(
    ("change", "key", "words"),
    [
        (("/dev/nvme1n1", "/dev/nvme0n1"), "drives.right.target", "drives.left, too"),
        (('"S2"', '"S1"'), "drives.right.serial", "drives.left, too"),
        (('drive = "right"\nnominal', 'drive = "up"\nnominal'), "rails.right_12V.drive", "left, r"),
        (('drive = "left" }', 'drive = "up" }'), "temperatures.left.drive", "no such drive"),
        (('serial = "S2"', 'tools = "/opt"'), "drives", "same tools"),
        (("[drives.left]", "[drive]\ntarget='x'\n[drives.left]"), "drives", "beside drive"),
    ],
)
def test_a_drive_named_twice_or_not_at_all_is_a_mistake(
    change: tuple[str, str], key: str, words: str
) -> None:
    assert words in mistakes(DRIVES.replace(*change))[key]


def test_a_rail_of_the_only_drive_names_none() -> None:
    text = DRIVES.replace("[drives.left]", "[drive]")
    before, _, after = text.partition("[drives.right]")
    text = before + after[after.index("[rails.left_12V]") :]
    assert "leave it out" in mistakes(text)["rails.left_12V.drive"]


@pytest.fixture
def machine(tmp_path: Path) -> MachineOfFiles:
    made = MachineOfFiles(tmp_path / "machine")
    made.write("/proc/sys/kernel/random/boot_id", "another machine\n")
    made.mount("/", "8:1", "/dev/sda1")
    for number in (0, 1):
        made.add_disk(f"nvme{number}n1", f"259:{number}", device__serial=f"S{number + 1}")
    return made


def test_each_target_is_checked(machine: MachineOfFiles, tmp_path: Path) -> None:
    read = Phase(0, Role.MEASURE, "s", Pattern.READ, 1.0)
    check_targets(rig(), [read], tmp_path, machine)
    write = Phase(0, Role.MEASURE, "s", Pattern.WRITE, 1.0)
    with pytest.raises(Refused, match=r"set drives\.left\.destructive"):
        check_targets(rig(), [write], tmp_path, machine)
    meant = DRIVES.replace('serial = "S1"', 'serial = "S1"\ndestructive = true')
    machine.programs["wipefs"] = machine.run(["stat", "--", "/dev/nvme0n1"])
    with pytest.raises(Refused, match=r"set drives\.right\.destructive"):
        check_targets(rig(meant), [write], tmp_path, machine)


def test_one_drive_under_two_names_is_refused(machine: MachineOfFiles, tmp_path: Path) -> None:
    alias = "/dev/disk/by-id/nvme-S1"
    machine.links[alias] = "/dev/nvme0n1"
    twice = rig(DRIVES.replace("/dev/nvme1n1", alias))
    with pytest.raises(Refused, match=r"drives\.left .* and drives\.right .* are the same drive"):
        check_targets(twice, [], tmp_path, machine)


def test_a_drive_that_another_rig_uses_makes_the_rig_busy(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    alone = DRIVES.replace('name = "two"', 'name = "other"').replace("/dev/nvme0n1", "/dev/nvme7n1")
    first = RigLock.take(home, rig(), "labctl run")
    with pytest.raises(RigBusy):
        RigLock.take(home, rig(alone), "labctl run")
    first.release()
    other = RigLock.take(home, rig(alone), "labctl run")
    with pytest.raises(RigBusy):
        RigLock.take(home, rig(), "labctl run")
    other.release()
    RigLock.take(home, rig(), "labctl run").release()


def opened(number: int) -> OpenedTarget:
    """A block device that fio is given."""
    node = Node(0o060660, f"259:{number}", 6, 0, 300 + number)
    return OpenedTarget(number, DrivePlace(f"/dev/nvme{number}n1", node, None), node)


def test_fio_works_on_all_drives_in_groups_of_their_own() -> None:
    phase = Phase(0, Role.MEASURE, "s", Pattern.READ, 3.0, 131072, queue_depth=8, jobs=2)
    drives = {
        "left": Drive(target="/dev/nvme0n1", engine="io_uring", size_bytes=1 << 30),
        "right": Drive(target="nbd://x", engine="nbd", size_bytes=1 << 30),
    }
    common, left, right = job_file(phase, drives, {"left": opened(3)}).split("\n[")
    assert {"iodepth=8", "numjobs=2", "runtime=3000ms"} <= set(common.splitlines())
    assert left.splitlines() == [
        "drive-left]",
        "new_group=1",
        "ioengine=io_uring",
        "filename=/proc/self/fd/3",
        "direct=1",
        "size=536870912",
        "offset_increment=536870912",
    ]
    assert "uri=nbd://x" in right and "new_group=1" in right


def test_a_trace_is_replayed_on_every_drive() -> None:
    phase = Phase(0, Role.MEASURE, "s", Pattern.REPLAY, 1.0, queue_depth=4, jobs=1,
                  replay=Replay("t"))  # fmt: skip
    assert rig().mistakes_with((phase,), "p") == []
    text = job_file(phase, rig().drives, {"left": opened(3), "right": opened(4)})
    for number in (3, 4):
        assert f"read_iolog=replay.log\nreplay_redirect=/proc/self/fd/{number}\n" in text
    assert text.count("new_group=1") == 2


def test_what_fio_prints_is_kept_apart_by_drive() -> None:
    document = fio_document({"left": 1000.0, "right": 3000.0}, 2.0)
    status = status_of(document)
    assert status.totals["read"].ios == 8000
    assert {name: sides["read"].ios for name, sides in status.drives.items()} == {
        "left": 2000,
        "right": 6000,
    }
    text = json.dumps(document)
    whole, right, none = (final_result(text, drive) for drive in ("", "right", "up"))
    assert whole is not None and whole.read is not None and whole.read.iops == 4000
    assert right is not None and right.read is not None
    assert (right.read.iops, right.read.latency_mean_us) == (3000, pytest.approx(8e6 / 3000))
    assert none is not None and none.read is None


def test_every_drive_has_its_own_work_and_watts_and_all_have_the_sum(tmp_path: Path) -> None:
    run = several(tmp_path)
    summary = summarise(run.record)
    left, right = summary.drives["left"], summary.drives["right"]
    assert (left.drive_serial, summary.drive_serial) == ("S-left", "S-left + S-right")
    for index in (1, 2):
        whole = summary.phases[index]
        one, other = left.phases[index], right.phases[index]
        assert (one.iops, other.iops, whole.iops) == (1000 * index, 4000 * index, 5000 * index)
        for item, rail in ((one, "12V"), (other, "3V3")):
            assert list(item.rails) == [rail]
            assert item.watts is not None and item.watts.covers(run.rail_watts[rail][index])
            assert item.iops_per_watt is not None and item.iops is not None
            assert item.iops_per_watt.value == pytest.approx(item.iops / item.watts.value)
            assert item.marginal_watts is not None
        assert whole.watts is not None and one.watts is not None and other.watts is not None
        assert whole.watts.value == pytest.approx(one.watts.value + other.watts.value)
        assert whole.watts.covers(run.mean_watts[index])
    json.dumps(summary.to_json(), allow_nan=False)


def test_watts_that_are_shared_are_the_sums_alone(tmp_path: Path) -> None:
    summary = summarise(several(tmp_path, shared=True).record)
    assert summary.phases[1].watts is not None
    for one in summary.drives.values():
        assert one.phases[1].watts is None and one.phases[1].iops_per_watt is None
        assert one.phases[1].iops


def test_the_limit_of_heat_is_of_each_drive() -> None:
    limited = rig(DRIVES + "[limits]\ncelsius = 70\n")
    sample = GuardSample(View(), {"left": 60.0, "right": 75.0}, 10**12, 1.0)
    (trip,) = passed(limited, sample)
    assert (trip.limit, trip.action) == ("celsius of right", "pause")
    assert trip.reason == "drive right is at 75 °C, the limit is 70 °C"


def test_what_one_drive_counts_is_its_own(tmp_path: Path) -> None:
    run = several(tmp_path)
    lines = []
    for name, counts in (("left", (3, 3)), ("right", (7, 9))):
        for second, count in zip((0, 25), counts, strict=True):
            smart = {"thm_temp1_trans_count": count}
            lines.append(
                {
                    "t": synthetic_run.EPOCH_NS + second * 10**9,
                    "kind": "drive_state",
                    "drive": name,
                    "smart": smart,
                }
            )
    with (run.path / "journal.jsonl").open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    summary = summarise(RunRecord(run.path))
    assert summary.drives["left"].drive_counters == {}
    assert summary.drive_counters == {"right thm_temp1_trans_count": (7, 9)}
    verdict = summary.phases[1].throttling
    assert verdict is not None and verdict.verdict == "cannot be excluded"
    assert verdict.why.startswith("right: ") or "; right: " in verdict.why


def state(*ports: tuple[str, PcieLink | None], link: PcieLink | None) -> DriveState:
    return DriveState(
        target="/dev/x",
        link=link,
        ports=tuple(PciePort(*port) for port in ports),
        host=HostState(name="box"),
    )


def test_drives_that_share_a_port_are_named_with_what_it_carries() -> None:
    full, root = PcieLink(16.0, 4, 16.0, 4), PcieLink(16.0, 4, 16.0, 4)
    switched = [
        state(("0000:00:01.0", root), ("0000:02:00.0", root), (f"0000:03:0{n}.0", full), link=full)
        for n in (0, 1)
    ]
    apart = state(("0000:40:01.0", full), link=full)
    states = {"a": switched[0], "b": switched[1], "c": apart}
    (reported,) = shared_ports(states)
    assert reported.startswith("drives a and b share port 0000:02:00.0, which carries 7.88 GB/s")
    assert "15.75 GB/s together" in reported
    wide = PcieLink(16.0, 16, 16.0, 16)
    enough = {name: state(("0000:00:01.0", wide), link=full) for name in "ab"}
    assert "as much as their links together" in next(shared_ports(enough))
    unknown = {name: state(("0000:00:01.0", None), link=full) for name in "ab"}
    assert "not known" in next(shared_ports(unknown))
    together = what_they_share(states)
    assert (together.host.name, together.findings) == ("box", (reported,))
