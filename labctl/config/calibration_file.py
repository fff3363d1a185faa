"""Zero offsets and cross-checks of a rig's meters: measured once, true of later runs.

They are kept in ``<rig>.calibration.json`` beside the rig file. A run copies what it uses of them
into its header; its readings stay as they were read, and the analysis subtracts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from labctl.config.rig import Rig
from labctl.errors import ConfigurationError, JournalError, Mistake
from labctl.record.atomic_write import write_atomically
from labctl.record.calibration_used import CrossCheck, Text, UsedCalibration, Zero, day_of
from labctl.record.timebase import DAY_S

FORMAT = 1
SUFFIX = ".calibration.json"

_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Calibration:
    """What stands in the file of a rig; ``fingerprint`` is that of its rails and instruments."""

    fingerprint: Text
    zeros: tuple[Zero, ...] = ()
    checks: tuple[CrossCheck, ...] = ()
    format: Annotated[int, Field(ge=1)] = FORMAT

    def with_zeros(self, zeros: Sequence[Zero], fingerprint: str) -> Calibration:
        """With newer zeros in place of those of the same channels."""
        new = {zero.channel for zero in zeros}
        kept = [zero for zero in self.zeros if zero.channel not in new]
        together = tuple(sorted([*kept, *zeros], key=lambda zero: zero.channel))
        return replace(self, zeros=together, fingerprint=fingerprint)

    def with_check(self, check: CrossCheck) -> Calibration:
        """With a newer check in place of that of the same two channels."""
        kept = [one for one in self.checks if set(one.channels) != set(check.channels)]
        return replace(self, checks=(*kept, check))


_FILE = TypeAdapter(Calibration)


def calibration_file(rig_path: str | Path) -> Path:
    """Where the calibration of a rig is kept: ``rigs/box.toml`` → ``rigs/box.calibration.json``."""
    path = Path(rig_path)
    return path.with_name(path.stem + SUFFIX)


def load_calibration(path: Path) -> Calibration | None:
    """The calibration in a file; None where there is no file. Raises ConfigurationError."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise ConfigurationError([_wrong(path, "larger than any calibration")])
        found = _FILE.validate_json(data)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError([_wrong(path, error.strerror or str(error))]) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "JSON"
        raise ConfigurationError([_wrong(path, f"{where}: {first['msg']}")]) from error
    if found.format > FORMAT:
        raise ConfigurationError([_wrong(path, f"format {found.format}: update labctl")])
    return found


def _wrong(path: Path, what: str) -> Mistake:
    allowed = f"cannot be used ({what}): move it away, and labctl calibrate makes a new one"
    return Mistake(str(path), "calibration", None, allowed)


def save_calibration(path: Path, calibration: Calibration) -> None:
    """Write the file in one step. Raises JournalError when it cannot be written."""
    try:
        write_atomically(path, _FILE.dump_json(calibration, indent=1) + b"\n", durable=True)
    except OSError as error:
        raise JournalError(
            f"cannot write {path}: {error.strerror or error}; the calibration is kept beside the "
            "rig file: put the rig where you may write"
        ) from error


def in_force(
    found: Calibration,
    fingerprint: str,
    ranges: Mapping[str, float | None],
    identities: Mapping[str, str],
    moment: datetime,
    max_age_days: float,
) -> UsedCalibration:
    """What of ``found`` holds for a run at ``moment``.

    ``ranges`` are those of the rig's channels now, ``identities`` who its instruments say they are.
    """
    zeros, notes = [], []
    for zero in found.zeros:
        why = _why_not(zero, ranges, identities, moment, max_age_days)
        if why:
            notes.append(
                f"{zero.channel}: its zero of {day_of(zero.taken)} is not subtracted: {why}; "
                "labctl calibrate takes a new one"
            )
        else:
            zeros.append(zero)
    if zeros and found.fingerprint != fingerprint:
        notes.append(
            "the rig's rails or instruments were changed since its zeros were taken: if leads were "
            "moved, take them again (labctl calibrate)"
        )
    checks = tuple(
        one
        for one in found.checks
        if _days_from_calibration(one.taken, moment) <= max_age_days
        and all(
            identities.get(_calibrated_instrument(channel)) == identity
            for channel, identity in zip(one.channels, one.identities, strict=True)
        )
    )
    return UsedCalibration(tuple(zeros), checks, tuple(notes), found.fingerprint)


def _why_not(
    zero: Zero,
    ranges: Mapping[str, float | None],
    identities: Mapping[str, str],
    moment: datetime,
    max_age_days: float,
) -> str:
    days = _days_from_calibration(zero.taken, moment)
    if zero.channel not in ranges:
        return "the rig has no such channel any more"
    if days > max_age_days:
        return f"it is {days:.0f} days away, at most {max_age_days:g} are allowed"
    identity = identities.get(_calibrated_instrument(zero.channel))
    if identity is None:
        return "its instrument was not there to say who it is"
    if identity != zero.identity:
        return f"it is of {zero.identity}, and this is {identity}"
    if ranges[zero.channel] != zero.range:
        taken, now = _range_text(zero.range), _range_text(ranges[zero.channel])
        return f"it is of the range {taken}, and this is {now}"
    return ""


def _days_from_calibration(taken: str, moment: datetime) -> float:
    away = moment - datetime.fromisoformat(taken)
    return abs(away.total_seconds()) / DAY_S


def _calibrated_instrument(channel: str) -> str:
    return channel.partition(".")[0]


def _range_text(value: float | None) -> str:
    return "unknown" if value is None else f"{value:g}"


def calibration_in_force(
    rig: Rig, identities: Mapping[str, str], moment: datetime
) -> UsedCalibration | None:
    """What of the calibration beside the rig a run at ``moment`` uses; None where there is none.

    A file that cannot be read costs a run its zeros, and a problem line, but not the night.
    """
    try:
        found = load_calibration(calibration_file(rig.path))
    except ConfigurationError as error:
        return UsedCalibration(notes=(f"no zeros are subtracted: {error}",))
    if found is None:
        return None
    ranges = {channel.name: channel.range for channel in rig.channel_infos}
    limit = rig.file.calibration.max_age_days
    return in_force(found, rig.fingerprint, ranges, identities, moment, limit)
