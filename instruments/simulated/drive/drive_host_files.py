"""Fakes the host's view of the simulated drive: a hwmon directory and an ``nvme`` command.

Layouts: the kernel's ``Documentation/hwmon/sysfs-interface`` and ``nvme`` hwmon driver; what
nvme-cli prints with ``--raw-binary``. Temperatures are millidegrees Celsius in the one and whole
kelvins in the other.
"""

from __future__ import annotations

from pathlib import Path

from instruments.simulated.drive.model import DriveModel
from instruments.simulated.drive.nvme_structures import (
    ExtendedSmartLog,
    IdentifyController,
    IdentifyNamespace,
    LbaFormat,
    SmartLog,
    counter,
    power,
)
from instruments.simulated.drive.own_power_meter import OwnPowerMeter
from instruments.simulated.drive.state_ring import replace_bytes, replace_text

_KELVIN = 273.15
_DATA_UNIT_BYTES = 512_000  # NVMe base specification, SMART log: thousands of 512 bytes
_MINUTE_NS, _SECOND_NS = 60_000_000_000, 1_000_000_000
_BLOCK_SHIFT = 9
_HAS_POWER_LIMIT, _HAS_POWER_MEASUREMENT = 1 << 20, 1 << 21
_WATTS_PER_UNIT = {1: 0.0001, 2: 0.01}
_POWER_STATE, _POWER_LIMIT, _POWER_THRESHOLD, _POWER_MEASUREMENT = 0x02, 0x23, 0x24, 0x25
"""Features; the last is the log page, too."""
_SMART, _EXTENDED_SMART = 0x02, 0xC0
_EXTENDED_SMART_GUID = 0xAFD514C97C6F4F9CA4F2BFEA2810AFC5
"""OCP Datacenter NVMe SSD Specification, log page C0h."""
_EXTENDED_SMART_VERSION = 5
_MOST_IN_A_BYTE = 255

_SHIM = """#!/bin/sh
# Answers as nvme-cli does, for the simulated drive of this directory.
state=$(dirname "$0")/nvme-state
command=$1
[ $# -gt 0 ] && shift
device= feature= value= page= bytes= raw=no opcode= cdw10= cdw13=0
while [ $# -gt 0 ]; do
    case $1 in
        -b | --raw-binary) raw=yes ;;
        --feature-id=*) feature=$((${1#*=})) ;;
        --value=*) value=${1#*=} ;;
        --log-id=*) page=$((${1#*=})) ;;
        --log-len=*) bytes=${1#*=} ;;
        --opcode=*) opcode=$((${1#*=})) ;;
        --cdw10=*) cdw10=$((${1#*=})) ;;
        --cdw13=*) cdw13=$((${1#*=})) ;;
        -*) ;;
        *) device=$1 ;;
    esac
    shift
done
if [ -z "$device" ]; then
    echo "$command: Invalid argument" >&2
    exit 22
fi
if [ ! -x "$state" ]; then
    echo "$device: Permission denied" >&2
    exit 1
fi
set_feature() {
    if [ ! -e "$state/feature-$1" ] || { [ "$1" = 2 ] && ! grep -qx "$2" "$state/power-states"; }
    then
        echo "NVMe status: Invalid Field in Command(0x2002)" >&2
        exit 1
    fi
    name=feature
    [ "$1" = 37 ] && name=command
    echo "$2" > "$state/.$name-$1" && mv "$state/.$name-$1" "$state/$name-$1"
    tries=0
    while [ -e "$state/command-37" ]; do  # until the drive has taken it up
        tries=$((tries + 1))
        [ $tries -gt 1000 ] && exit 1
        sleep 0.01
    done
}
case $command in
    id-ctrl | id-ns) file=$command ;;
    get-log) file=log-$page ;;
    set-feature) set_feature "$feature" "$value"; exit 0 ;;
    admin-passthru)
        if [ "$opcode" != 9 ]; then
            echo "the simulated nvme passes Set Features only: --opcode=0x09" >&2
            exit 22
        fi
        set_feature "$cdw10" "$cdw13"
        exit 0 ;;
    get-feature)
        if [ ! -e "$state/feature-$feature" ]; then
            echo "NVMe status: Invalid Field in Command(0x2002)" >&2
            exit 1
        fi
        printf 'get-feature:0x%02x (Feature), Current value:0x%08x\\n' \\
            "$feature" "$(cat "$state/feature-$feature")"
        exit 0 ;;
    *) echo "ERROR: Invalid sub-command '$command' for global command nvme" >&2; exit 1 ;;
esac
if [ $raw = no ]; then
    echo "the simulated nvme answers in bytes only: --raw-binary" >&2
    exit 22
fi
if [ ! -e "$state/$file.bin" ]; then
    echo "NVMe status: Invalid Log Page(0x109)" >&2
    exit 1
fi
exec head -c "${bytes:-4096}" "$state/$file.bin"
"""


class DriveHostFiles:
    """Keeps the files up to date; each is replaced atomically, so a reader sees a whole file."""

    def __init__(self, directory: Path, ssd: DriveModel) -> None:
        self._ssd = ssd
        own = ssd.parameters.own_power
        self._own_power = None if own is None else OwnPowerMeter(ssd, own)
        self._hwmon = directory / "hwmon"
        self._state = directory / "nvme-state"
        self._hottest_celsius = ssd.composite_celsius
        self._power_state_changes = 0
        self._hwmon.mkdir()
        self._state.mkdir()
        heat = ssd.parameters.thermal
        for name, text in (
            ("name", "nvme"),
            ("temp1_label", "Composite"),
            ("temp1_max", str(round(heat.warning_celsius * 1000))),
            ("temp1_crit", str(round(heat.critical_celsius * 1000))),
            ("temp2_label", "Sensor 1"),
        ):
            (self._hwmon / name).write_text(text + "\n", encoding="ascii")
        self._write_page("id-ctrl", bytes(self._controller()))
        self._write_page("id-ns", bytes(self._namespace()))
        count = 1 + len(ssd.parameters.identity.lower_max_power_watts)
        replace_text(self._state / "power-states", "".join(f"{n}\n" for n in range(count)))
        self._set_feature(_POWER_STATE, ssd.power_state)
        self._set_feature(_POWER_LIMIT, 0)
        if self._own_power is not None:
            self._set_feature(_POWER_THRESHOLD, 0)
            self._set_feature(_POWER_MEASUREMENT, 0)
            self._write_page(f"log-{_POWER_MEASUREMENT}", self._own_power.page())
        self.update_temperatures()
        self.update_smart_log()
        shim = directory / "nvme"
        shim.write_text(_SHIM, encoding="ascii")
        shim.chmod(0o755)

    def update_temperatures(self) -> None:
        """Write the temperatures of hwmon."""
        self._hottest_celsius = max(self._hottest_celsius, self._ssd.composite_celsius)
        for name, celsius in (
            ("temp1_input", self._ssd.composite_celsius),
            ("temp2_input", self._ssd.case_celsius),
        ):
            replace_text(self._hwmon / name, f"{round(celsius * 1000)}\n")

    def read_features(self) -> None:
        """Take up what the host has set, and complete an interval of the own measurement."""
        state = self._feature(_POWER_STATE) & 0x1F
        self._power_state_changes += state != self._ssd.power_state
        self._ssd.power_state = state
        limit = self._feature(_POWER_LIMIT)
        unit = _WATTS_PER_UNIT.get(limit >> 16 & 0b11)
        self._ssd.power_limit_watts = None if unit is None else (limit & 0xFFFF) * unit or None
        own = self._own_power
        if own is None:
            return
        command = self._state / f"command-{_POWER_MEASUREMENT}"
        changed, commanded = own.advance(), command.exists()
        if commanded:
            value = int(command.read_text(encoding="ascii"))
            own.set(value)
            self._set_feature(_POWER_MEASUREMENT, value)
        if changed or commanded:
            self._write_page(f"log-{_POWER_MEASUREMENT}", own.page())
        if commanded:  # one that came since then is taken up in turn
            command.unlink()

    def update_smart_log(self) -> None:
        """Write what the SMART log and the extended one give."""
        self._write_page(f"log-{_SMART}", bytes(self._smart_log()))
        self._write_page(f"log-{_EXTENDED_SMART}", bytes(self._extended_smart_log()))

    def _write_page(self, name: str, page: bytes) -> None:
        replace_bytes(self._state / f"{name}.bin", page)

    def _set_feature(self, feature: int, value: int) -> None:
        replace_text(self._state / f"feature-{feature}", f"{value}\n")

    def _feature(self, feature: int) -> int:
        return int((self._state / f"feature-{feature}").read_text(encoding="ascii"))

    def _smart_log(self) -> SmartLog:
        ssd = self._ssd
        identity, heat = ssd.parameters.identity, ssd.parameters.thermal
        written = identity.bytes_written_before + ssd.written_bytes
        hours = identity.power_on_hours + sum(ssd.level_ns) / (60 * _MINUTE_NS)
        log = SmartLog(
            critical_warning=2 if ssd.composite_celsius >= heat.warning_celsius else 0,
            composite_kelvin=_drive_host_kelvin(ssd.composite_celsius),
            available_spare=100,
            spare_threshold=10,
            percentage_used=min(written * 100 // identity.endurance_bytes, 255),
            data_units_read=counter(-(-ssd.read_bytes // _DATA_UNIT_BYTES)),
            data_units_written=counter(-(-written // _DATA_UNIT_BYTES)),
            host_reads=counter(ssd.reads),
            host_writes=counter(ssd.writes),
            busy_minutes=counter(ssd.busy_ns // _MINUTE_NS),
            power_cycles=counter(identity.power_cycles),
            power_on_hours=counter(int(hours)),
            warning_minutes=ssd.warning_ns // _MINUTE_NS,
            critical_minutes=ssd.critical_ns // _MINUTE_NS,
            interval_power=0 if self._own_power is None else power(self._own_power.interval_watts),
        )
        log.sensor_kelvin[0] = _drive_host_kelvin(ssd.case_celsius)
        if ssd.parameters.throttle.counted:
            log.thermal_transitions[:] = ssd.transitions[1:]
            log.thermal_seconds[:] = [ns // _SECOND_NS for ns in ssd.level_ns[1:]]
        return log

    def _extended_smart_log(self) -> ExtendedSmartLog:
        ssd = self._ssd
        log = ExtendedSmartLog(
            media_bytes_written=counter(
                ssd.parameters.identity.bytes_written_before + ssd.written_bytes
            ),
            media_bytes_read=counter(ssd.read_bytes),
            power_state_changes=self._power_state_changes,
            hottest_celsius=round(self._hottest_celsius),
            page_version=_EXTENDED_SMART_VERSION,
        )
        if ssd.parameters.throttle.counted:
            log.throttling_events = min(sum(ssd.transitions[1:]), _MOST_IN_A_BYTE)
            log.throttling_status = ssd.throttle_level
        log.guid[:] = _EXTENDED_SMART_GUID.to_bytes(16, "little")
        return log

    def _controller(self) -> IdentifyController:
        p = self._ssd.parameters
        powers = (p.identity.max_power_watts, *p.identity.lower_max_power_watts)
        measures = 0 if self._own_power is None else _HAS_POWER_MEASUREMENT
        found = IdentifyController(
            serial_number=p.identity.serial.ljust(20).encode("ascii"),
            model_number=p.identity.model.ljust(40).encode("ascii"),
            firmware_revision=p.identity.firmware.ljust(8).encode("ascii"),
            version=0x20300,
            controller_attributes=_HAS_POWER_LIMIT | measures,
            power_states_minus_one=len(powers) - 1,
            warning_kelvin=_drive_host_kelvin(p.thermal.warning_celsius),
            critical_kelvin=_drive_host_kelvin(p.thermal.critical_celsius),
            total_capacity=counter(p.identity.capacity_bytes),
            host_thermal_management=1,
            minimum_thermal_kelvin=_drive_host_kelvin(p.throttle.light.leave_celsius),
            maximum_thermal_kelvin=_drive_host_kelvin(p.throttle.heavy.enter_celsius),
            namespaces=1,
        )
        for descriptor, watts in zip(found.power_states, powers, strict=False):
            descriptor.maximum_power = round(watts * 100)  # in 0.01 W: scale 0
            descriptor.idle_power = round(p.power.idle_watts * 100)
            descriptor.idle_power_scale = 2 << 6
        return found

    def _namespace(self) -> IdentifyNamespace:
        blocks = self._ssd.parameters.identity.capacity_bytes >> _BLOCK_SHIFT
        found = IdentifyNamespace(
            size_blocks=blocks, capacity_blocks=blocks, used_blocks=blocks, deallocate_features=1
        )
        found.formats[0] = LbaFormat(data_shift=_BLOCK_SHIFT)
        return found


def _drive_host_kelvin(celsius: float) -> int:
    return round(celsius + _KELVIN)
