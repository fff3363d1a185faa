"""``labctl status``: the state of rigs, printed once."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from typing import Any

from labctl.capture.meters.live_values import View
from labctl.cli.terminal.arguments import BrokerOption, JsonOption
from labctl.cli.terminal.jobs_table import job_json, jobs_wait
from labctl.cli.terminal.lab_table import lab_lines
from labctl.cli.terminal.live_view import host_line, moment_line, point_lines
from labctl.cli.terminal.pager import pages
from labctl.service.data_dir import find_home
from labctl.service.queue.job import Job, JobState
from labctl.service.status.broker_rigs import RemoteRig, listen
from labctl.service.status.condition import condition_of
from labctl.service.status.local_rigs import LocalStatus, RigStatus, StatusReader

LISTEN_S = 2.0
"""Retained topics come at once; live values within their bin."""


@pages
def print_status(broker: BrokerOption = None, json_output: JsonOption = False) -> None:
    """Print what runs, what waits and what came of the rest."""
    if broker is not None:
        _print_remote(broker, json_output)
        return
    status = StatusReader(find_home()).status()
    if json_output:
        print(json.dumps(status_json(status), indent=1))
        return
    print(daemon_line(status))
    for rig in status.rigs:
        for line in rig_lines(rig, status):
            print(line)
    for problem in status.problems:
        print(f"! {problem}")


def daemon_line(status: LocalStatus) -> str:
    """The daemon, or that none is running, in one line."""
    daemon = status.daemon
    if daemon is None or not daemon.alive:
        return "no daemon is running: labctl daemon works off the queue"
    since = time.strftime("%a %H:%M", time.localtime(daemon.since_s))
    return f"daemon: pid {daemon.pid}, since {since}, on {', '.join(daemon.rigs)}"


def rig_lines(rig: RigStatus, status: LocalStatus) -> list[str]:
    """One rig in a few lines of at most 80 columns."""
    lines = [f"{rig.name}: {rig.state}{_status_work_text(rig)}"]
    if rig.state == "interrupted":
        lines.append("  it goes on when a daemon is started: labctl daemon")
    if rig.paused and rig.state != "paused":
        lines.append("  paused: no further job begins")
    if rig.view is not None and rig.run_view is not None:
        lines.append(f"  {_status_phase_text(rig)}")
        lines += [f"  {line}" for line in point_lines(rig.view, 78)]
        lines += [f"  {line}" for line in (moment_line(rig.view), host_line(rig.view)) if line]
    if rig.waiting:
        ends = [status.expected[job.id].end_s for job in rig.waiting]
        until = ""
        if all(end is not None for end in ends):
            at = time.localtime(max(end for end in ends if end is not None))
            until = f", until {time.strftime('%a %H:%M', at)}"
        served = "" if rig.served else "; no daemon works on this rig"
        lines.append(f"  {jobs_wait(len(rig.waiting))}{until}{served}")
    lines += [f"  {_status_last_job_text(job)}" for job in rig.last]
    return [line if len(line) <= 80 else f"{line[:79]}…" for line in lines]


def status_json(status: LocalStatus) -> dict[str, Any]:
    """The status as JSON values."""
    daemon = status.daemon
    return {
        "daemon": None
        if daemon is None
        else {
            "pid": daemon.pid,
            "alive": daemon.alive,
            "since_s": daemon.since_s,
            "rigs": list(daemon.rigs),
            "runs": str(daemon.runs),
        },
        "rigs": [_rig_json(rig, status) for rig in status.rigs],
        "problems": list(status.problems),
    }


def _print_remote(broker: str, json_output: bool) -> None:
    listener = listen(broker, [])
    try:
        time.sleep(LISTEN_S)
        found, problem = listener.rigs.rigs(), listener.rigs.problem
    finally:
        listener.close()
    if problem:
        print(f"! {problem}", file=sys.stderr if json_output else sys.stdout)
    if json_output:
        print(json.dumps([_remote_json(rig) for rig in found], indent=1))
        return
    for line in lab_lines(found, time.time_ns()):
        print(line)
    if not found:
        print(f"no rig tells anything to {broker}")


def _status_work_text(rig: RigStatus) -> str:
    if rig.running is not None:
        return f", job {rig.running.id}: {rig.running.plan}"
    if rig.use is not None:
        return f", {rig.use.plan} (pid {rig.use.pid})"
    return ""


def _status_phase_text(rig: RigStatus) -> str:
    assert rig.view is not None and rig.run_view is not None
    phase = rig.view.phase
    if phase is None:
        return "the run has ended, its report is being made" if rig.run_view.ended else "connecting"
    text = f"phase {phase.index + 1}/{rig.view.phases_total} {phase.label}"
    text += f", {rig.run_view.share_done:.0%} of the run"
    if rig.view.ends_ns is not None:
        left_s = (rig.view.ends_ns - rig.run_view.now_ns()) / 1e9
        at = ", ends %H:%M" if phase.until is None else ", ends by %H:%M"
        text += time.strftime(at, time.localtime(time.time() + left_s))
    return text


def _status_last_job_text(job: Job) -> str:
    text = f"job {job.id} {job.plan} {job.state}"
    if job.last is not None and job.last.ended_s is not None:
        text += time.strftime(" %a %H:%M", time.localtime(job.last.ended_s))
    if job.reason and job.state is not JobState.DONE:
        text += f": {job.reason.splitlines()[0]}"
    return text


def _rig_json(rig: RigStatus, status: LocalStatus) -> dict[str, Any]:
    run_view = rig.run_view
    return {
        "rig": rig.name,
        "state": rig.state,
        "paused": rig.paused,
        "served": rig.served,
        "run": None if rig.use is None else rig.use.run,
        "pid": None if rig.use is None else rig.use.pid,
        "phases_done": None if run_view is None else run_view.phases_done,
        "share_done": None if run_view is None else round(run_view.share_done, 4),
        "now": None if rig.view is None else _view_json(rig.view),
        "job": None
        if rig.running is None
        else job_json(rig.running, status.expected.get(rig.running.id)),
        "waiting": [job_json(job, status.expected.get(job.id)) for job in rig.waiting],
        "last": [job_json(job, None) for job in rig.last],
    }


def _view_json(view: View) -> dict[str, Any]:
    return {
        "phase": None if view.phase is None else view.phase.to_json(),
        "phases": view.phases_total,
        "rails": {
            name: {"volts": rail.volts, "amps": rail.amps, "watts": rail.watts}
            for name, rail in view.rails.items()
        },
        "celsius": view.celsius,
        "host_watts": view.host_watts,
        "point": None if view.point is None else asdict(view.point),
        "io": None if view.rates is None else asdict(view.rates),
        "instruments": {name: state.value for name, state in view.instruments.items()},
    }


def _remote_json(rig: RemoteRig) -> dict[str, Any]:
    found = condition_of(rig)
    return {
        "rig": rig.name,
        "online": rig.online,
        "condition": found.condition.value,
        "why": found.why,
        "state": rig.state,
        "last_run": rig.last_run,
        "heartbeat": rig.heartbeat,
        "now": _view_json(rig.view()),
    }
