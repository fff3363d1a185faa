"""Phase after phase, without idle time between them.

The fio of the next phase is started and held while the present one still works. A phase that
fails is recorded and the next one follows; one that the way to the drive's host cut off comes
again. What a safety rule forbids ends the run, after the phase that is on. Rounds come again until
the drive is steady.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from labctl.analysis.steady_state.rounds_end import PointValues, RoundsEnd, later_rounds, rounds_end
from labctl.capture.host.alongside import alongside
from labctl.capture.host.ssh import HostUnreachable
from labctl.capture.phases.contract import DriveActions, PhaseListener
from labctl.capture.phases.early_end import end_early, point_end
from labctl.capture.phases.ending import Ending
from labctl.capture.phases.fio_pool import FioPool
from labctl.capture.phases.fio_process import FioProcess
from labctl.capture.phases.program import ProgramProcess
from labctl.capture.phases.repetition import repeated_preparation
from labctl.capture.phases.sampling import SAMPLE_EVERY_S, DriveSamples
from labctl.capture.phases.stopping import StopRequest
from labctl.config.sweeps import Resume, WhenPhaseFails
from labctl.errors import NOT_NOW, GuardTripped, LabctlError, Refused, RunFailed, error_line
from labctl.record.events import EventKind, Outcome
from labctl.record.phase import Pattern, Phase
from labctl.record.point_end import PointEnd, PointState
from labctl.record.timebase import NS_PER_MS, NS_PER_S

HOLD_AHEAD_S = 3.0
"""The next fio is started this long before the end of the present phase."""
END_WITHIN_S = 60.0
"""Each step that ends what still runs: fio is given 20 s to exit, a target 30 s to be opened."""
CHECK_AGAIN_AFTER_S = 10.0
"""A fio that was held for longer (the drive cooled down meanwhile) does not begin unchecked."""
ATTEMPTS = 3
"""How often a phase is begun that the drive's heat or the way to its host does not let end."""


@dataclass(frozen=True, slots=True)
class Pause:
    """The drive shall cool down before anything else is done."""

    reason: str
    until_celsius: float
    within_s: float


class PhaseSequence:
    """Runs ``phases`` in their order; those in ``done`` were run before.

    Failures of phases are collected in ``failed``.
    """

    def __init__(
        self,
        phases: Sequence[Phase],
        actions: DriveActions,
        listener: PhaseListener,
        now_ns: Callable[[], int],
        done: Collection[int] = (),
        values: Mapping[int, PointValues] | None = None,
        resume: Resume = "repeat",
        drives: int = 1,
        when_phase_fails: WhenPhaseFails = "go_on",
    ) -> None:
        """``values``: of phases in ``done``, by index, for the rules that end rounds.

        ``resume``: what a lost host means to the plan. ``drives``: how many work at once.
        ``when_phase_fails``: whether the others are done all the same.
        """
        self.failed: list[str] = []
        self.failed_code = NOT_NOW
        """Of a run with failed phases: NOT_NOW where the drive's host was away for each of them."""
        self.end_problems: list[str] = []
        self._phases = tuple(phases)
        self._actions = actions
        self._listener = listener
        self._now_ns = now_ns
        self._over = set(done)
        self._values = dict(values or {})
        self._resume = resume
        self._drives = drives
        self._when_phase_fails = when_phase_fails
        self._pause: Pause | None = None
        self._paused = asyncio.Event()
        self._attempts: dict[int, int] = {}
        self._power: tuple[int | None, float | None] = (None, None)
        """Power state and limit in watts that were set last; None: the drive's own."""
        self._power_is_known = False
        self._pool = FioPool(actions, now_ns)
        self._program: tuple[Phase, ProgramProcess] | None = None
        self._finishing: list[asyncio.Task[None]] = []
        self._finding: asyncio.Task[None] | None = None

    @property
    def count(self) -> int:
        """How many phases there are, done or not."""
        return len(self._phases)

    @property
    def at_rest(self) -> bool:
        """Whether no fio is there, not even a held one."""
        return self._pool.none

    def pause(self, pause: Pause) -> None:
        """Give up the phase that is on, let the drive cool down, and do the phase again."""
        if self._pause is None:
            self._pause = pause
            self._paused.set()

    async def carry_out(self, stop: StopRequest) -> None:
        """All phases, or as many as there are until ``stop`` is asked for.

        Raises LabctlError for what ends the run: a safety rule, a target that is gone, a journal
        that cannot be written. However it ends, no fio is left; what went wrong in ending them is
        in ``end_problems``.
        """
        try:
            await self._end_of_last_round()
            while (phase := await self._next_or_again()) is not None and not stop.asked:
                self._over.add(phase.index)
                await self._do(phase, self._next_io(), stop)
                await self._end_of_round(phase)
                await self._cool_if_paused(stop)
        finally:
            await self._end(stop)

    def _next(self) -> Phase | None:
        return next((phase for phase in self._phases if phase.index not in self._over), None)

    async def _next_or_again(self) -> Phase | None:
        """The next phase. What ended last may yet have to come again."""
        if self._next() is None:
            await asyncio.gather(*self._finishing)
        return self._next()

    def _next_io(self) -> Phase | None:
        """The phase whose fio can get ready now: no purge comes before it."""
        for phase in self._phases:
            if phase.index not in self._over and phase.pattern is not Pattern.COOL:
                return phase if phase.pattern.io else None
        return None

    async def _do(self, phase: Phase, following: Phase | None, stop: StopRequest) -> None:
        if not phase.pattern.io:
            try:
                await self._choose_power(phase)
            except RunFailed as error:
                self._did_not_begin(phase, error, stop)
                return
        if phase.pattern is Pattern.IDLE:
            await self._idle(phase, following, stop)
        elif phase.pattern is Pattern.COOL:
            await self._cool(phase, following, stop)
        elif phase.pattern is Pattern.PURGE:
            await self._purge(phase, stop)
        elif phase.pattern is Pattern.PROGRAM:
            await self._measure(phase, stop)
        else:
            await self._work(phase, following, stop)

    async def _idle(self, phase: Phase, following: Phase | None, stop: StopRequest) -> None:
        begin_ns = self._now_ns()
        self._began(phase, begin_ns)
        end_ns = begin_ns + round(phase.duration_s * NS_PER_S)
        await self._until(end_ns - round(HOLD_AHEAD_S * NS_PER_S), stop)
        self._pool.hold(following, stop)
        await self._until(end_ns, stop)
        now_ns = self._now_ns()
        outcome = Outcome.INTERRUPTED if stop.asked and now_ns < end_ns else Outcome.COMPLETED
        self._ended(phase, outcome, begin_ns, now_ns, NS_PER_MS, stop.reason)

    async def _cool(self, phase: Phase, following: Phase | None, stop: StopRequest) -> None:
        assert phase.until_celsius is not None
        begin_ns = self._now_ns()
        self._began(phase, begin_ns)
        self._pool.hold(following, stop)
        celsius = await self._wait_cool(phase.until_celsius, phase.duration_s, stop)
        now_ns = self._now_ns()
        cool = celsius is not None and celsius <= phase.until_celsius
        reason = "" if cool else f"not cool after {phase.duration_s:.0f} s"
        self._listener.event(
            EventKind.COOLED_DOWN, reached=cool, celsius=celsius, wanted_celsius=phase.until_celsius
        )
        outcome = Outcome.INTERRUPTED if stop.asked and not cool else Outcome.COMPLETED
        self._ended(phase, outcome, begin_ns, now_ns, NS_PER_MS, stop.reason or reason)

    async def _cool_if_paused(self, stop: StopRequest) -> None:
        """Do what :meth:`pause` asked for. Raises GuardTripped when the drive stays hot."""
        pause, self._pause = self._pause, None
        self._paused.clear()
        if pause is None or self._next() is None:
            return
        await self._pool.drop_held()
        self._listener.event(
            EventKind.PAUSED, reason=pause.reason, until_celsius=pause.until_celsius
        )
        celsius = await self._wait_cool(pause.until_celsius, pause.within_s, stop)
        cool = celsius is not None and celsius <= pause.until_celsius
        self._listener.event(EventKind.RESUMED, celsius=celsius, reached=cool)
        if not (cool or stop.asked):
            raise GuardTripped(
                f"{pause.reason}; not below {pause.until_celsius:g} °C after {pause.within_s:.0f} s"
            )

    async def _wait_cool(
        self, until_celsius: float, within_s: float, stop: StopRequest
    ) -> float | None:
        """Wait until it is that cool, the time is over or a stop is asked; its temperature."""
        limit_ns = self._now_ns() + round(within_s * NS_PER_S)
        celsius = self._actions.celsius()
        while (celsius is None or celsius > until_celsius) and self._now_ns() < limit_ns:
            if await stop.wait(SAMPLE_EVERY_S):
                break
            celsius = self._actions.celsius()
        return celsius

    async def _purge(self, phase: Phase, stop: StopRequest) -> None:
        await self._pool.drop_held()
        await asyncio.gather(*self._finishing)  # who has the drive open now is somebody else
        begin_ns = self._now_ns()
        self._began(phase, begin_ns)
        outcome, problem = Outcome.COMPLETED, ""
        try:
            await self._actions.purge(phase)
        except RunFailed as error:
            outcome, problem = self._not_completed(phase, error, stop), str(error)
        self._ended(phase, outcome, begin_ns, self._now_ns(), NS_PER_MS, problem)

    async def _measure(self, phase: Phase, stop: StopRequest) -> None:
        """A person's program, once: it is not begun again whatever cuts it off."""
        try:
            program = await self._actions.start_program(phase)
        except RunFailed as error:
            self._did_not_begin(phase, error, stop)
            return
        self._program = phase, program
        self._began(phase, program.begin_ns)
        done = asyncio.create_task(program.wait(), name=f"phase-{phase.index}")
        asked = asyncio.create_task(stop.wait(), name="stop")
        paused = asyncio.create_task(self._paused.wait(), name="pause")
        try:
            await asyncio.wait(
                (done, asked, paused),
                timeout=phase.duration_s or None,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            for task in (done, asked, paused):
                task.cancel()
        if self._pause is not None and not program.ended:
            stop.ask(Outcome.ABORTED, self._pause.reason, GuardTripped.exit_code)
        if stop.asked:
            ending = self._program_over(stop, stop.reason, Outcome.INTERRUPTED)
        else:
            limit = f"it was ended after {phase.duration_s:g} s, its limit"
            ending = self._program_over(stop, limit, Outcome.COMPLETED)
        over = asyncio.create_task(ending, name=f"finish-{phase.index}")
        self._finishing.append(over)  # also of a run that is cancelled meanwhile
        await asyncio.shield(over)

    async def _program_over(self, stop: StopRequest, reason: str, outcome: Outcome) -> None:
        """End the program that is on, and record its end: ``reason`` and ``outcome`` where it has
        not ended by itself."""
        assert self._program is not None
        (phase, program), self._program = self._program, None
        ended = program.ended
        if not ended:
            await program.stop()
        await program.finish()
        if ended:
            reason, outcome = program.problem, Outcome.COMPLETED
            if reason:
                outcome = Outcome.FAILED
                self._fail(f"{phase.label}: {reason}", stop)
        self._ended(
            phase, outcome, program.begin_ns, program.end_ns, program.begin_u_ns,
            reason, **program.printed,
        )  # fmt: skip

    async def _work(self, phase: Phase, following: Phase | None, stop: StopRequest) -> None:
        fio = await self._ready(phase, stop)
        if fio is None:
            return
        begin_ns = fio.release()
        self._began(phase, begin_ns)
        samples = DriveSamples(
            phase, self._actions, self._now_ns, begin_ns, partial(self._tell_point, phase)
        )
        done = asyncio.create_task(fio.wait_done(), name=f"phase-{phase.index}")
        asked = asyncio.create_task(stop.wait(), name="stop")
        paused = asyncio.create_task(self._paused.wait(), name="pause")
        enough = asyncio.create_task(samples.enough.wait(), name="enough")
        ends = (done, asked, paused, enough)
        try:
            async with alongside(samples.keep(), f"samples-{phase.index}"):
                if phase.timed:
                    ahead_s = max(phase.duration_s - HOLD_AHEAD_S, 0.0)
                    await asyncio.wait(ends, timeout=ahead_s, return_when=asyncio.FIRST_COMPLETED)
                    if self._pause is None:
                        self._pool.hold(following, stop)
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                if enough.done() and self._pause is None:
                    self._pool.hold(following, stop)
                    held = self._pool.wait_held(following, stop)
                    left_s = partial(self._left_s, phase, begin_ns)
                    done = await end_early(fio, left_s, done, held, (asked, paused))
            problem = done.exception() if done.done() else None
            lasted_s = (self._now_ns() - begin_ns) / NS_PER_S
            self._values[phase.index] = PointValues(
                fio.output.iops, samples.watts, samples.celsius, lasted_s
            )
            if done.done() and problem is None:
                self._report_steady(phase, samples)
                self._finish_later(
                    phase, fio, stop, point_end(phase, samples.point, samples.kept_s)
                )
                return
            await fio.stop()
            if problem is None:
                reason = stop.reason or (self._pause.reason if self._pause else "")
                self._closed(phase, fio, Outcome.INTERRUPTED, reason)
                if not stop.asked:
                    self._again(phase, reason, stop)
            else:
                outcome = self._not_completed(phase, problem, stop)
                self._closed(phase, fio, outcome, error_line(problem))
                if isinstance(problem, Refused):
                    raise problem
                if outcome == Outcome.INTERRUPTED:
                    await self._pool.drop_held()
        finally:
            for task in (done, asked, paused, enough):
                task.cancel()

    def _left_s(self, phase: Phase, begin_ns: int) -> float:
        return phase.duration_s - (self._now_ns() - begin_ns) / NS_PER_S

    def _tell_point(self, phase: Phase, state: PointState) -> None:
        self._listener.event(EventKind.POINT_STATE, index=phase.index, **asdict(state))

    def _report_steady(self, phase: Phase, samples: DriveSamples) -> None:
        """Report how a phase ended that lasts until the temperature is steady."""
        if phase.steady_temperature_s:
            reached = samples.steady
            self._listener.event(
                EventKind.TEMPERATURE_STEADY,
                index=phase.index,
                reached=reached,
                celsius=samples.celsius,
            )

    def _fail(self, reason: str, stop: StopRequest, because: BaseException | None = None) -> None:
        code = because.exit_code if isinstance(because, LabctlError) else RunFailed.exit_code
        self.failed.append(reason)
        if code != NOT_NOW:
            self.failed_code = RunFailed.exit_code
        if self._when_phase_fails == "end":
            message = f'{reason}; the plan says when_phase_fails = "end"'
            stop.ask(Outcome.FAILED, message, self.failed_code)

    def _again(
        self,
        phase: Phase,
        reason: str,
        stop: StopRequest,
        because: BaseException | None = None,
    ) -> bool:
        """A phase that was not let to its end is done again, some times; whether it is."""
        self._attempts[phase.index] = self._attempts.get(phase.index, 1) + 1
        if self._attempts[phase.index] > ATTEMPTS:
            self._fail(f"{phase.label}: begun {ATTEMPTS} times, at last: {reason}", stop, because)
            return False
        self._over.discard(phase.index)
        return True

    def _not_completed(self, phase: Phase, problem: BaseException, stop: StopRequest) -> Outcome:
        """The outcome of a phase that ended with ``problem``. One that lost the drive's host comes
        again, with what the plan wants to come before it, unless it must be in one piece."""
        if not isinstance(problem, HostUnreachable) or self._resume == "forbid":
            self._fail(error_line(problem), stop, problem)
            return Outcome.FAILED
        if stop.asked:
            return Outcome.INTERRUPTED
        if not self._again(phase, error_line(problem), stop, problem):
            return Outcome.FAILED
        for index in list(repeated_preparation(self._phases, self._over, self._resume)):
            self._over.discard(index)
            self._values.pop(index, None)
        return Outcome.INTERRUPTED

    async def _ready(self, phase: Phase, stop: StopRequest) -> FioProcess | None:
        """The held fio of ``phase``; None when it did not get ready or the run shall end."""
        try:
            fio = await self._pool.take(phase, stop)
            if fio is not None:
                await self._check_again(phase, fio)
                await self._choose_power(phase)
            return fio
        except RunFailed as error:
            self._did_not_begin(phase, error, stop)
            await self._pool.drop_held()
            return None

    def _did_not_begin(self, phase: Phase, error: RunFailed, stop: StopRequest) -> None:
        now_ns = self._now_ns()
        outcome = self._not_completed(phase, error, stop)
        self._ended(phase, outcome, now_ns, now_ns, 0, str(error))

    async def _check_again(self, phase: Phase, fio: FioProcess) -> None:
        """Somebody may have mounted the drive since, which nothing of ours had open."""
        if self._pool.checked_s(phase) > CHECK_AGAIN_AFTER_S:
            await asyncio.gather(*self._finishing)
            fio.refuse_others(await self._actions.check_again(phase))

    async def _choose_power(self, phase: Phase) -> None:
        """State and limit that the phase names, else the drive's own: another sweep's have
        ended."""
        wanted = phase.power_state, phase.power_limit_watts
        if not self._power_is_known or wanted != self._power:
            self._power_is_known = False
            await self._actions.set_power(*wanted)
            self._power, self._power_is_known = wanted, True

    def _began(self, phase: Phase, t_ns: int) -> None:
        """Tell that a phase began; meanwhile it is asked which settings it has."""
        self._listener.phase_began(phase, t_ns)

        async def find() -> None:
            for settings in await self._actions.settings_found():
                self._listener.event(EventKind.SETTINGS_FOUND, index=phase.index, **settings)

        if phase.pattern is not Pattern.PURGE:  # a drive that is formatted answers nothing
            if self._finding is not None:
                self._finding.cancel()
            self._finding = asyncio.create_task(find(), name=f"settings-{phase.index}")

    async def _end_of_last_round(self) -> None:
        """Judge a round that was completed, but cut off before it was judged."""
        following = self._next()
        done = [phase for phase in self._phases if phase.index in self._over]
        before = [phase for phase in done if following and phase.index < following.index]
        if following and before and following.round == before[-1].round + 1 > 1:
            await self._end_of_round(before[-1])

    async def _end_of_round(self, phase: Phase) -> None:
        """After the last point of a round: leave out the rounds that are not needed any more."""
        following = self._next()
        if not phase.round or (following is not None and phase.same_round(following)):
            return
        ended = rounds_end(self._phases, self._values, phase, self._drives)
        if ended is None:
            return
        self._listener.event(
            EventKind.STEADY_STATE,
            sweep=phase.sweep,
            sweep_number=phase.sweep_number,
            round=phase.round,
            reached=ended is RoundsEnd.STEADY,
            ended=ended.value,
            index=phase.index,
        )
        later = later_rounds(self._phases, phase)
        if later:
            self._over.update(later)
            await self._pool.drop_held()

    def _finish_later(
        self, phase: Phase, fio: FioProcess, stop: StopRequest, end: PointEnd | None
    ) -> None:
        """fio takes tens of milliseconds to print and exit: the next phase does not wait."""

        async def finish() -> None:
            outcome, problem = Outcome.COMPLETED, await fio.finish()
            if problem:
                error = HostUnreachable(problem) if fio.lost else RunFailed(problem)
                outcome = self._not_completed(phase, error, stop)
            self._closed(phase, fio, outcome, problem, end)

        self._finishing.append(asyncio.create_task(finish(), name=f"finish-{phase.index}"))

    def _closed(
        self,
        phase: Phase,
        fio: FioProcess,
        outcome: Outcome,
        reason: str,
        end: PointEnd | None = None,
    ) -> None:
        window = fio.window()
        assert window is not None
        more: dict[str, Any] = asdict(window.clock) if window.clock is not None else {}
        if window.fio is not None:
            more["fio_clock"] = asdict(window.fio)
        values = self._values.get(phase.index)
        if phase.round and outcome == Outcome.COMPLETED and values is not None:
            more |= values.to_json()
        if end is not None:
            more["point"] = end.to_json()
        if fio.output.disk_busy_s is not None:
            more["disk_busy_s"] = fio.output.disk_busy_s
        more |= fio.output.printed
        self._ended(phase, outcome, window.begin_ns, window.end_ns, window.u_ns, reason, **more)
        self._pool.forget(fio)

    def _ended(
        self,
        phase: Phase,
        outcome: Outcome,
        begin_ns: int,
        end_ns: int,
        u_ns: int,
        reason: str,
        **more: Any,
    ) -> None:
        self._listener.event(
            EventKind.PHASE_ENDED,
            index=phase.index,
            outcome=outcome,
            reason=reason,
            begin_ns=begin_ns,
            end_ns=end_ns,
            boundary_u_ns=u_ns,
            **more,
        )

    async def _end(self, stop: StopRequest) -> None:
        """End what still runs. Raises nothing."""
        ending = Ending()
        if self._finding is not None:
            self._finding.cancel()
        for task in self._finishing:
            async with ending.step(task.get_name(), END_WITHIN_S):
                await task
        if self._program is not None:
            async with ending.step(self._program[0].label, END_WITHIN_S):
                reason = stop.reason or "the run ended"
                await self._program_over(stop, reason, Outcome.INTERRUPTED)
        async with ending.step("the held fio", END_WITHIN_S):
            await self._pool.drop_held()
        for fio in self._pool:
            async with ending.step(f"fio for {fio.phase.label}", END_WITHIN_S):
                await fio.stop()
            async with ending.step(f"the record of {fio.phase.label}", END_WITHIN_S):
                self._closed(fio.phase, fio, Outcome.INTERRUPTED, stop.reason or "the run ended")
        self._pool.kill()
        self.end_problems = ending.problems

    async def _until(self, t_ns: int, stop: StopRequest) -> None:
        remaining_s = (t_ns - self._now_ns()) / NS_PER_S
        if remaining_s > 0:
            await stop.wait(remaining_s)
