"""The model of the simulated drive: when an I/O is done, and what it costs in joules and heat.

The model does no I/O and reads no clock: the caller gives the time of a request's arrival
(``submit_*`` returns when it is due) and of its completion (``complete``), and each millisecond
(``tick``). All times are nanoseconds of the caller's monotonic clock. The same calls with the same
seed give the same results.

Reads queue at dies, chosen by address, and at one bus: throughput rises with the queue depth and
saturates. Writes are acknowledged from a buffer that empties at the speed that cache, garbage
collection and throttling leave. Content is not kept: what is read is zeros.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from instruments.simulated.drive.parameters import Parameters, RailParameters

TICK_NS: Final = 1_000_000
"""Length of a tick of the model."""
BURST_GAP_NS: Final = 3_000_000
"""A burst of I/O has ended after this long with no request in flight."""
GRANULE_BYTES: Final = 131_072
"""Written and unwritten LBAs are distinguished in pieces of this size (one byte of memory each)."""

READ: Final = 0
UNWRITTEN_READ: Final = 1
WRITE: Final = 2
DIRECT_WRITE: Final = 3  # past the end of the write cache
COLLECTED_WRITE: Final = 4  # random, while each needs garbage collection
FLUSH: Final = 5
TRIM: Final = 6

_TICK_S = TICK_NS * 1e-9
_POWER_WEIGHT: Final = 1 / 50  # of a tick in the mean that a power state limits: 50 ms
_SLOWER, _FASTER, _SLOWEST = 0.99, 1.002, 0.01  # how a power state is held, each tick
_MAPPING_UNIT_BYTES = 4096  # a smaller write costs a whole one
_STREAMS = 32  # sequential streams that the controller follows, as queue depths go
_SPREAD = 4096  # length of the tables of random numbers; a power of two

Tick = tuple[float, ...]
"""The values of ``state_ring.TICK``, in its order."""


@dataclass(frozen=True, slots=True)
class Burst:
    """I/O without a pause of 3 ms: arrival of its first request, completion of its last."""

    begin_ns: int
    end_ns: int
    operations: int


class _RailSupply:
    """One rail: constant power behind an impedance, and the sums that meters read."""

    def __init__(self, rail: RailParameters) -> None:
        self._rail = rail
        self._omega = 2 * math.pi * rail.ripple_hz * 1e-9
        self.volt_seconds = 0.0
        self.coulombs = 0.0
        self.joules = 0.0

    def draw(self, watts: float, t_ns: int) -> None:
        """Draw ``watts`` for one tick. V is the upper solution of V = V0 - R * watts / V."""
        rail = self._rail
        open_volts = rail.volts + rail.ripple_volts * math.sin(self._omega * t_ns)
        # More than V0^2 / 4R cannot be drawn through the impedance.
        root = max(open_volts * open_volts - 4 * watts * rail.ohms, 0.0)
        volts = (open_volts + math.sqrt(root)) / 2
        self.volt_seconds += volts * _TICK_S
        self.coulombs += watts / volts * _TICK_S
        self.joules += watts * _TICK_S


class DriveModel:
    """The drive's model."""

    def __init__(self, parameters: Parameters, seed: int, start_ns: int) -> None:
        p = self.parameters = parameters
        slow = p.speed_divisor
        self.t_ns = start_ns
        random = np.random.default_rng(seed)
        sigma = p.jitter.sigma
        spread = np.exp(random.normal(-sigma * sigma / 2, sigma, _SPREAD))
        spread[random.random(_SPREAD) < p.jitter.tail_share] *= p.jitter.tail_factor
        self._spread: list[float] = spread.tolist()
        self._noise: list[float] = (random.standard_normal(_SPREAD) * p.power.noise_watts).tolist()
        self._turn = 0

        granules = -(-p.identity.capacity_bytes // GRANULE_BYTES)
        self._written = bytearray([p.identity.starts_full]) * granules
        self._die_free_ns = [start_ns] * p.nand.dies
        self._dies = p.nand.dies
        self._stripe_bytes = p.nand.stripe_bytes
        self._next_die = 0
        self._unprogrammed_bytes = 0
        self._read_bus_ns = float(start_ns)
        self._write_bus_ns = float(start_ns)
        self._read_ends: dict[int, None] = {}
        self._write_ends: dict[int, None] = {}
        self._read_overhead_ns = p.controller.read_overhead_us * 1e3 * slow
        self._write_overhead_ns = p.controller.write_overhead_us * 1e3 * slow
        light, heavy = p.throttle.light, p.throttle.heavy
        self._pace_for_level = (slow, slow / light.speed_share, slow / heavy.speed_share)

        power = p.power
        read, write = power.read_byte_nj * 1e-9 * slow, power.write_byte_nj * 1e-9 * slow
        write_op = power.write_operation_uj * 1e-6 * slow
        direct = p.write_cache.direct_energy_factor
        self._joules: list[tuple[float, float]] = [  # of an operation, of a byte; by kind
            (power.read_operation_uj * 1e-6 * slow, read),
            (power.unwritten_read_operation_uj * 1e-6 * slow, 0.0),
            (write_op, write),
            (write_op * direct, write * direct),
            (0.0, 0.0),  # kept by _set_speeds
            (0.0, 0.0),
            (power.trim_operation_uj * 1e-6 * slow, 0.0),
        ]
        self._pending_joules = 0.0
        self._released_share = 1 - math.exp(-_TICK_S / (power.decoupling_ms * 1e-3))
        self._rail_12v = _RailSupply(p.rails.rail_12v)
        self._rail_3v3 = _RailSupply(p.rails.rail_3v3)

        self.power_state = 0
        self.power_limit_watts: float | None = None
        """None: not limited beyond its power state."""
        self._power_limits = (p.identity.max_power_watts, *p.identity.lower_max_power_watts)
        self._power_share = 1.0  # of its speed, that the power state leaves
        self._mean_watts = power.idle_watts

        heat = p.thermal
        idle = power.idle_watts
        self.case_celsius = heat.ambient_celsius + idle * heat.case_to_ambient_kelvin_per_watt
        self.composite_celsius = self.case_celsius + idle * heat.composite_to_case_kelvin_per_watt
        self.throttle_level = 0
        self.transitions = [0, 0, 0]
        self.level_ns = [0, 0, 0]
        self.warning_ns = self.critical_ns = self.busy_ns = 0

        self._in_flight = 0
        self._arrived = False
        self._last_end_ns = start_ns
        self._burst_begin_ns: int | None = None
        self._burst_operations = 0
        self._ended: list[Burst] = []
        self.reads = self.writes = self.read_bytes = self.written_bytes = 0

        self._cached_bytes = 0.0
        self._spare_used_bytes = 0.0
        self._random_written = False
        self._steady_ns = 0
        self.is_in_dip = False
        self._set_speeds()

    def submit_read(self, now_ns: int, offset: int, length: int) -> tuple[int, int]:
        """A read arrived: when it is due, and its kind for :meth:`complete`."""
        self._arrive(now_ns)
        end = offset + length
        self._turn = turn = (self._turn + 1) & (_SPREAD - 1)
        spread = self._spread[turn]
        bus = self._read_bus_ns
        if bus < now_ns:
            bus = now_ns
        self._read_bus_ns = bus = bus + length * self._read_byte_ns
        first, last = offset // GRANULE_BYTES, (end - 1) // GRANULE_BYTES
        if self._written.find(1, first, last + 1) < 0:
            return int(bus + self._read_overhead_ns * spread), UNWRITTEN_READ
        service_ns = self._die_ns * spread
        if _is_sequential(self._read_ends, offset, end):
            service_ns *= self.parameters.nand.sequential_read_share
        stripe = offset // self._stripe_bytes
        stripes = (end - 1) // self._stripe_bytes - stripe + 1
        if stripes == 1:
            die = stripe % self._dies
            free = self._die_free_ns[die]
            done = int((free if free > now_ns else now_ns) + service_ns)
            self._die_free_ns[die] = done
        else:
            done = self._occupy(stripe, stripes, now_ns, service_ns)
        return int((done if done > bus else bus) + self._read_overhead_ns), READ

    def submit_write(self, now_ns: int, offset: int, length: int) -> tuple[int, int]:
        """A write arrived with all of its data: when it is due, and its kind."""
        self._arrive(now_ns)
        end = offset + length
        self._turn = turn = (self._turn + 1) & (_SPREAD - 1)
        charged = length if length > _MAPPING_UNIT_BYTES else _MAPPING_UNIT_BYTES
        kind, byte_ns = DIRECT_WRITE if self.cache_is_full else WRITE, self._write_byte_ns
        self._cached_bytes += length
        if not _is_sequential(self._write_ends, offset, end):
            self._random_written = True
            self._spare_used_bytes += charged
            if self.is_steady:
                kind, byte_ns = COLLECTED_WRITE, self._random_byte_ns
        cost_ns = charged * byte_ns
        if cost_ns < self._write_operation_ns:
            cost_ns = self._write_operation_ns
        bus = self._write_bus_ns
        self._write_bus_ns = bus = (bus if bus > now_ns else now_ns) + cost_ns
        first, last = offset // GRANULE_BYTES, (end - 1) // GRANULE_BYTES
        self._written[first : last + 1] = b"\1" * (last + 1 - first)
        self._unprogrammed_bytes += length
        if self._unprogrammed_bytes >= self.parameters.nand.program_bytes:
            self._program(now_ns)
        return int(bus + self._write_overhead_ns * self._spread[turn]), kind

    def submit_flush(self, now_ns: int) -> tuple[int, int]:
        """A flush arrived: it is due after every write before it."""
        self._arrive(now_ns)
        cost = self.parameters.controller.flush_us * 1e3 * self.parameters.speed_divisor
        return int(max(self._write_bus_ns, now_ns) + cost), FLUSH

    def submit_trim(self, now_ns: int, offset: int, length: int) -> tuple[int, int]:
        """A trim arrived: granules that it covers entirely become unwritten, and spare."""
        self._arrive(now_ns)
        first, end = -(-offset // GRANULE_BYTES), (offset + length) // GRANULE_BYTES
        if offset + length == self.parameters.identity.capacity_bytes:
            end = len(self._written)
        if first < end:
            self._written[first:end] = bytes(end - first)
        self._spare_used_bytes = max(self._spare_used_bytes - length, 0.0)
        self._cached_bytes = max(self._cached_bytes - length, 0.0)
        cost = self.parameters.controller.trim_us * 1e3 * self.parameters.speed_divisor
        return int(now_ns + cost), TRIM

    def complete(self, kind: int, length: int, now_ns: int) -> None:
        """A request was really completed at ``now_ns``."""
        operation, byte = self._joules[kind]
        self._pending_joules += operation + byte * length
        if kind <= UNWRITTEN_READ:
            self.reads += 1
            self.read_bytes += length
        elif kind <= COLLECTED_WRITE:
            self.writes += 1
            self.written_bytes += length
        self._in_flight -= 1
        self._last_end_ns = now_ns

    def tick(self) -> Tick:
        """Advance by one tick; the new sums and temperatures."""
        p = self.parameters
        self.t_ns = t_ns = self.t_ns + TICK_NS
        active = self._arrived or self._in_flight > 0
        self._arrived = False
        idle_watts = p.power.idle_watts + self._noise[(t_ns // TICK_NS) & (_SPREAD - 1)]
        released = self._pending_joules * self._released_share
        self._pending_joules -= released
        activity_watts = released / _TICK_S
        if active:
            activity_watts += p.power.active_watts
            self.busy_ns += TICK_NS
        else:
            activity_watts += self._idle_tick(t_ns)
        high, low = self._rail_12v, self._rail_3v3
        rails = p.rails
        for supply, rail in ((high, rails.rail_12v), (low, rails.rail_3v3)):
            watts = idle_watts * rail.idle_share + activity_watts * rail.activity_share
            supply.draw(watts if watts > 0 else 0.0, t_ns)
        self._warm(idle_watts + activity_watts)
        self._hold_power(idle_watts + activity_watts)
        self._set_speeds()
        return (
            t_ns,
            high.volt_seconds,
            low.volt_seconds,
            high.coulombs,
            low.coulombs,
            high.joules,
            low.joules,
            self.composite_celsius,
            self.case_celsius,
            self.throttle_level,
            self.reads,
            self.writes,
            self.read_bytes,
            self.written_bytes,
        )

    @property
    def joules(self) -> float:
        """Drawn from both rails since the start."""
        return self._rail_12v.joules + self._rail_3v3.joules

    def ended_bursts(self) -> list[Burst]:
        """Bursts that have ended since the last call."""
        ended, self._ended = self._ended, []
        return ended

    def _arrive(self, now_ns: int) -> None:
        if self._burst_begin_ns is None:
            self._burst_begin_ns = now_ns
        self._burst_operations += 1
        self._in_flight += 1
        self._arrived = True

    def _occupy(self, stripe: int, stripes: int, now_ns: int, service_ns: float) -> int:
        """Occupy the dies of several stripes at once; when the last of them is done."""
        used = min(stripes, self._dies)
        service_ns *= -(-stripes // self._dies)
        latest = 0
        for index in range(stripe, stripe + used):
            die = index % self._dies
            done = int(max(self._die_free_ns[die], now_ns) + service_ns)
            self._die_free_ns[die] = done
            if done > latest:
                latest = done
        return latest

    def _program(self, now_ns: int) -> None:
        programs, self._unprogrammed_bytes = divmod(
            self._unprogrammed_bytes, self.parameters.nand.program_bytes
        )
        self._occupy(self._next_die, programs, now_ns, self._program_ns)
        self._next_die = (self._next_die + programs) % self._dies

    def _idle_tick(self, t_ns: int) -> float:
        """A tick without I/O: end the burst, empty the cache; the watts that this takes."""
        idle_ns = t_ns - self._last_end_ns
        self._random_written = False
        if self._burst_begin_ns is not None and idle_ns >= BURST_GAP_NS:
            burst = Burst(self._burst_begin_ns, self._last_end_ns, self._burst_operations)
            self._ended.append(burst)
            self._burst_begin_ns, self._burst_operations = None, 0
        cache, collection = self.parameters.write_cache, self.parameters.garbage_collection
        if idle_ns < cache.drain_delay_s * 1e9:
            return 0.0
        self._spare_used_bytes = max(
            self._spare_used_bytes - collection.reclaim_bytes_per_s * _TICK_S, 0.0
        )
        if self._cached_bytes == 0:
            return 0.0
        self._cached_bytes = max(self._cached_bytes - cache.drain_bytes_per_s * _TICK_S, 0.0)
        return cache.drain_watts

    def _warm(self, watts: float) -> None:
        """Heat both bodies for one tick, and throttle."""
        p = self.parameters
        heat = p.thermal
        above_case = self.composite_celsius - self.case_celsius
        to_case = above_case / heat.composite_to_case_kelvin_per_watt
        above_ambient = self.case_celsius - heat.ambient_celsius
        to_ambient = above_ambient / heat.case_to_ambient_kelvin_per_watt
        self.composite_celsius += (watts - to_case) * _TICK_S / heat.composite_joules_per_kelvin
        self.case_celsius += (to_case - to_ambient) * _TICK_S / heat.case_joules_per_kelvin
        celsius = self.composite_celsius
        if celsius >= heat.warning_celsius:
            self.warning_ns += TICK_NS
            if celsius >= heat.critical_celsius:
                self.critical_ns += TICK_NS

        light, heavy = p.throttle.light, p.throttle.heavy
        level = before = self.throttle_level
        if level == 2 and celsius <= heavy.leave_celsius:
            level = 1
        if level == 1 and celsius <= light.leave_celsius:
            level = 0
        if celsius >= heavy.enter_celsius:
            level = 2
        elif level == 0 and celsius >= light.enter_celsius:
            level = 1
        if level > before:
            self.transitions[level] += 1
        self.level_ns[level] += TICK_NS
        self.throttle_level = level

    def _hold_power(self, watts: float) -> None:
        """In a lower power state or below a limit, slow down until the mean stays at that."""
        self._mean_watts += (watts - self._mean_watts) * _POWER_WEIGHT
        most_watts = math.inf if self.power_state == 0 else self._power_limits[self.power_state]
        most_watts = min(most_watts, self.power_limit_watts or math.inf)
        if most_watts == math.inf:
            self._power_share = 1.0
        elif self._mean_watts > most_watts:
            self._power_share = max(self._power_share * _SLOWER, _SLOWEST)
        else:
            self._power_share = min(self._power_share * _FASTER, 1.0)

    def _set_speeds(self) -> None:
        """What throttle, power state, cache and garbage collection leave until the next tick."""
        p = self.parameters
        cache, collection = p.write_cache, p.garbage_collection
        pace = self._pace_for_level[self.throttle_level] / self._power_share
        self._die_ns = p.nand.read_us * 1e3 * pace
        self._program_ns = p.nand.program_us * 1e3 * pace
        self._read_byte_ns = 1e9 / p.controller.read_bytes_per_s * pace
        self._write_operation_ns = 1e9 / p.controller.write_operations_per_s * pace
        self._write_byte_ns = 1e9 / p.controller.write_bytes_per_s * pace
        if self._cached_bytes > cache.capacity_bytes:
            self._cached_bytes = float(cache.capacity_bytes)
        self.cache_is_full = self._cached_bytes >= cache.capacity_bytes
        if self.cache_is_full:
            self._write_byte_ns /= cache.direct_write_share

        if self._spare_used_bytes > collection.spare_bytes:
            self._spare_used_bytes = float(collection.spare_bytes)
        self.is_steady = self._spare_used_bytes >= collection.spare_bytes
        self.is_in_dip = False
        if not self.is_steady:
            self._steady_ns = 0
            return
        if self._random_written:
            self._steady_ns += TICK_NS
        steady_s = self._steady_ns * 1e-9
        share = 1 - (1 - collection.cliff_share) * math.exp(-steady_s / collection.cliff_recovery_s)
        amplification = collection.write_amplification
        since_dip_s = steady_s % collection.dip_period_s
        self.is_in_dip = since_dip_s >= collection.dip_period_s - collection.dip_s
        if self.is_in_dip:
            # The NAND works as hard as before, only less of it for the host.
            share *= collection.dip_share
            amplification /= collection.dip_share
        self._random_byte_ns = 1e9 / collection.steady_random_bytes_per_s / share * pace
        self._random_byte_ns = max(self._random_byte_ns, self._write_byte_ns)
        operation, byte = self._joules[WRITE]
        self._joules[COLLECTED_WRITE] = (operation * amplification, byte * amplification)


def _is_sequential(ends: dict[int, None], offset: int, end: int) -> bool:
    """Whether a request begins where a recent one ended; remembers its own end."""
    sequential = offset in ends
    if sequential:
        del ends[offset]
    elif len(ends) >= _STREAMS:
        del ends[next(iter(ends))]
    ends[end] = None
    return sequential
