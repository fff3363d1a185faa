"""The calibration that was in force when a run was recorded."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, Field

from labctl.printable import printable
from labctl.rounded import rounded


def utc_now() -> str:
    """Now, as a calibration says it."""
    return datetime.now(UTC).replace(microsecond=0).isoformat()


def day_of(taken: str) -> str:
    """The day of a moment, for a person to read."""
    return datetime.fromisoformat(taken).date().isoformat()


@dataclass(frozen=True, slots=True)
class Zero:
    """What a channel reads where there is nothing to read: the mean of ``n`` readings.

    ``value`` and its standard uncertainty ``u`` are in the channel's ``unit``.
    """

    channel: Text
    unit: Text
    value: Finite
    u: NotNegative
    dof: Annotated[float, Field(ge=1, allow_inf_nan=False)]
    n: Annotated[int, Field(ge=2)]
    range: Finite | None
    identity: Text
    taken: Moment


@dataclass(frozen=True, slots=True)
class CrossCheck:
    """Two channels that measured the same: ``difference`` = first − second, with its U (k = 2).

    ``en`` is |difference| / U (ISO/IEC 17043, annex B; ISO 13528): up to 1 the two agree.
    """

    channels: tuple[Text, Text]
    identities: tuple[Text, Text]
    unit: Text
    means: tuple[Finite, Finite]
    difference: Finite
    u: NotNegative
    en: NotNegative
    n: Annotated[int, Field(ge=2)]
    taken: Moment

    @property
    def agree(self) -> bool:
        """Whether the difference is explained by the uncertainty of both."""
        return self.en <= 1.0


@dataclass(frozen=True, slots=True)
class UsedCalibration:
    """What a run uses: zeros that are subtracted, checks that hold for its meters, and a line for
    each that is not used, and why."""

    zeros: tuple[Zero, ...] = ()
    checks: tuple[CrossCheck, ...] = ()
    notes: tuple[str, ...] = ()
    fingerprint: str = ""

    def zero_of(self, channel: str) -> Zero | None:
        """The zero that is subtracted from a channel's readings."""
        return next((zero for zero in self.zeros if zero.channel == channel), None)

    @property
    def problems(self) -> tuple[str, ...]:
        """A line for what is not used, and for each two meters that contradict each other."""
        apart = [
            f"{one.channels[0]} and {one.channels[1]} differed by {rounded(one.difference)} "
            f"{one.unit} on {day_of(one.taken)} (U = {rounded(one.u, 2)} {one.unit}, "
            f"En = {rounded(one.en, 2)}): one of them reads wrong by more than its limits of error"
            for one in self.checks
            if not one.agree
        ]
        return (*self.notes, *apart)


Finite = Annotated[float, Field(allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Text = Annotated[str, Field(max_length=500), AfterValidator(printable)]


def _a_moment(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("a time without its zone")
    return text


Moment = Annotated[str, AfterValidator(_a_moment)]
"""ISO 8601 with its zone, to the second."""
