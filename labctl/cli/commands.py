"""The commands of ``labctl`` by section: where each is, and what it does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its name, where it is (``module:object`` below ``labctl.cli``) and its help.

    The object is a function, which gives the exit code (None: 0), or a ``Typer`` of several.
    """

    name: str
    place: str
    help: str


SECTIONS: Mapping[str, tuple[Command, ...]] = {
    "Measure": (
        Command("run", "run.run:run", "Run a plan on a rig: record it, report it."),
        Command(
            "measure",
            "run.measure:measure",
            "Run any program, and give the watts and joules that it took.",
        ),
        Command(
            "import",
            "run.import_files:import_files",
            "Make a run of files that you have: a meter's CSV and fio's output.",
        ),
        Command("mark", "run.mark:mark", "Set a mark, with a text, in the run that is on."),
        Command(
            "demo", "run.demo:demo", "Do it all on a simulated rig, and compare with the truth."
        ),
        Command(
            "simulate", "run.demo:simulate", "Start the simulated rig and keep it until Ctrl-C."
        ),
        Command(
            "trace", "run.trace:app", "Describe traces of I/O, and make them ready for replay."
        ),
    ),
    "Results": (
        Command(
            "report",
            "results.report:report",
            "Show a run's results, and make its report again.",
        ),
        Command(
            "analyse",
            "results.analyse:analyse",
            "Consistency, steady state, efficiency, power model of a run.",
        ),
        Command(
            "review",
            "results.analyse:review",
            "Make the page and charts of a review, each with CSV and PDF.",
        ),
        Command(
            "compare",
            "results.compare:app",
            "Compare runs with the first one, or repeats with repeats.",
        ),
        Command(
            "judge",
            "results.judge:judge_run",
            "Hold a run against limits of power: pass, fail or undecided.",
        ),
        Command("repeats", "results.repeats:repeats", "Say how many repeats a side tell a change."),
        Command(
            "trend",
            "results.trend:print_trend",
            "Say what moved in the runs of a drive, rig and plan.",
        ),
        Command(
            "query",
            "results.query:run_query",
            "Ask all runs with SQL (DuckDB), as in SELECT * FROM phases.",
        ),
        Command(
            "compact",
            "results.compact:run_compact",
            "Make few large Parquet files of the tables of all runs.",
        ),
        Command(
            "bundle",
            "results.bundle:bundle",
            "Pack a run's raw data into one archive, with checksums.",
        ),
        Command("verify", "results.bundle:verify", "Derive every number of a bundle again."),
        Command(
            "push",
            "results.push:push_runs",
            "Put runs into a store (S3, a folder), verified there.",
        ),
        Command("pull", "results.push:pull_runs", "Get runs out of a store, verified here."),
    ),
    "Rigs, plans and runs": (
        Command("runs", "rig.runs:list_runs", "List the runs."),
        Command("rigs", "rig.lists:list_rigs", "List the rigs."),
        Command("plans", "rig.lists:list_plans", "List the built-in plans."),
        Command("init", "meters.init:init", "Make a rig of what is connected: it asks."),
        Command("check", "rig.lists:check", "Check a rig or plan file; every mistake is named."),
        Command(
            "doctor",
            "rig.doctor:doctor",
            "Check what would go wrong tonight, and say what to do.",
        ),
        Command(
            "trim-check",
            "rig.trim_check:trim_check",
            "Does TRIM work? On the raw drive, or a filesystem (--folder).",
        ),
    ),
    "Meters": (
        Command(
            "instruments",
            "meters.instruments:list_instruments",
            "List what is connected, who it is, and the rig lines for it.",
        ),
        Command(
            "read",
            "meters.read:read",
            "Show live values of every channel of a rig, until Ctrl-C.",
        ),
        Command(
            "range",
            "meters.find_ranges:find_ranges",
            "Find the range to lock on each meter, at the heaviest points.",
        ),
        Command(
            "calibrate",
            "meters.calibrate:calibrate",
            "Zero the meters with the drive off; compare two meters.",
        ),
        Command(
            "record-session",
            "meters.session:record",
            "Record what an instrument says, to send it to somebody.",
        ),
        Command(
            "play-session", "meters.session:replay", "Play a recorded session through its driver."
        ),
    ),
    "Overnight": (
        Command(
            "queue", "overnight.queue:app", "Queue plans for rigs; labctl daemon works them off."
        ),
        Command(
            "daemon",
            "overnight.daemon:serve",
            "Work off the queue on rigs, until SIGTERM or Ctrl-C.",
        ),
        Command(
            "status",
            "overnight.status:print_status",
            "Print what runs, what waits and what came of the rest.",
        ),
        Command(
            "watch", "overnight.watch:watch", "Show it on the whole screen until q; works over ssh."
        ),
        Command(
            "morning",
            "overnight.morning:print_morning",
            "Print what ran, what it found and what to look at.",
        ),
        Command(
            "tidy",
            "overnight.tidy:tidy",
            "Export or delete old runs, never one on or not shipped.",
        ),
        Command(
            "idle",
            "overnight.idle:idle",
            "Record the meters of a rig without a workload, until Ctrl-C.",
        ),
    ),
    "Servers and shell": (
        Command("ship", "servers.ship:ship_runs", "Send or repair runs in InfluxDB and MQTT."),
        Command(
            "stack",
            "servers.stack:stack",
            "Run InfluxDB, Mosquitto and Grafana here, provisioned.",
        ),
        Command("influxdb", "servers.influxdb:app", "What an InfluxDB keeps of runs."),
        Command("mqtt", "servers.mqtt:app", "What an MQTT broker keeps of a rig."),
        Command(
            "completion",
            "terminal.completion:print_completion",
            "Print what completes words of labctl in your shell.",
        ),
        Command("help", "help:show_help", "Say what the commands of a section do."),
    ),
}
"""In the order of ``labctl --help``."""
RENAMED = {"record": "record-session", "replay": "play-session"}
"""Old names, for one version: ``replay`` is of traces, and ``idle`` records a rig's meters."""
COMMANDS = {command.name: command for section in SECTIONS.values() for command in section}


def section_names() -> tuple[str, ...]:
    """The sections as a person types them: the first word of each, in lower case."""
    return tuple(re.split(r"\W", title)[0].lower() for title in SECTIONS)
