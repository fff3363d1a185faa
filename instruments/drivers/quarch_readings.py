"""Makes readings, statuses and clock pairs of a module's stripes, without I/O."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from instruments.driver_kit.arrival_pairs import ArrivalPairs
from instruments.drivers.quarch_stream import Column, Floats, StreamHeader, Stripes
from instruments.reading import EPOCH_NS, Batch, Block, Channel, ClockPair, Status, StatusReading


class StripeReadings:
    """Readings of the rails of a module, stream after stream: each is an epoch of its clock.

    ``channels`` are those of each rail in turn: volts, amps and, with ``watts``, watts.
    ``average`` stripes make a reading.
    """

    def __init__(self, channels: Sequence[Channel], average: int, *, watts: bool) -> None:
        self._channels = channels
        self._clock_pairs = ArrivalPairs(channels)
        self._average = average
        self._watts = watts
        self._base_ns = -EPOCH_NS
        self._rails: Sequence[tuple[Column, Column]] = ()
        self._period_ns = self._time_ns = 1
        self._next_ns: int | None = None
        """When the next stripe is due on the stream's clock; None before the first one."""
        self._left: Floats = np.empty((0, 0))
        self._least_delay_ns: int | None = None
        self._unreadable = 0
        """Lines of the answer before that were no stripes, and whose gap did not show in it."""
        self._counted_to_ns: int | None = None
        """Up to when all stripes were delivered or counted as lost, on the host's clock."""

    def begin(self, header: StreamHeader, rails: Sequence[tuple[Column, Column]]) -> None:
        """A stream begins; ``rails`` has the columns of volts and amps of each rail."""
        self._period_ns, self._time_ns = header.period_ns, header.time_ns
        self._rails = rails
        if self._least_delay_ns is not None and self._next_ns is not None:
            self._counted_to_ns = self._base_ns + self._next_ns + self._least_delay_ns
        self._new_epoch()
        self._left = np.empty((0, header.width))

    def batch(self, stripes: Stripes, arrived_ns: int) -> Batch:
        """The readings of stripes that arrived at ``arrived_ns`` of the host's clock."""
        rows = stripes.rows
        blocks: list[Block] = []
        statuses: list[StatusReading] = []
        if stripes.unreadable:
            detail = f"stripes in all channels, such as {stripes.sample}"
            statuses.append(self._status(Status.UNREADABLE, detail, stripes.unreadable))
        unreadable = self._unreadable + stripes.unreadable
        if not len(rows):
            self._unreadable = unreadable
            return Batch(statuses=tuple(statuses))
        t_ns = rows[:, 0].astype(np.int64) * self._time_ns
        due_ns = int(t_ns[0]) if self._next_ns is None else self._next_ns
        late_ns = np.diff(t_ns, prepend=due_ns - self._period_ns) - self._period_ns
        begin = 0
        for place in np.flatnonzero(late_ns).tolist():
            self._append(rows[begin:place], blocks)
            self._left = rows[:0]
            begin = place
            if late_ns[place] < 0:
                detail = "its time went back: another program began a stream"
                statuses.append(self._status(Status.LOST, detail, 1))
                self._new_epoch()
            else:
                missing = max(round(int(late_ns[place]) / self._period_ns), 1)
                counted = min(unreadable, missing)
                unreadable -= counted
                if missing > counted:
                    self._next_ns = int(t_ns[place])
                    statuses.append(self._status(Status.LOST, "stripes", missing - counted))
        self._append(rows[begin:], blocks)
        self._unreadable = min(unreadable, stripes.unreadable)
        self._next_ns = int(t_ns[-1]) + self._period_ns
        return Batch(tuple(blocks), tuple(statuses), self._add_arrival(arrived_ns))

    def lost_between(self, host_ns: int, detail: str) -> Batch:
        """A status: the stripes from the last one of the stream before this one to ``host_ns``,
        about when this one began, are missing; of streams without a stripe, each its own time."""
        since_ns = self._counted_to_ns
        missed_ns = self._period_ns if since_ns is None else host_ns - since_ns
        self._counted_to_ns = host_ns
        count = max(round(missed_ns / self._period_ns), 1)
        detail = f"about, by the host's clock: {detail}"
        return Batch(statuses=(self._status(Status.LOST, detail, count),))

    def _new_epoch(self) -> None:
        self._base_ns += EPOCH_NS
        self._next_ns = self._least_delay_ns = None
        self._unreadable = 0
        self._clock_pairs.restart()

    def _status(self, status: Status, detail: str, count: int) -> StatusReading:
        """Of all channels, for the first one."""
        t_ns = self._base_ns + max((self._next_ns or 0) - 1, 0)
        channel = self._channels[0].name
        return StatusReading(channel, t_ns, status, f"{detail}, in all channels", count)

    def _append(self, rows: Floats, blocks: list[Block]) -> None:
        """Append the readings of stripes without a gap between them."""
        if len(self._left):
            rows = np.vstack([self._left, rows])
        whole = len(rows) // self._average * self._average
        self._left = rows[whole:]
        if not whole:
            return
        rows = rows[:whole]
        # A stripe's window begins at its time: a reading's time is the middle of all its windows.
        half_ns = self._period_ns * self._average // 2
        begins_ns = rows[:: self._average, 0].astype(np.int64) * self._time_ns
        t_ns = self._base_ns + begins_ns + half_ns
        channels = iter(self._channels)
        for volts_at, amps_at in self._rails:
            volts = rows[:, volts_at.place] * volts_at.factor
            amps = rows[:, amps_at.place] * amps_at.factor
            for values in (volts, amps, volts * amps) if self._watts else (volts, amps):
                if self._average > 1:
                    values = values.reshape(-1, self._average).mean(axis=1)
                blocks.append(Block(next(channels).name, t_ns, values))

    def _add_arrival(self, arrived_ns: int) -> tuple[ClockPair, ...]:
        assert self._next_ns is not None
        device_ns = self._base_ns + self._next_ns  # the newest stripe's window ended then
        delay_ns = arrived_ns - device_ns
        if self._least_delay_ns is None or delay_ns < self._least_delay_ns:
            self._least_delay_ns = delay_ns
        return self._clock_pairs.add(device_ns, arrived_ns)
