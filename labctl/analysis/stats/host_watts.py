"""What follows from the host's watts beside the drive's: a share, and work for each watt."""

from __future__ import annotations

from labctl.analysis.estimate import Estimate
from labctl.analysis.phase_result import HostPower
from labctl.analysis.stats.uncertainty import ratio


def host_watts_beside_drive(
    watts: Estimate,
    drive_watts: Estimate | None,
    iops: Estimate | None,
    bytes_per_s: Estimate | None,
) -> HostPower:
    """The host's ``watts``, and ratios to them. ``drive_watts``: None where the drive is not fed
    from what is measured, or has no total."""
    return HostPower(
        watts,
        drive_share=ratio(drive_watts, watts),
        iops_per_watt=ratio(iops, watts),
        bytes_per_joule=ratio(bytes_per_s, watts),
    )
