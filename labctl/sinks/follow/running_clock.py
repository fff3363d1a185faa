"""Device clocks mapped while the run is on: a reading's time depends only on earlier clock pairs.

The analysis maps a finished recording with all its clock pairs (device time, host time). A
follower maps a reading before later pairs exist, and must give the same time when the run is read
again, or the reading would become two points. So the clock is fitted again after every few pairs,
to the latest ones, and each fit is valid from its last pair to the next fit: a pure function of
the recording, however late it is read.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.readings.channel_series import Ints
from labctl.analysis.readings.clock_fit import EPOCH_NS, fit_clock

FITTED_PAIRS = 512
"""Latest pairs that are fitted: some minutes, so that slow drift is followed."""

GROWTH = 8
"""The next fit comes when there are an eighth more pairs …"""

MOST_APART = 32
"""… or this many more."""

_FIT = np.dtype(
    [
        ("device_begin", "<i8"),
        ("host_begin", "<i8"),
        ("device_ref", "<i8"),
        ("host_ref", "<i8"),
        ("rate", "<f8"),
    ]
)


class RunningClock:
    """The mapping of one device clock, extended as clock pairs come in."""

    def __init__(self, tick_s: float) -> None:
        self._tick_s = tick_s
        self._fits = np.empty(0, _FIT)
        self._seen = 0
        self._epoch_begin = 0
        self._next_fit = 0
        self._last_epoch = 0
        self._epochs: list[int] = []

    @property
    def epochs(self) -> tuple[int, ...]:
        """Epochs of device time that have clock pairs, ascending. Readings of another epoch have no
        known time."""
        return tuple(self._epochs)

    @property
    def device_end_ns(self) -> int | None:
        """Device time before which readings can be mapped; None before the first pair."""
        return (self._last_epoch + 1) * EPOCH_NS if self._seen else None

    def extend(self, pairs: NDArray[np.void]) -> None:
        """All pairs so far (dtype CLOCK_PAIR, recorded order), including those of earlier calls."""
        if len(pairs) <= self._seen:
            return
        epochs = pairs["device_ns"][max(self._seen - 1, 0) :] // EPOCH_NS
        changes = np.flatnonzero(np.diff(epochs) > 0) + max(self._seen, 1)
        for end in [*changes.tolist(), len(pairs)]:
            while self._next_fit < end:
                self._fit(pairs, self._next_fit)
                in_epoch = self._next_fit - self._epoch_begin + 1
                self._next_fit += max(min(in_epoch // GROWTH, MOST_APART), 1)
            if end < len(pairs):
                self._epoch_begin = self._next_fit = end
        self._last_epoch = int(epochs[-1])
        self._epochs = sorted({*self._epochs, *np.unique(epochs).tolist()})
        self._seen = len(pairs)

    def _fit(self, pairs: NDArray[np.void], last: int) -> None:
        """The mapping from pair number ``last`` on, fitted to it and those before it."""
        first = max(self._epoch_begin, last + 1 - FITTED_PAIRS)
        part = np.array(pairs[first : last + 1])
        device = part["device_ns"]
        piece = fit_clock(part, self._tick_s, int(device[0]), int(device[-1])).pieces[-1]
        begin = (int(device[-1]), int(part["host_ns"][-1]))
        if not len(self._fits):
            begin = (np.iinfo(np.int64).min, np.iinfo(np.int64).min)
        elif last == self._epoch_begin:
            between = (int(pairs["host_ns"][last - 1]) + begin[1]) // 2
            begin = (begin[0] // EPOCH_NS * EPOCH_NS, between)
        row = (*begin, piece.device_ref_ns, piece.host_ref_ns, piece.rate)
        self._fits = np.append(self._fits, np.array([row], _FIT))

    def to_host_ns(self, stamps: Ints) -> Ints:
        """Device times as times of the run's timebase, ns; they must be mappable."""
        which = np.searchsorted(self._fits["device_begin"], stamps, side="right") - 1
        which = np.clip(which, 0, None)
        if len(which) and which[0] == which[-1]:
            fit = self._fits[which[0]]
            device_ref, host_ref = int(fit["device_ref"]), int(fit["host_ref"])
            elapsed = stamps - device_ref
            result: Ints = host_ref + elapsed + np.rint(elapsed * float(fit["rate"])).astype("<i8")
            return result
        fits = self._fits[which]
        elapsed = stamps - fits["device_ref"]
        result = np.rint(elapsed * fits["rate"]).astype("<i8")
        result += fits["host_ref"] + elapsed
        return result

    def to_device_ns(self, host_ns: int) -> int:
        """The approximate device time, ns, at a time of the timebase."""
        found = int(np.searchsorted(self._fits["host_begin"], host_ns, side="right")) - 1
        fit = self._fits[max(found, 0)]
        elapsed = host_ns - int(fit["host_ref"])
        rate = float(fit["rate"])
        device_ns = int(fit["device_ref"]) + elapsed - round(elapsed * rate / (1 + rate))
        if found + 1 < len(self._fits):
            device_ns = min(device_ns, int(self._fits[found + 1]["device_begin"]))
        return max(device_ns, int(fit["device_begin"]))
