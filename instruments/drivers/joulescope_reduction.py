"""Reduces a Joulescope's samples to readings as they come; no I/O.

A block of a signal has the number of its first sample (``sample_id``), which counts at
``sample_rate`` and goes up by ``decimate_factor`` from one sample to the next (jsdrv.h,
``jsdrv_stream_signal_s``). Readings are means over windows that lie at multiples of their length,
so volts, amps and watts of a reading are of the same samples, and the mean of volts times amps is
the window's energy. A window in which a sample is missing gives no reading.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_LONGEST_GAP_S: Final = 5.0
"""A longer one, or numbers that go backwards by more, begin anew: the instrument was reset, or so
much is missing that who reads must count it by another clock."""


@dataclass(frozen=True, slots=True)
class SampleBlock:
    """Some samples of one signal, as the library hands them on."""

    sample_id: int
    decimate_factor: int
    sample_rate: int
    samples: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Reduced:
    """Readings of whole windows: ``sample_id`` is of the middle of each, in counts."""

    sample_id: Floats
    volts: Floats
    amps: Floats
    watts: Floats
    """Means of volts times amps."""
    least_watts: Floats
    most_watts: Floats
    lost: tuple[tuple[float, int], ...] = ()
    """Where windows are missing: the middle of the first one, and how many in a row."""
    duplicates: int = 0
    """Samples that had been there before."""

    def __len__(self) -> int:
        return len(self.volts)


class _Signal:
    """Samples of one signal that belong to windows which are not over, in the blocks in which they
    came: what is joined once for each block costs the square of a long window."""

    def __init__(self) -> None:
        self.first_id = 0
        self.count = 0
        self.started = False
        self._blocks: list[NDArray[np.float32]] = []

    def end_id(self, step: int) -> int:
        return self.first_id + self.count * step

    def add(self, samples: NDArray[np.float32]) -> None:
        self._blocks.append(samples)
        self.count += len(samples)

    def take(self, begin_id: int, end_id: int, step: int) -> NDArray[np.float32]:
        """The samples from ``begin_id`` to ``end_id``; those before are dropped."""
        samples = np.concatenate(self._blocks)
        begin, end = (begin_id - self.first_id) // step, (end_id - self.first_id) // step
        self._blocks = [samples[end:]]
        self.count -= end
        self.first_id = end_id
        return samples[begin:end]


class Reduction:
    """Windows of ``interval_s`` of two signals that come in blocks, one after the other."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._volts, self._amps = _Signal(), _Signal()
        self._step = self._rate = 0
        self._duplicates = 0
        self._begin_id = 0

    @property
    def sample_rate(self) -> int:
        """How fast sample numbers count; 0 before the first block."""
        return self._rate

    @property
    def window_ids(self) -> int:
        """The length of a window in counts, a whole number of samples."""
        return max(round(self._interval_s * self._rate / self._step), 1) * self._step

    def follows(self, is_voltage: bool, block: SampleBlock) -> bool:
        """Whether a block's numbers go on from those before, but for a pause. Else :meth:`add`
        begins anew, and what was not taken before is gone."""
        if not self._signal(is_voltage).started or self._is_of_another_rate(block):
            return True
        return abs(self._gap(is_voltage, block)) * self._step <= _LONGEST_GAP_S * self._rate

    def add(self, is_voltage: bool, block: SampleBlock) -> None:
        """Take a block."""
        if self._is_of_another_rate(block) or not self.follows(is_voltage, block):
            self._step, self._rate = block.decimate_factor, block.sample_rate
            self._volts, self._amps, self._begin_id = _Signal(), _Signal(), 0
        signal, samples = self._signal(is_voltage), block.samples
        if not signal.started:
            signal.first_id, signal.started = block.sample_id // self._step * self._step, True
        elif (gap := self._gap(is_voltage, block)) > 0:
            signal.add(np.full(gap, np.nan, np.float32))
        elif gap < 0:
            self._duplicates += min(-gap, len(samples))
            samples = samples[-gap:]
        signal.add(samples)

    def _signal(self, is_voltage: bool) -> _Signal:
        return self._volts if is_voltage else self._amps

    def _is_of_another_rate(self, block: SampleBlock) -> bool:
        return (self._step, self._rate) != (block.decimate_factor, block.sample_rate)

    def _gap(self, is_voltage: bool, block: SampleBlock) -> int:
        """Samples that are missing before it; negative: that came before."""
        end_id = self._signal(is_voltage).end_id(self._step)
        return (block.sample_id // self._step * self._step - end_id) // self._step

    def take(self) -> Reduced | None:
        """The readings of windows that are whole in both signals; None: none yet."""
        volts, amps = self._volts, self._amps
        if not (volts.started and amps.started):
            return None
        step, window = self._step, self.window_ids
        begin = -(-max(volts.first_id, amps.first_id, self._begin_id) // window) * window
        count = (min(volts.end_id(step), amps.end_id(step)) - begin) // window
        if count <= 0:
            return None
        end = begin + count * window
        rows = [
            signal.take(begin, end, step).reshape(count, -1).astype(np.float64)
            for signal in (volts, amps)
        ]
        self._begin_id = end
        watts = rows[0] * rows[1]
        whole: NDArray[np.bool_] = np.logical_not(np.isnan(watts).any(axis=1))
        middles: Floats = begin + (np.arange(count, dtype=np.float64) + 0.5) * window
        duplicates, self._duplicates = self._duplicates, 0
        watts = watts[whole]
        return Reduced(
            sample_id=middles[whole],
            volts=rows[0][whole].mean(axis=1),
            amps=rows[1][whole].mean(axis=1),
            watts=watts.mean(axis=1),
            least_watts=watts.min(axis=1) if len(watts) else watts[:, 0],
            most_watts=watts.max(axis=1) if len(watts) else watts[:, 0],
            lost=_windows_lost_in_reduction(middles, whole),
            duplicates=duplicates,
        )


def _windows_lost_in_reduction(
    middles: Floats, whole: NDArray[np.bool_]
) -> tuple[tuple[float, int], ...]:
    """The first window and the length of each run of windows that are not whole."""
    edges = np.flatnonzero(np.diff(np.concatenate([[True], whole, [True]]).astype(np.int8)))
    return tuple(
        (float(middles[begin]), int(end - begin))
        for begin, end in zip(edges[::2], edges[1::2], strict=True)
    )
