"""What a drive and its host are, and in what state: plain values, kept in a run's header.

``None`` and empty mean "not known", never zero. Temperatures are in °C whatever the tool printed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class PowerState:
    """A power state of the drive's table (NVMe base specification, Identify Controller, PSD)."""

    number: int
    max_watts: float | None = None
    operational: bool = True
    entry_us: int | None = None
    exit_us: int | None = None
    idle_watts: float | None = None
    active_watts: float | None = None


@dataclass(frozen=True, slots=True)
class PowerMeasurement:
    """What a drive has measured of its own power (NVMe 2.3, log page 25h), in watts.

    It averages over intervals of a second each. ``generation`` counts the times that somebody had
    it begin anew. ``bins``: lower threshold and count of each bin of its histogram that is not
    empty.
    """

    is_on: bool
    generation: int
    intervals: int
    average_watts: float | None = None
    maximum_watts: float | None = None
    percent_error: int | None = None
    """The largest error that the drive states; None where it states none."""
    is_estimated: bool = False
    has_gaps: bool = False
    bins: tuple[tuple[float, int], ...] = ()
    beyond_last_bin: int = 0


@dataclass(frozen=True, slots=True)
class PowerThreshold:
    """The power above which a drive sends its host an event (NVMe 2.3, feature 24h)."""

    watts: float | None = None
    """None: none is set."""
    is_enabled: bool = False
    measurement_type: int = 0
    """Of what power: 0 is that of the whole subsystem, 12 to 15 are the vendor's."""

    def __str__(self) -> str:
        """For a person: ``none``, ``25 W`` or ``25 W, not enabled``."""
        if self.watts is None:
            return "none"
        return f"{self.watts:g} W{'' if self.is_enabled else ', not enabled'}"


@dataclass(frozen=True, slots=True)
class LbaFormat:
    """A block format of a namespace. ``in_use``: the one it is formatted with."""

    data_bytes: int
    metadata_bytes: int = 0
    in_use: bool = False


@dataclass(frozen=True, slots=True)
class PcieLink:
    """The negotiated link and what both ends could do, from sysfs."""

    speed_gt_s: float | None = None
    width: int | None = None
    max_speed_gt_s: float | None = None
    max_width: int | None = None

    @property
    def slower_than_possible(self) -> bool:
        """Whether the link runs below what the drive can do."""
        speed = self.speed_gt_s and self.max_speed_gt_s and self.speed_gt_s < self.max_speed_gt_s
        return bool(speed or (self.width and self.max_width and self.width < self.max_width))

    @property
    def bytes_per_s(self) -> float | None:
        """What the negotiated link can carry each way, without the overhead of packets."""
        return _bytes_per_s_of(self.speed_gt_s, self.width)

    @property
    def max_bytes_per_s(self) -> float | None:
        """The same of the best that this end of it can do."""
        return _bytes_per_s_of(self.max_speed_gt_s, self.max_width)


def _bytes_per_s_of(speed_gt_s: float | None, width: int | None) -> float | None:
    """PCI Express Base Specification: 8b/10b up to 5 GT/s, 128b/130b to 32, 242 of 256 B at 64."""
    if speed_gt_s is None or width is None:
        return None
    share = 0.8 if speed_gt_s <= 5 else 128 / 130 if speed_gt_s <= 32 else 242 / 256
    return speed_gt_s * 1e9 / 8 * width * share


@dataclass(frozen=True, slots=True)
class PciePort:
    """A port or bridge above a drive: its PCI address and the link that it is an end of."""

    address: str
    link: PcieLink | None = None


@dataclass(frozen=True, slots=True)
class TemperatureSensor:
    """A sensor that the kernel shows without root: its file, and the limits it gives."""

    name: str
    path: str
    celsius: float | None = None
    max_celsius: float | None = None
    critical_celsius: float | None = None


@dataclass(frozen=True, slots=True)
class SmartLog:
    """SMART as read once. Names are those of the NVMe SMART / Health log.

    ``warning_temp_time``, ``critical_comp_time`` and ``controller_busy_time`` are minutes,
    ``thm_temp*_total_time`` seconds (NVMe base specification, log page 02h). The thermal counters
    count host-controlled thermal management only: that they stand still is no proof that the
    drive did not throttle. ``ata_attributes`` are raw values by attribute number.
    """

    source: str = ""
    composite_celsius: float | None = None
    sensor_celsius: dict[str, float] = field(default_factory=dict)
    critical_warning: int | None = None
    available_spare: int | None = None
    percentage_used: int | None = None
    data_units_read: int | None = None
    data_units_written: int | None = None
    host_read_commands: int | None = None
    host_write_commands: int | None = None
    controller_busy_time: int | None = None
    power_cycles: int | None = None
    power_on_hours: int | None = None
    unsafe_shutdowns: int | None = None
    media_errors: int | None = None
    num_err_log_entries: int | None = None
    warning_temp_time: int | None = None
    critical_comp_time: int | None = None
    thm_temp1_trans_count: int | None = None
    thm_temp2_trans_count: int | None = None
    thm_temp1_total_time: int | None = None
    thm_temp2_total_time: int | None = None
    interval_watts: float | None = None
    """The drive's own power reading, the mean of about the last second, where it has one."""
    lifetime_energy: int | None = None
    """Operational Lifetime Energy Consumed, as the drive counts it."""
    passed: bool | None = None
    ata_attributes: dict[str, int] = field(default_factory=dict)
    thermal_throttling_events: int | None = None
    """This and what follows: log page C0h of the OCP Datacenter NVMe SSD Specification, where the
    drive has it. One byte, so that 255 may be more."""
    thermal_throttling_level: int | None = None
    """0: it does not throttle now; 1 to 3: first to third level."""
    media_bytes_written: int | None = None
    media_bytes_read: int | None = None
    power_state_changes: int | None = None
    power_loss_events: int | None = None
    """Times that its protection against loss of power began (PLP Start Count)."""
    incomplete_shutdowns: int | None = None
    hottest_celsius: float | None = None
    """The highest temperature that it has ever recorded."""

    def thermal_counters(self) -> dict[str, int]:
        """What moves when a drive gets too hot, by its NVMe name; what is unknown is absent."""
        found = {name: getattr(self, name) for name in THERMAL_COUNTERS}
        return {name: value for name, value in found.items() if value is not None}


THERMAL_COUNTERS = (
    "critical_warning",
    "warning_temp_time",
    "critical_comp_time",
    "thm_temp1_trans_count",
    "thm_temp2_trans_count",
    "thm_temp1_total_time",
    "thm_temp2_total_time",
    "thermal_throttling_events",
    "thermal_throttling_level",
)


_COUNTERS_IN_WORDS = {
    "critical_warning": ("critical warning", ""),
    "warning_temp_time": ("time above the warning temperature", " min"),
    "critical_comp_time": ("time above the critical temperature", " min"),
    "thm_temp1_trans_count": ("times at the first thermal level", ""),
    "thm_temp2_trans_count": ("times at the second thermal level", ""),
    "thm_temp1_total_time": ("time at the first thermal level", " s"),
    "thm_temp2_total_time": ("time at the second thermal level", " s"),
    "thermal_throttling_events": ("thermal throttling events", ""),
    "thermal_throttling_level": ("thermal throttling level", ""),
}


def counter_words(name: str, before: float, after: float) -> str:
    """How a thermal counter moved, for people: ``time at the first thermal level 0 → 10 s``.

    Units: NVM Express Base Specification 2.0, figure 207; throttling events and level: OCP
    Datacenter NVMe SSD Specification, log page C0h. Of several drives a name begins with its
    drive's. A counter that is unknown keeps its name.
    """
    drive, space, counter = name.rpartition(" ")
    words, unit = _COUNTERS_IN_WORDS.get(counter, (counter, ""))
    return f"{drive}{space}{words} {before:.0f} → {after:.0f}{unit}"


@dataclass(frozen=True, slots=True)
class HostState:
    """The machine that the drive is in."""

    name: str = ""
    cpu_model: str = ""
    cpus: int | None = None
    governor: str = ""
    kernel: str = ""
    machine: str = ""
    distribution: str = ""
    memory_bytes: int | None = None
    fio: str = ""
    engine: str = ""


@dataclass(frozen=True, slots=True)
class DriveState:
    """The drive under test, as its host sees it before the first phase.

    ``problems`` say what could not be learnt and what to do about it; ``findings`` say what is
    unusual about the drive or its place (a slow slot).
    """

    target: str
    device: str = ""
    kind: str = ""
    """nvme, sata, scsi, virtio, loop, md, dm, file, nbd or other."""
    model: str = ""
    serial: str = ""
    firmware: str = ""
    size_bytes: int | None = None
    logical_block_bytes: int | None = None
    physical_block_bytes: int | None = None
    rotational: bool | None = None
    transport: str = ""
    namespace: int | None = None
    warning_celsius: float | None = None
    critical_celsius: float | None = None
    host_thermal_management: bool | None = None
    min_thermal_celsius: float | None = None
    max_thermal_celsius: float | None = None
    power_states: tuple[PowerState, ...] = ()
    has_power_limit: bool = False
    """Whether it takes a limit in watts (NVMe 2.3, feature 23h)."""
    has_power_measurement: bool = False
    """Whether it measures its own power over a time that the host chooses (feature 25h)."""
    longest_measurement_minutes: int | None = None
    power_threshold: PowerThreshold | None = None
    """None: it has none, or it was not read."""
    lba_formats: tuple[LbaFormat, ...] = ()
    link: PcieLink | None = None
    pci_address: str = ""
    slot: str = ""
    """What the board calls the slot, where its firmware tells the kernel."""
    ports: tuple[PciePort, ...] = ()
    """What is above the drive in the PCIe tree, the root port first."""
    numa_node: int | None = None
    temperature_sensors: tuple[TemperatureSensor, ...] = ()
    in_use: tuple[str, ...] = ()
    """Mounts, swap and holders of the drive."""
    smart: SmartLog | None = None
    smart_device: str = ""
    """What was asked for SMART; empty where nothing can be asked."""
    host: HostState = field(default_factory=HostState)
    findings: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; :func:`labctl.record.json_values.known` reads back also another
        version's."""
        return asdict(self)
