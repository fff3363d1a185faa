"""fio over a real sshd, on a host whose clock is off, against the drive's truth."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from instruments.simulated.drive.ground_truth import GroundTruth
from instruments.simulated.drive.process import start_drive
from instruments.transports.ssh import CONFIG_VARIABLE
from labctl.capture.host.remote_host import RemoteHost
from labctl.capture.phases.fio_process import FioProcess
from labctl.capture.phases.fio_window import FioWindow
from labctl.config.rig_file import Drive
from labctl.record.phase import Pattern, Phase, Replay, Role
from labctl.record.timebase import Timebase
from tests.ssh.sshd import HOST, Sshd

pytestmark = pytest.mark.bench

FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
S = 1_000_000_000

UNDER_WAY_NS = round(0.02 * S)
"""Between fio and the drive, on a machine that has other things to do."""

MOST_PHASES = 6


@pytest.mark.parametrize("ahead_s", [37.5, pytest.param(0.0, marks=pytest.mark.long)])
async def test_windows_match_the_drive_whatever_the_hosts_clock_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead_s: float
) -> None:
    environment = {}
    if ahead_s:
        if FAKETIME is None:
            pytest.skip("no libfaketime here (Debian: apt install faketime)")
        environment = {"LD_PRELOAD": str(FAKETIME), "FAKETIME": f"+{ahead_s}"}
    timebase = Timebase()
    with Sshd(tmp_path / "sshd", environment) as server, start_drive(tmp_path / "drive") as drive:
        monkeypatch.setenv(CONFIG_VARIABLE, str(server.config))
        host = RemoteHost(HOST, timebase.now_ns)
        try:
            await host.connect()
            target = Drive(target=drive.uri, engine="nbd")
            windows: list[FioWindow] = []
            # Of some phases on a busy host fio's own clock is not known; the signals bound them.
            while len(known := [one.clock for one in windows if one.clock is not None]) < 2:
                index = len(windows)
                assert index < MOST_PHASES
                phase = Phase(index, Role.MEASURE, "s", Pattern.RANDREAD, 1.5, 4096, 4, 1)
                fio = await FioProcess.start(
                    phase, {"": target}, tmp_path / str(index), timebase, lambda *_: None, host
                )
                await fio.wait_held()
                fio.release()
                await fio.wait_done()
                assert await fio.finish() == ""
                window = fio.window()
                assert window is not None
                windows.append(window)
        finally:
            await host.close()
        await asyncio.sleep(0.7)  # the drive writes its truth twice a second
        truth = GroundTruth(drive.truth)
    to_monotonic = timebase.anchor.to_monotonic_ns
    begin, end = truth.bursts[0].begin_ns, truth.bursts[-1].end_ns
    first, last = windows[0], windows[-1]
    assert abs(to_monotonic(first.begin_ns) - begin) <= first.u_ns + UNDER_WAY_NS
    assert abs(to_monotonic(last.end_ns) - end) <= last.u_ns + UNDER_WAY_NS
    one, other = (window for window in windows if window.clock is not None)
    assert known[1].clock_begin_ns - known[0].clock_begin_ns == pytest.approx(
        other.begin_ns - one.begin_ns, abs=UNDER_WAY_NS + one.u_ns + other.u_ns
    )


async def test_a_trace_longer_than_an_argument_may_be_is_replayed(
    tmp_path: Path, sshd: Sshd
) -> None:
    """An argument may have 128 KiB: a trace of a few thousand I/Os."""
    ios = 8_000
    trace = tmp_path / "long.log"
    lines = [f"/dev/sda read {number % 1000 * 4096} 4096" for number in range(ios)]
    head = ["fio version 2 iolog", "/dev/sda add", "/dev/sda open"]
    trace.write_text("\n".join([*head, *lines, "/dev/sda close", ""]))
    assert trace.stat().st_size > 1 << 17
    timebase = Timebase()
    host = RemoteHost(HOST, timebase.now_ns)
    with start_drive(tmp_path / "drive") as drive:
        try:
            await host.connect()
            target = Drive(target=drive.uri, engine="nbd", size_bytes=1 << 30)
            replay = Replay(str(trace), stalls=False)
            phase = Phase(
                0, Role.MEASURE, "s", Pattern.REPLAY, 1.0, queue_depth=8, jobs=1, replay=replay
            )
            fio = await FioProcess.start(
                phase, {"": target}, tmp_path / "0", timebase, lambda *_: None, host
            )
            await fio.wait_held()
            fio.release()
            await fio.wait_done()
            assert await fio.finish() == ""
            assert fio.output.printed["total_ios"] == ios
        finally:
            await host.close()
