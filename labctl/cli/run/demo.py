"""``labctl demo`` and ``labctl simulate``: the whole job without hardware.

The run goes through the same code as any other, on the rig file that the bench writes. Only
afterwards, and only here, are its results set against what the simulated drive really did.
"""

from __future__ import annotations

import json
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from instruments.simulated.bench import Bench, configure
from instruments.simulated.drive.ground_truth import GroundTruth
from instruments.simulated.drive.parameters import REFERENCE
from labctl.analysis.estimate import Estimate
from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.run_summary import RunSummary
from labctl.cli.results.report import make_report, print_pages
from labctl.cli.run.run import run_plan
from labctl.cli.terminal.arguments import (
    JsonOption,
    RunsOption,
    ScaleOption,
)
from labctl.cli.terminal.completion import complete_plans
from labctl.config.plan import load_plan
from labctl.config.rig import load_rig
from labctl.errors import RunFailed
from labctl.record.reader import RunRecord
from labctl.record.timebase import Anchor
from labctl.service.runs.configured_sinks import influx_sink
from labctl.sinks.influxdb.settings import influx_settings


def demo(
    runs: RunsOption = None,
    plan: Annotated[
        str,
        typer.Option(
            metavar="PLAN",
            autocompletion=complete_plans,
            help="The plan to run on the simulated rig.",
        ),
    ] = "demo",
    scale: ScaleOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the meters' errors and noise.")] = 1,
    to: Annotated[
        str | None, typer.Option(help="Send it to http://HOST:8086?org=ORG&bucket=BUCKET, too.")
    ] = None,
    grafana: Annotated[
        str | None, typer.Option(help="Grafana's address, to print the dashboard's.")
    ] = None,
    json_output: JsonOption = False,
) -> int:
    """Do it all on a simulated rig, and compare with the truth."""
    loaded, plan_text = load_plan(plan, scale)
    settings = influx_settings("", "the simulated rig", to)
    sinks = [] if settings is None else [influx_sink(settings, to=to)]
    with tempfile.TemporaryDirectory(prefix="labctl-bench-") as folder:
        try:
            bench = Bench(Path(folder) / "bench", configure(seed=seed))
            bench.start()
        except RuntimeError as error:
            raise RunFailed(f"the simulated rig did not start: {error}") from error
        try:
            if not json_output:
                print("a simulated drive and its meters are running; fio works on it for real")
            rig = load_rig(bench.rig)
            outcome = run_plan(rig, loaded, plan_text, runs, sinks, quiet=json_output)
        finally:
            bench.stop()
        record = RunRecord(outcome.path)
        summary = make_report(record, quiet=json_output)
        comparisons = compare_demo_with_truth(
            summary, GroundTruth(bench.directory / "truth"), record.header.anchor
        )
    if json_output:
        inside = [item.to_json() for item in comparisons]
        print(json.dumps({**outcome.to_json(), "truth": inside, "summary": summary.to_json()}))
        return outcome.exit_code
    print_pages(outcome.path)
    print()
    print_comparison(comparisons, len(summary.phases))
    if grafana is not None:
        print(f"dashboard: {grafana}/d/labctl-power-per-qd?var-run={outcome.path.name}")
    return outcome.exit_code


def simulate(
    directory: Annotated[
        Path, typer.Argument(metavar="DIRECTORY", help="Where sockets, ttys and rig.toml go.")
    ],
    seed: Annotated[int, typer.Option(min=0, help="Seed of the meters' errors and noise.")] = 1,
    parameters: Annotated[
        Path | None, typer.Option(help="Drive parameters (TOML); the reference drive if left out.")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Start the simulated rig and keep it until Ctrl-C."""
    config = configure(seed=seed).model_copy(update={"parameters": parameters or REFERENCE})
    try:
        with Bench(directory, config) as bench:
            if json_output:
                ready = {"rig": str(bench.rig), "meters": dict(bench.addresses)}
                print(json.dumps(ready), flush=True)
            else:
                print("the simulated rig is running; in another terminal:")
                print(f"  labctl run {bench.rig} demo")
                print("Ctrl-C ends it", flush=True)
            wanted = {signal.SIGINT, signal.SIGTERM}
            signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
            signal.sigwait(wanted)
    except OSError as error:
        why = f"{error.filename or directory}: {error.strerror or error}"
        raise RunFailed(f"the simulated rig did not start: {why}") from error
    except (RuntimeError, ValueError) as error:
        raise RunFailed(f"the simulated rig did not start: {error}") from error


@dataclass(frozen=True, slots=True)
class DemoComparison:
    """One phase: measured watts, and the watts that the simulated drive really drew."""

    label: str
    measured: Estimate
    true_watts: float

    @property
    def inside(self) -> bool:
        """Whether the truth is inside the stated uncertainty."""
        return self.measured.covers(self.true_watts)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary, watts."""
        measured = {"value": self.measured.value, "u": self.measured.u}
        return {
            "phase": self.label,
            "watts": measured,
            "true_watts": self.true_watts,
            "inside": self.inside,
        }


def compare_demo_with_truth(
    summary: RunSummary, truth: GroundTruth, anchor: Anchor
) -> list[DemoComparison]:
    """Every phase with a total, set against the truth over the same time."""
    return [
        DemoComparison(result.phase.label, result.watts, _true_watts(result, truth, anchor))
        for result in summary.phases
        if result.watts is not None
    ]


def _true_watts(result: PhaseResult, truth: GroundTruth, anchor: Anchor) -> float:
    begin_ns = anchor.to_monotonic_ns(result.begin_ns)
    end_ns = anchor.to_monotonic_ns(result.end_ns)
    return sum(truth.mean_watts(begin_ns, end_ns).values())


def print_comparison(comparisons: list[DemoComparison], phases: int) -> None:
    """Measured against true watts, phase by phase, and how many of the ``phases`` are inside."""
    print("measured against what the simulated drive really drew (labctl never sees it):")
    print(f"  {'phase':<26}{'measured':>20}{'true':>10}{'error':>11}")
    for item in comparisons:
        error = item.measured.value - item.true_watts
        measured = f"{item.measured.value:.4f} ± {item.measured.u:.4f} W"
        mark = "inside" if item.inside else "OUTSIDE"
        print(
            f"  {item.label:<26}{measured:>20}{item.true_watts:>10.4f}"
            f"{error * 1000:>+8.1f} mW  {mark}"
        )
    inside = sum(item.inside for item in comparisons)
    print(f"{inside} of {len(comparisons)} phases lie inside the stated uncertainty (about 95 %)")
    if missing := phases - len(comparisons):
        print(f"{missing} of {phases} phases have no total watts: the notes above say why")
