"""The commands of ``labctl``. Nothing heavy is imported before a command is chosen."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from labctl.cli.queue_commands import queue_app
from labctl.cli.tracing import app as trace_app

if TYPE_CHECKING:
    from labctl.errors import LabctlError

INTERRUPTED = 130

app = typer.Typer(
    name="labctl",
    help="Watts of an SSD at each queue depth, on each rail, and when it throttles.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

app.add_typer(queue_app, name="queue")

RunsOption = Annotated[
    Path, typer.Option("--runs", envvar="LABCTL_RUNS", help="Directory of the runs.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
_RIG = typer.Argument(help="A rig file, or the name of a rig in rigs/.")
_PLAN = typer.Argument(help="A built-in plan's name, or a plan file.")
RigArgument = Annotated[str, _RIG]
ScaleOption = Annotated[
    float | None,
    typer.Option(help="Scale times, spans and fills of the plan down, such as 0.01."),
]
DEFAULT_RUNS = Path("runs")


@app.command()
def run(
    rig: Annotated[str | None, _RIG] = None,
    plan: Annotated[str | None, _PLAN] = None,
    runs: RunsOption = DEFAULT_RUNS,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the phases, time and bytes; touch nothing.")
    ] = False,
    scale: ScaleOption = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask about a plan of many hours or bytes.")
    ] = False,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Go on with a run that was cut off, in its directory."),
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Run a plan on a rig: record it, report it."""
    from labctl.cli import running

    if resume is not None:
        if rig is not None or plan is not None or dry_run:
            raise typer.BadParameter("--resume takes rig and plan from the run: name no others")
        raise typer.Exit(running.resume_and_report(resume, json_output))
    if rig is None or plan is None:
        raise typer.BadParameter("a rig and a plan are needed, or --resume RUN")
    if dry_run:
        running.print_dry_run(rig, plan, json_output, scale)
    else:
        raise typer.Exit(running.run_and_report(rig, plan, runs, json_output, scale, yes))


@app.command()
def demo(
    runs: RunsOption = DEFAULT_RUNS,
    plan: Annotated[str, typer.Option(help="The plan to run on the simulated rig.")] = "demo",
    scale: ScaleOption = None,
    seed: Annotated[int, typer.Option(help="Seed of the meters' errors and noise.")] = 1,
    to: Annotated[
        str | None, typer.Option(help="Send it to http://HOST:8086?org=ORG&bucket=BUCKET, too.")
    ] = None,
    grafana: Annotated[
        str | None, typer.Option(help="Grafana's address, to print the dashboard's.")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Run a plan on a simulated drive and meters, and compare with the truth."""
    from labctl.cli import demonstration

    raise typer.Exit(demonstration.demonstrate(runs, plan, scale, seed, to, grafana, json_output))


@app.command()
def simulate(
    directory: Annotated[Path, typer.Argument(help="Where sockets, ttys and rig.toml go.")],
    seed: Annotated[int, typer.Option(help="Seed of the meters' errors and noise.")] = 1,
    parameters: Annotated[
        Path | None, typer.Option(help="Drive parameters (TOML); the reference drive if left out.")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Start the simulated rig and keep it until Ctrl-C."""
    from labctl.cli import demonstration

    demonstration.simulate(directory, seed, parameters, json_output)


@app.command()
def report(
    run_directory: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    json_output: JsonOption = False,
) -> None:
    """Make table, CSV, charts and report of a run again, from its journal alone."""
    from labctl.cli import reporting

    reporting.report(run_directory, json_output)


@app.command()
def analyse(
    run_directory: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    tail: Annotated[
        float, typer.Option(min=2.0, help="Seconds of a phase's end that consistency is of.")
    ] = 400.0,
    watts: Annotated[
        float | None, typer.Option(help="Ask for the most IOPS under this many watts.")
    ] = None,
    iops: Annotated[
        float | None, typer.Option(help="Ask for the least watts that do these IOPS.")
    ] = None,
    qos_percent: Annotated[float, typer.Option(help="Percentile of the latency verdict.")] = 99.9,
    qos_us: Annotated[float, typer.Option(help="Its limit, in microseconds.")] = 500.0,
    json_output: JsonOption = False,
) -> None:
    """Consistency, steady state, efficiency knee, power model and more, of a run."""
    from labctl.cli import analysing

    analysing.analyse(run_directory, tail, watts, iops, (qos_percent, qos_us), json_output)


@app.command()
def review(
    run_directory: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    tail: Annotated[
        float, typer.Option(min=2.0, help="Seconds of a phase's end that consistency is of.")
    ] = 400.0,
) -> None:
    """Make the charts of the reviews, each with CSV and PDF, and their page."""
    from labctl.cli import analysing

    analysing.review(run_directory, tail)


@app.command()
def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run directories.")],
    gate: Annotated[Path | None, typer.Option(help="A gate file (TOML): limits.")] = None,
    allow: Annotated[
        list[str] | None, typer.Option(help="A limit: QUANTITY=PERCENT it may be worse by.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="A limit within the uncertainty fails, too.")
    ] = False,
    html: Annotated[Path | None, typer.Option(help="Write a page with charts here.")] = None,
    csv_output: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    json_output: JsonOption = False,
) -> None:
    """Compare runs with the first one; exit code 1 when a gate fails."""
    from labctl.cli import comparing

    raise typer.Exit(
        comparing.compare_runs(runs, gate, allow or (), strict, html, csv_output, json_output)
    )


@app.command()
def bundle(
    run_directory: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The archive.")] = None,
    json_output: JsonOption = False,
) -> None:
    """Pack everything raw of a run into one archive, with checksums and versions."""
    from labctl.cli import bundling

    bundling.bundle(run_directory, output, json_output)


@app.command()
def verify(
    file: Annotated[Path, typer.Argument(metavar="BUNDLE", help="An archive of labctl bundle.")],
    json_output: JsonOption = False,
) -> None:
    """Derive every number of a bundle again; exit code 1 when one or a file differs."""
    from labctl.cli import bundling

    raise typer.Exit(bundling.verify(file, json_output))


@app.command()
def query(
    sql: Annotated[str, typer.Argument(help="SQL over the tables phases and runs.")],
    runs: RunsOption = DEFAULT_RUNS,
    csv_output: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    json_output: JsonOption = False,
) -> None:
    """Ask all runs with SQL (DuckDB): SELECT label, watts FROM phases."""
    from labctl.cli import querying

    querying.run_query(sql, [runs], csv_output, json_output)


@app.command()
def ship(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run directories.")],
    to: Annotated[
        list[str] | None,
        typer.Option(help="Another server: http://HOST:8086?org=ORG&bucket=BUCKET."),
    ] = None,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Send everything again (harmless).")
    ] = False,
    full_rate: Annotated[
        bool, typer.Option("--full-rate", help="Every reading, not means per bin.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Send runs to InfluxDB and MQTT, from where it stopped or from the start."""
    from labctl.cli import shipping

    code = shipping.ship_runs(
        runs, to or (), from_start=from_start, full_rate=full_rate, json_output=json_output
    )
    raise typer.Exit(code)


mqtt = typer.Typer(help="What an MQTT broker keeps of a rig.", no_args_is_help=True)
app.add_typer(mqtt, name="mqtt")


@mqtt.command()
def forget(
    rig: Annotated[str, typer.Argument(help="A rig file, or a rig's name, also of one long gone.")],
    json_output: JsonOption = False,
) -> None:
    """Take back what the broker keeps of a rig: Home Assistant's entities and the last state."""
    from labctl.cli import mqtt as mqtt_commands

    mqtt_commands.forget_rig(rig, json_output)


@app.command()
def stack(
    native: Annotated[
        bool, typer.Option("--native", help="Without Docker: run what is installed.")
    ] = False,
    state: Annotated[Path | None, typer.Option(help="Directory of data and secrets.")] = None,
    influxdb_port: Annotated[int, typer.Option(help="InfluxDB's port.")] = 8086,
    mosquitto_port: Annotated[int, typer.Option(help="Mosquitto's port.")] = 1883,
    grafana_port: Annotated[int, typer.Option(help="Grafana's port.")] = 3000,
    without: Annotated[list[str] | None, typer.Option(help="A server to leave out.")] = None,
) -> None:
    """Run InfluxDB, Mosquitto and Grafana on this machine, provisioned."""
    if not native:
        typer.echo("labctl: with Docker: make stack; without: labctl stack --native", err=True)
        raise typer.Exit(2)
    from dashboards.stack import Ports
    from labctl.cli.stack import run_native

    run_native(state, Ports(influxdb_port, mosquitto_port, grafana_port), without or [])


@app.command()
def daemon(
    rigs: Annotated[
        list[str] | None, typer.Argument(metavar="[RIG]...", help="Rigs; all, if left out.")
    ] = None,
    runs: Annotated[
        Path | None,
        typer.Option("--runs", help="Directory of the runs; else in the data directory."),
    ] = None,
) -> None:
    """Work off the queue on rigs, until SIGTERM or Ctrl-C."""
    from labctl.cli import serving

    serving.serve(rigs or (), runs)


@app.command()
def idle(
    rig: RigArgument,
    runs: Annotated[Path | None, typer.Option("--runs", help="Directory of the records.")] = None,
) -> None:
    """Record the meters of a rig without a workload, until Ctrl-C."""
    from labctl.cli import idling

    idling.record(rig, runs)


BrokerOption = Annotated[
    str | None, typer.Option("--broker", help="Rigs of an MQTT broker instead: HOST[:PORT].")
]


@app.command()
def status(broker: BrokerOption = None, json_output: JsonOption = False) -> None:
    """Print what runs, what waits and what came of the rest."""
    from labctl.cli import standing

    standing.print_status(broker, json_output)


@app.command()
def watch(broker: BrokerOption = None) -> None:
    """Show it on the whole screen until q; works over ssh."""
    from labctl.cli import watching

    watching.watch(broker)


@app.command()
def morning(
    since: Annotated[
        str | None, typer.Option(help="From then on: 18:00, or a date and time; else a day.")
    ] = None,
    runs: Annotated[Path | None, typer.Option("--runs", help="Directory of the runs.")] = None,
    json_output: JsonOption = False,
) -> None:
    """Print what the queue did: what ran, what it found, what to look at."""
    from labctl.cli import tidying

    tidying.print_morning(since, runs, json_output)


@app.command()
def tidy(
    export_after: Annotated[
        float | None, typer.Option(help="Write Parquet beside runs older than so many days.")
    ] = None,
    delete_after: Annotated[
        float | None, typer.Option(help="Delete runs older than so many days.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="Delete the oldest until the rest fits: 200g.")
    ] = None,
    archive: Annotated[
        Path | None, typer.Option(help="Where Parquet goes; nothing is deleted before it is there.")
    ] = None,
    runs: Annotated[Path | None, typer.Option("--runs", help="Directory of the runs.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done; touch nothing.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Export or delete old runs; never one that is on or not shipped."""
    from labctl.cli import tidying

    code = tidying.tidy(
        runs,
        export_after,
        delete_after,
        budget,
        archive,
        dry_run=dry_run,
        json_output=json_output,
    )
    raise typer.Exit(code)


@app.command("runs")
def list_runs(runs: RunsOption = DEFAULT_RUNS, json_output: JsonOption = False) -> None:
    """List the runs."""
    from labctl.cli import listing

    listing.list_runs(runs, json_output)


@app.command("rigs")
def list_rigs(json_output: JsonOption = False) -> None:
    """List the rigs in ./rigs, $LABCTL_RIGS and ~/.config/labctl/rigs."""
    from labctl.cli import listing

    listing.list_rigs(json_output)


@app.command("plans")
def list_plans(json_output: JsonOption = False) -> None:
    """List the built-in plans."""
    from labctl.cli import listing

    listing.list_plans(json_output)


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="A rig or a plan file.")],
    json_output: JsonOption = False,
) -> None:
    """Check a rig or plan file; every mistake is named."""
    from labctl.cli import listing

    listing.check(file, json_output)


@app.command()
def doctor(
    rig: RigArgument,
    plan: Annotated[str | None, typer.Argument(help="A plan that it shall do tonight.")] = None,
    runs: RunsOption = DEFAULT_RUNS,
    json_output: JsonOption = False,
) -> None:
    """Check everything that would go wrong tonight, and say what to do about it."""
    from labctl.cli import doctor as page

    raise typer.Exit(page.print_examination(rig, plan, runs, json_output))


@app.command("range")
def suggest_ranges(
    rig: RigArgument,
    plan: Annotated[str | None, typer.Argument(help="Its heaviest points; else reads.")] = None,
    runs: RunsOption = DEFAULT_RUNS,
    json_output: JsonOption = False,
) -> None:
    """Run the heaviest points for seconds, and print the range to lock of each meter."""
    from labctl.cli import ranging

    raise typer.Exit(ranging.suggest_ranges(rig, plan, runs, json_output))


@app.command("instruments")
def list_instruments(
    addresses: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ADDRESS]...", help="Serial ports or VISA resources to ask."),
    ] = None,
    ask: Annotated[bool, typer.Option("--ask", help="Ask each VISA resource who it is.")] = False,
    json_output: JsonOption = False,
) -> None:
    """List what is connected, who it is, and the rig lines for it."""
    from labctl.cli import connected

    raise typer.Exit(connected.list_instruments(addresses or (), ask, json_output))


@app.command()
def read(
    rig: RigArgument,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between looks.")] = 1.0,
    seconds: Annotated[float | None, typer.Option(help="Stop after so long.")] = None,
    json_output: JsonOption = False,
) -> None:
    """Show live values of every channel of a rig, until Ctrl-C."""
    from rich.console import Console

    from labctl.cli import wall

    raise typer.Exit(wall.show_rig(rig, every, seconds, json_output, Console()))


@app.command()
def record(
    rig: RigArgument,
    instrument: Annotated[str, typer.Argument(help="The instrument's name in the rig.")],
    seconds: Annotated[float, typer.Option(help="For how long.")] = 30.0,
    to: Annotated[Path | None, typer.Option(help="The file; a new one here if left out.")] = None,
) -> None:
    """Record what is said on an instrument's line, to send it to somebody."""
    from labctl.cli import sessions

    raise typer.Exit(sessions.record(rig, instrument, seconds, to))


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(help="A recorded session.")],
    json_output: JsonOption = False,
) -> None:
    """Play a recorded session through its driver and print the readings."""
    from labctl.cli import sessions

    raise typer.Exit(sessions.replay(file, json_output))


app.add_typer(trace_app, name="trace")


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Watts of an SSD at each queue depth, on each rail, and when it throttles."""
    if show:
        import importlib.metadata

        typer.echo(f"labctl {importlib.metadata.version('labctl')}")
        raise typer.Exit


def _fail(error: LabctlError) -> NoReturn:
    for line in str(error).splitlines():
        typer.secho(f"labctl: {line}", err=True, fg="red" if sys.stderr.isatty() else None)
    raise SystemExit(error.exit_code)


def _refuse_foreign_instruments() -> None:
    """InstrumentKit installs a top-level package of the same name; say so plainly."""
    found = importlib.util.find_spec("instruments")
    where = found.origin if found is not None and found.origin else "nowhere"
    if Path(where).with_name("reading.py").is_file():
        return
    typer.echo(
        f"labctl: the Python package 'instruments' found at {where} is not labctl's. "
        "InstrumentKit installs one of the same name: give labctl an environment of its own "
        "(pipx install labctl)",
        err=True,
    )
    raise SystemExit(2)


def main() -> None:
    """Entry point: one clear message and the right exit code for every error."""
    _refuse_foreign_instruments()
    from labctl.errors import LabctlError

    try:
        app()
    except LabctlError as error:
        _fail(error)
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except BrokenPipeError:
        raise SystemExit(0) from None


if __name__ == "__main__":
    main()
