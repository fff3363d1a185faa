"""Fakes the host's view of the simulated drive: a hwmon directory and an ``nvme`` command.

Layouts: the kernel's ``Documentation/hwmon/sysfs-interface`` and ``nvme`` hwmon driver;
``nvme-print-json.c`` of nvme-cli 2. Temperatures are millidegrees Celsius in the one and whole
kelvins in the other.
"""

from __future__ import annotations

import json
from pathlib import Path

from instruments.simulated.drive.model import DriveModel
from instruments.simulated.drive.state_ring import replace_text

_KELVIN = 273.15
_DATA_UNIT_BYTES = 512_000  # NVMe base specification, SMART log: thousands of 512 bytes
_MINUTE_NS, _SECOND_NS = 60_000_000_000, 1_000_000_000

_UNKNOWN_OF_POWER_STATE = (
    "max_power_scale non-operational_state entry_lat exit_lat read_tput read_lat write_tput "
    "write_lat active_power active_power_work active_scale"
)

_SHIM = """#!/bin/sh
# Answers as nvme-cli does, for the simulated drive of this directory.
state=$(dirname "$0")/nvme-state
command=$1
[ $# -gt 0 ] && shift
json=no
device=
feature=
value=
while [ $# -gt 0 ]; do
    case $1 in
        -o | --output-format) [ "$2" = json ] && json=yes; shift ;;
        -ojson | --output-format=json) json=yes ;;
        -f | --feature-id) feature=$2; shift ;;
        --feature-id=*) feature=${1#*=} ;;
        -V | --value) value=$2; shift ;;
        --value=*) value=${1#*=} ;;
        -*) ;;
        *) device=$1 ;;
    esac
    [ $# -gt 0 ] && shift
done
case $command in
    smart-log | id-ctrl)
        if [ -z "$device" ]; then
            echo "$command: Invalid argument" >&2
            exit 22
        fi ;;
    list) ;;
    get-feature | set-feature)
        if [ -z "$device" ] || [ "$feature" != 2 ]; then
            echo "the simulated nvme has power management only: -f 2 and a device" >&2
            exit 22
        fi
        if [ "$command" = set-feature ]; then
            if ! grep -qx "$value" "$state/power-states"; then
                echo "NVMe status: Invalid Field in Command(0x2002)" >&2
                exit 1
            fi
            echo "$value" > "$state/.power-state" && mv "$state/.power-state" "$state/power-state"
        fi
        printf '%s:0x02 (Power Management), Current value:0x%08x\\n' \\
            "$command" "$(cat "$state/power-state")"
        exit 0 ;;
    *) echo "ERROR: Invalid sub-command '$command' for global command nvme" >&2; exit 1 ;;
esac
if [ $json = no ]; then
    echo "the simulated nvme answers in JSON only: -o json" >&2
    exit 22
fi
exec cat "$state/$command.json"
"""


class DriveHostFiles:
    """Keeps the files up to date; each is replaced atomically, so a reader sees a whole file."""

    def __init__(self, directory: Path, ssd: DriveModel) -> None:
        self._ssd = ssd
        self._hwmon = directory / "hwmon"
        self._state = directory / "nvme-state"
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
        self._write_json("id-ctrl", self._id_ctrl())
        self._write_json("list", self._list())
        count = 1 + len(ssd.parameters.identity.lower_max_power_watts)
        replace_text(self._state / "power-states", "".join(f"{n}\n" for n in range(count)))
        replace_text(self._state / "power-state", f"{ssd.power_state}\n")
        self.update_temperatures()
        self.update_smart_log()
        shim = directory / "nvme"
        shim.write_text(_SHIM, encoding="ascii")
        shim.chmod(0o755)

    def update_temperatures(self) -> None:
        """Write the temperatures of hwmon."""
        for name, celsius in (
            ("temp1_input", self._ssd.composite_celsius),
            ("temp2_input", self._ssd.case_celsius),
        ):
            replace_text(self._hwmon / name, f"{round(celsius * 1000)}\n")

    def read_power_state(self) -> None:
        """Set the drive's power state to the one that the host has set."""
        self._ssd.power_state = int((self._state / "power-state").read_text(encoding="ascii"))

    def update_smart_log(self) -> None:
        """Write the answer of ``nvme smart-log``."""
        self._write_json("smart-log", self._smart_log())

    def _write_json(self, command: str, content: dict[str, object]) -> None:
        replace_text(self._state / f"{command}.json", json.dumps(content, indent=2) + "\n")

    def _smart_log(self) -> dict[str, object]:
        ssd = self._ssd
        identity, heat = ssd.parameters.identity, ssd.parameters.thermal
        written = identity.bytes_written_before + ssd.written_bytes
        hours = identity.power_on_hours + sum(ssd.level_ns) / (60 * _MINUTE_NS)
        light, heavy = (1, 2) if ssd.parameters.throttle.counted else (0, 0)
        return {
            "critical_warning": 2 if ssd.composite_celsius >= heat.warning_celsius else 0,
            "temperature": _kelvin(ssd.composite_celsius),
            "avail_spare": 100,
            "spare_thresh": 10,
            "percent_used": min(written * 100 // identity.endurance_bytes, 255),
            "endurance_grp_critical_warning_summary": 0,
            "data_units_read": -(-ssd.read_bytes // _DATA_UNIT_BYTES),
            "data_units_written": -(-written // _DATA_UNIT_BYTES),
            "host_read_commands": ssd.reads,
            "host_write_commands": ssd.writes,
            "controller_busy_time": ssd.busy_ns // _MINUTE_NS,
            "power_cycles": identity.power_cycles,
            "power_on_hours": int(hours),
            "unsafe_shutdowns": 0,
            "media_errors": 0,
            "num_err_log_entries": 0,
            "warning_temp_time": ssd.warning_ns // _MINUTE_NS,
            "critical_comp_time": ssd.critical_ns // _MINUTE_NS,
            "temperature_sensor_1": _kelvin(ssd.case_celsius),
            "thm_temp1_trans_count": ssd.transitions[light],
            "thm_temp2_trans_count": ssd.transitions[heavy],
            "thm_temp1_total_time": ssd.level_ns[light] // _SECOND_NS if light else 0,
            "thm_temp2_total_time": ssd.level_ns[heavy] // _SECOND_NS if heavy else 0,
        }

    def _id_ctrl(self) -> dict[str, object]:
        p = self._ssd.parameters
        powers = (p.identity.max_power_watts, *p.identity.lower_max_power_watts)
        state = dict.fromkeys(_UNKNOWN_OF_POWER_STATE.split(), 0)
        state |= {"idle_power": round(p.power.idle_watts * 100), "idle_scale": 2}
        return {
            "vid": 0,
            "ssvid": 0,
            "sn": p.identity.serial.ljust(20),
            "mn": p.identity.model.ljust(40),
            "fr": p.identity.firmware.ljust(8),
            "mdts": 5,
            "cntlid": 0,
            "ver": 0x10300,
            "npss": len(powers) - 1,
            "wctemp": _kelvin(p.thermal.warning_celsius),
            "cctemp": _kelvin(p.thermal.critical_celsius),
            "tnvmcap": p.identity.capacity_bytes,
            "unvmcap": 0,
            "hctma": 1,
            "mntmt": _kelvin(p.throttle.light.leave_celsius),
            "mxtmt": _kelvin(p.throttle.heavy.enter_celsius),
            "nn": 1,
            # in 0.01 W: scale 0
            "psds": [{"max_power": round(watts * 100), **state} for watts in powers],
        }

    def _list(self) -> dict[str, object]:
        identity = self._ssd.parameters.identity
        device = {
            "NameSpace": 1,
            "DevicePath": "/dev/nvme0n1",
            "Firmware": identity.firmware,
            "Index": 0,
            "ModelNumber": identity.model,
            "SerialNumber": identity.serial,
            "UsedBytes": identity.capacity_bytes,
            "MaximumLBA": identity.capacity_bytes // 512,
            "PhysicalSize": identity.capacity_bytes,
            "SectorSize": 512,
        }
        return {"Devices": [device]}


def _kelvin(celsius: float) -> int:
    return round(celsius + _KELVIN)
