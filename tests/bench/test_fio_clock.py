"""A real fio whose clock is fast or slow: no phase fails, and every rate is by labctl's clock.

A phase lasts from the time that fio was asked for to the runtime it prints. These are a few
milliseconds apart, or more on a busy machine: where a status falls into fio's postrun, fio 3.33
adds the time since its last I/O to its runtime, and leaves it there when it exits meanwhile.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from labctl.capture.phases.fio_process import FioProcess
from labctl.capture.phases.fio_window import FioWindow
from labctl.config.rig_file import Drive
from labctl.errors import RunFailed
from labctl.fio.status import FioStatus
from labctl.record.phase import Pattern, Phase, Role
from labctl.record.timebase import NS_PER_S, Timebase
from tests.faults.scaled_clock import fio_with_clock

pytestmark = [pytest.mark.bench]

BYTES = 16 << 20


async def done(
    directory: Path, duration_s: float
) -> tuple[FioProcess, FioWindow, list[tuple[FioStatus, int]]]:
    """A phase on a file, done to its end, with its window and its statuses."""
    target = directory / "target"
    target.write_bytes(bytes(BYTES))
    statuses: list[tuple[FioStatus, int]] = []
    fio = await FioProcess.start(
        Phase(0, Role.MEASURE, "s", Pattern.RANDREAD, duration_s, 4096, 4, 1),
        {"": Drive(target=str(target), engine="libaio", size_bytes=BYTES)},
        directory / "0",
        Timebase(),
        lambda status, t_ns: statuses.append((status, t_ns)),
    )
    try:
        await fio.wait_held()
        fio.release()
        await fio.wait_done()
        assert await fio.finish() == ""
    except BaseException:
        await fio.stop()
        raise
    window = fio.window()
    assert window is not None
    return fio, window, statuses


@pytest.mark.parametrize("rate", [1.0793, 0.93])
@pytest.mark.parametrize(
    "duration_s", [3.0, *(pytest.param(long, marks=pytest.mark.long) for long in (6.0, 10.0))]
)
async def test_a_phase_has_the_length_that_labctl_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rate: float, duration_s: float
) -> None:
    folder = fio_with_clock(tmp_path / "bin", rate)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    fio, window, statuses = await done(tmp_path, duration_s)
    assert window.fio is not None and window.fio.statuses >= 4
    assert abs(window.fio.rate - rate) <= max(3 * window.fio.u, 0.005)
    assert fio.output.last_status is not None
    runtime_s = fio.output.last_status.runtime_ms / 1000
    assert runtime_s >= duration_s, "by its own clock it was as asked"
    lasted_s = (window.end_ns - window.begin_ns) / NS_PER_S
    # U is of 95 %, of a rate from a dozen statuses (Student); one draw is judged at 4 U.
    doubt_s = 4 * window.u_ns / NS_PER_S + 0.002
    assert duration_s / rate - doubt_s <= lasted_s <= runtime_s / rate + doubt_s
    assert window.fio.u < 0.07 and window.u_ns < 0.2 * duration_s * NS_PER_S
    if duration_s > 5:  # from so many statuses, late ones among them
        assert statuses[-1][0].clock_rate == pytest.approx(rate, rel=0.02), "live rates know it"
    assert fio.output.clock_rate == statuses[-1][0].clock_rate


async def test_a_good_clock_is_left_alone(tmp_path: Path) -> None:
    fio, window, statuses = await done(tmp_path, 3.0)
    assert fio.output.last_status is not None and window.fio is not None
    assert abs(window.fio.rate - 1.0) <= 2 * window.fio.u
    lasted_ms = (window.end_ns - window.begin_ns) / 1_000_000
    assert 3000 <= lasted_ms <= fio.output.last_status.runtime_ms + window.u_ns / 1_000_000
    assert all(status.clock_rate == 1.0 for status, _ in statuses)


async def test_a_second_of_a_fast_clock_is_within_its_signals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too short for its statuses to show the rate."""
    folder = fio_with_clock(tmp_path / "bin", 1.0793)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    fio, window, _ = await done(tmp_path, 1.0)
    assert fio.output.last_status is not None and window.fio is None
    lasted_s = (window.end_ns - window.begin_ns) / NS_PER_S
    assert fio.release_ns is not None and fio.output.done_ns is not None
    signalled_s = (fio.output.done_ns - fio.release_ns) / NS_PER_S
    assert 1.0 / 1.0793 - 0.002 <= lasted_s <= signalled_s


async def test_a_fio_that_gives_up_early_by_its_own_clock_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends well after 1 s of the 3 s that it was asked for."""
    (tmp_path / "bin").mkdir()
    wrapper = tmp_path / "bin" / "fio"
    wrapper.write_text(
        '#!/bin/sh\nsed s/^runtime=.*/runtime=1s/ "$1" > short.fio; shift\n'
        'PATH=${PATH#*:} exec fio short.fio "$@"\n'
    )
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(RunFailed, match=r"ended after 1\.\d s"):
        await done(tmp_path, 3.0)
