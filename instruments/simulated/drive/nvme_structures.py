"""NVMe structures as the simulated drive returns them, declared field by field.

From the structures of the NVM Express Base Specification 2.3 (Identify Controller, Identify
Namespace, log pages 02h and 25h) and of the OCP Datacenter NVMe SSD Specification 2.6 (log page
C0h), in the order of their bytes, so that no offset is written down.
What the simulated drive does not have is reserved here.
"""

from __future__ import annotations

from ctypes import LittleEndianStructure, c_char, c_uint8, c_uint16, c_uint32, c_uint64

_Counter = c_uint64 * 2
"""128 bits, the lower half first."""


class PowerStateDescriptor(LittleEndianStructure):
    """32 bytes for each power state."""

    _pack_ = 1
    _fields_ = (
        ("maximum_power", c_uint16),
        ("reserved_2", c_uint8),
        ("flags", c_uint8),
        ("entry_latency", c_uint32),
        ("exit_latency", c_uint32),
        ("relative_performance", c_uint8 * 4),
        ("idle_power", c_uint16),
        ("idle_power_scale", c_uint8),
        ("reserved_19", c_uint8),
        ("active_power", c_uint16),
        ("active_power_workload_and_scale", c_uint8),
        ("reserved_23", c_uint8 * 9),
    )


class IdentifyController(LittleEndianStructure):
    """4096 bytes."""

    _pack_ = 1
    _fields_ = (
        ("pci_vendor", c_uint16),
        ("pci_subsystem_vendor", c_uint16),
        ("serial_number", c_char * 20),
        ("model_number", c_char * 40),
        ("firmware_revision", c_char * 8),
        ("arbitration_to_controller_id", c_uint8 * 8),
        ("version", c_uint32),
        ("resume_and_entry_latency", c_uint32 * 2),
        ("optional_events", c_uint32),
        ("controller_attributes", c_uint32),
        ("read_recovery_to_reserved", c_uint8 * 156),
        ("optional_admin_commands", c_uint16),
        ("limits_and_log_attributes", c_uint8 * 5),
        ("power_states_minus_one", c_uint8),
        ("vendor_command_and_autonomous_transitions", c_uint8 * 2),
        ("warning_kelvin", c_uint16),
        ("critical_kelvin", c_uint16),
        ("firmware_activation_and_host_memory", c_uint8 * 10),
        ("total_capacity", _Counter),
        ("unallocated_capacity", _Counter),
        ("replay_protected_to_keep_alive", c_uint8 * 10),
        ("host_thermal_management", c_uint16),
        ("minimum_thermal_kelvin", c_uint16),
        ("maximum_thermal_kelvin", c_uint16),
        ("sanitize_to_configurable_personality", c_uint8 * 62),
        ("maximum_unlimited_power", c_uint16),
        ("interval_power_sample_rate", c_uint16),
        ("longest_measurement_minutes", c_uint16),
        ("reserved_396", c_uint8 * 120),
        ("namespaces", c_uint32),
        ("commands_to_fabrics", c_uint8 * 1528),
        ("power_states", PowerStateDescriptor * 32),
        ("vendor", c_uint8 * 1024),
    )


class LbaFormat(LittleEndianStructure):
    """4 bytes for each block format."""

    _pack_ = 1
    _fields_ = (("metadata_bytes", c_uint16), ("data_shift", c_uint8), ("relative", c_uint8))


class IdentifyNamespace(LittleEndianStructure):
    """4096 bytes."""

    _pack_ = 1
    _fields_ = (
        ("size_blocks", c_uint64),
        ("capacity_blocks", c_uint64),
        ("used_blocks", c_uint64),
        ("features", c_uint8),
        ("formats_minus_one", c_uint8),
        ("formatted_as", c_uint8),
        ("metadata_to_progress", c_uint8 * 6),
        ("deallocate_features", c_uint8),
        ("atomics_to_identifiers", c_uint8 * 94),
        ("formats", LbaFormat * 64),
        ("vendor", c_uint8 * 3712),
    )


class SmartLog(LittleEndianStructure):
    """512 bytes."""

    _pack_ = 1
    _fields_ = (
        ("critical_warning", c_uint8),
        ("composite_kelvin", c_uint16),
        ("available_spare", c_uint8),
        ("spare_threshold", c_uint8),
        ("percentage_used", c_uint8),
        ("endurance_group_warnings", c_uint8),
        ("reserved_7", c_uint8 * 25),
        ("data_units_read", _Counter),
        ("data_units_written", _Counter),
        ("host_reads", _Counter),
        ("host_writes", _Counter),
        ("busy_minutes", _Counter),
        ("power_cycles", _Counter),
        ("power_on_hours", _Counter),
        ("unsafe_shutdowns", _Counter),
        ("media_errors", _Counter),
        ("error_log_entries", _Counter),
        ("warning_minutes", c_uint32),
        ("critical_minutes", c_uint32),
        ("sensor_kelvin", c_uint16 * 8),
        ("thermal_transitions", c_uint32 * 2),
        ("thermal_seconds", c_uint32 * 2),
        ("lifetime_energy", c_uint64),
        ("interval_power", c_uint32),
        ("reserved_244", c_uint8 * 268),
    )


class ExtendedSmartLog(LittleEndianStructure):
    """512 bytes: log page C0h of OCP."""

    _pack_ = 1
    _fields_ = (
        ("media_bytes_written", _Counter),
        ("media_bytes_read", _Counter),
        ("bad_user_blocks", c_uint64),
        ("bad_system_blocks", c_uint64),
        ("xor_recoveries", c_uint64),
        ("uncorrectable_reads", c_uint64),
        ("soft_ecc_errors", c_uint64),
        ("end_to_end_detected", c_uint32),
        ("end_to_end_corrected", c_uint32),
        ("system_data_used_percent", c_uint8),
        ("refreshes", c_uint8 * 7),
        ("most_erases", c_uint32),
        ("fewest_erases", c_uint32),
        ("throttling_events", c_uint8),
        ("throttling_status", c_uint8),
        ("specification_errata", c_uint8),
        ("specification_point", c_uint16),
        ("specification_minor", c_uint16),
        ("specification_major", c_uint8),
        ("pcie_correctable_errors", c_uint64),
        ("incomplete_shutdowns", c_uint32),
        ("reserved_116", c_uint8 * 4),
        ("free_blocks_percent", c_uint8),
        ("reserved_121", c_uint8 * 7),
        ("capacitor_health_percent", c_uint16),
        ("nvme_errata_versions", c_uint8 * 4),
        ("reserved_134", c_uint8 * 2),
        ("unaligned_ios", c_uint64),
        ("security_version", c_uint64),
        ("blocks_used", c_uint64),
        ("power_loss_protections", _Counter),
        ("endurance_estimate", _Counter),
        ("link_retrainings", c_uint64),
        ("power_state_changes", c_uint64),
        ("lowest_firmware", c_uint64),
        ("dies_total", c_uint16),
        ("dies_that_may_fail", c_uint16),
        ("dies_offline", c_uint16),
        ("hottest_celsius", c_uint8),
        ("form_factor", c_uint8),
        ("mean_erases", c_uint64),
        ("command_timeouts", c_uint32),
        ("system_area_failures", c_uint64 * 3),
        ("most_peak_power", c_uint16),
        ("average_power", c_uint16),
        ("lifetime_power", c_uint8 * 6),
        ("firmware", c_uint8 * 88),
        ("reserved_358", c_uint8 * 136),
        ("page_version", c_uint16),
        ("guid", c_uint8 * 16),
    )


class Timestamp(LittleEndianStructure):
    """8 bytes: ms of the drive's clock in the first six."""

    _pack_ = 1
    _fields_ = (("milliseconds", c_uint8 * 6), ("attributes", c_uint8), ("reserved_7", c_uint8))


class HistogramBin(LittleEndianStructure):
    """8 bytes for each bin of power."""

    _pack_ = 1
    _fields_ = (("count", c_uint32), ("lower_power", c_uint32))


class PowerMeasurementLog(LittleEndianStructure):
    """The 64 bytes before the histogram."""

    _pack_ = 1
    _fields_ = (
        ("version", c_uint8),
        ("generation", c_uint8),
        ("attributes", c_uint16),
        ("size_bytes", c_uint32),
        ("measurements", c_uint32),
        ("bins", c_uint16),
        ("minutes_left", c_uint16),
        ("stopped", Timestamp),
        ("bin_bytes", c_uint16),
        ("bin_milliwatts", c_uint16),
        ("most_bins", c_uint16),
        ("vendor_bytes", c_uint16),
        ("beyond_last_bin", c_uint32),
        ("reserved_36", c_uint8 * 4),
        ("average_power", c_uint32),
        ("maximum_power", c_uint32),
        ("maximum_at", Timestamp),
        ("percent_error", c_uint8),
        ("reserved_57", c_uint8 * 7),
    )


def counter(value: int) -> _Counter:  # type: ignore[valid-type]
    """A counter of 128 bits."""
    return _Counter(value & (1 << 64) - 1, value >> 64)


def power(watts: float) -> int:
    """A power field: its value in bits 15:0, the scale 10 mW (2) above."""
    return 2 << 16 | round(watts * 100)
