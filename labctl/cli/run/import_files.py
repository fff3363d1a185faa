"""``labctl import``: a run of files that people have, a meter's CSV and what fio printed."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from labctl.cli.terminal.arguments import JsonOption, RunsOption
from labctl.cli.terminal.completion import complete_plans
from labctl.errors import ConfigurationError, Mistake, Refused
from labctl.record.timebase import NS_PER_S
from labctl.rounded import rounded

if TYPE_CHECKING:
    from labctl.importing.clock import ClockRules
    from labctl.importing.make_run import Labels
    from labctl.importing.meter_channels import MeterFile
    from labctl.importing.meter_readings import Progress
    from labctl.importing.rails import Given
    from labctl.importing.work import Work

SHOWN_ROWS = 3
WIDTH = 80

Columns = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Heading or number; of several: 12V=COLUMN."),
]


def import_files(
    meters: Annotated[list[Path], typer.Argument(metavar="CSV", help="Files of meters.")],
    fio: Annotated[
        list[Path],
        typer.Option("--fio", help="What fio printed as JSON, or a folder of it; repeatable."),
    ],
    time: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Column of the time; twice: of date and time."),
    ] = None,
    time_format: Annotated[
        str, typer.Option(help="iso, epoch_s, epoch_ms, s, ms, or as '%d.%m.%Y %H:%M:%S'.")
    ] = "",
    zone: Annotated[
        str, typer.Option(help="Of times without one: UTC, +02:00, Europe/Berlin.")
    ] = "",
    volts: Columns = None,
    amps: Columns = None,
    watts: Columns = None,
    rail: Annotated[
        list[str] | None,
        typer.Option(help="What the rail is called, such as 12V; of several files FILE=12V."),
    ] = None,
    stated_volts: Annotated[
        float | None, typer.Option(help="Volts of a rail whose amps alone were measured.")
    ] = None,
    stated_tolerance_pct: Annotated[
        float | None, typer.Option(help="How far these may be off, in %.")
    ] = None,
    accuracy_pct: Annotated[
        float | None, typer.Option(help="Limit of error of the meter, % of reading; else 1.")
    ] = None,
    aperture_s: Annotated[
        float | None, typer.Option(help="Over how long a reading is the mean.")
    ] = None,
    mapping: Annotated[
        Path | None,
        typer.Option(help="What the columns are: a kept file, or a ready one's name."),
    ] = None,
    save_mapping: Annotated[
        Path | None, typer.Option(help="Keep what the columns are in it.")
    ] = None,
    trust_stamps: Annotated[
        bool, typer.Option("--trust-stamps", help="Both clocks are right.")
    ] = False,
    offset: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Added to the meter's times."),
    ] = None,
    clock_u: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="How far that may be off; else 1."),
    ] = None,
    search: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="How far to search; else 120."),
    ] = None,
    plan: Annotated[
        str,
        typer.Option(
            metavar="PLAN", autocompletion=complete_plans, help="The plan that fio worked by."
        ),
    ] = "",
    save_plan: Annotated[Path | None, typer.Option(help="Keep the inferred plan in it.")] = None,
    idle_before: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0, help="So much before the first phase was idle."),
    ] = 0.0,
    idle_after: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0, help="So much after the last phase was idle."),
    ] = 0.0,
    drive: Annotated[str, typer.Option(help="The drive's model, for the report.")] = "",
    rig: Annotated[str, typer.Option(help="What the rig is called.")] = "import",
    runs: RunsOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether it is right.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what was taken for what.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Make a run of files that you have: a meter's CSV and fio's output.

    It shows what it takes for what. The clocks are aligned by the steps of the watts, unless
    --trust-stamps or --offset says otherwise.
    """
    from labctl.cli.results.report import make_report
    from labctl.cli.terminal.runs_place import place_of_new_runs
    from labctl.importing import mapping as mappings
    from labctl.importing.clock import ClockRules
    from labctl.importing.make_run import Labels, import_json, import_run
    from labctl.importing.meter_channels import open_source, rails_of, with_names
    from labctl.importing.phases import Idle, phases_of, plan_text
    from labctl.importing.rails import Given
    from labctl.importing.workload import read_workload
    from labctl.installed import Extra, need
    from labctl.record.atomic_write import write_atomically
    from labctl.record.reader import RunRecord

    need(Extra.PARQUET)
    if (stated_volts is None) != (stated_tolerance_pct is None):
        raise _wrong_import_option(
            "--stated-volts", stated_volts, "goes with --stated-tolerance-pct, and so back"
        )
    if trust_stamps and offset is not None:
        raise _wrong_import_option(
            "--offset", offset, "is one thing, --trust-stamps another: say one of them"
        )
    if dry_run and json_output:
        raise _wrong_import_option(
            "--json", None, "says which run was made, and --dry-run makes none"
        )
    stated = None
    if stated_volts is not None and stated_tolerance_pct is not None:
        stated = stated_volts, stated_tolerance_pct
    given = Given(
        time=tuple(time or ()),
        time_format=time_format,
        zone=_checked_zone(zone),
        volts=tuple(volts or ()),
        amps=tuple(amps or ()),
        watts=tuple(watts or ()),
        stated=stated,
        accuracy_pct=accuracy_pct,
        aperture_s=aperture_s,
    )
    _check_import_name("--rig", rig)
    sources = _import_sources(meters, mapping, given, _rail_names(meters, rail or []))
    rules = ClockRules(trust=trust_stamps, offset_s=offset, u_s=clock_u, search_s=search)
    _check_clock_options(rules, sources)
    if stated is not None and not _has_stated(sources):
        raise _wrong_import_option(
            "--stated-volts", stated_volts, "goes with amps alone, and volts were measured"
        )
    works = read_workload(fio)
    labels = Labels(rig, _plan_name(fio), drive)
    if plan:
        works, labels = _import_as_planned(works, labels, plan)
    if not json_output:
        _show_import(sources, works)
    if save_mapping is not None:
        kept = mappings.Mapping(meters=[source.meter for source in sources])
        write_atomically(save_mapping, mappings.mapping_text(kept))
        if not json_output:
            print(f"mapping: {save_mapping}")
    idle = Idle(idle_before, idle_after)
    if save_plan is not None:
        text = labels.plan_text or plan_text(labels.plan, phases_of(works, idle))
        write_atomically(save_plan, text)
        if not json_output:
            print(f"plan: {save_plan}")
    rails_of([open_source(source) for source in with_names(sources)])
    if dry_run:
        return
    if mapping is None and not (yes or json_output) and sys.stdin.isatty():
        print()
        if not typer.confirm("Is that right?", default=True):
            raise Refused("nothing was imported: options say what is what (labctl import -h)")
    root = place_of_new_runs(runs)
    found = import_run(
        works, sources, root, labels, rules, _import_progress(quiet=json_output), idle
    )
    if not json_output:
        print()
        for source, clock in zip(sources, found.clocks, strict=True):
            text = f"clock of {source.file.name}: {clock.text()}"
            print("\n".join(textwrap.wrap(text, WIDTH, subsequent_indent="  ")))
        for note in found.notes:
            print(textwrap.fill(f"note: {note}", WIDTH, subsequent_indent="  "))
        print()
    make_report(RunRecord(found.path), quiet=json_output)
    if json_output:
        print(json.dumps(import_json(found), ensure_ascii=False))
        return
    print(f"run: {found.path}")
    print(f"report: {found.path / 'report.html'}")
    print(f"watts over fio's phases: {found.path / 'charts' / 'alignment.svg'}")


def _wrong_import_option(key: str, value: object, allowed: str) -> ConfigurationError:
    return ConfigurationError([Mistake("command line", key, value, allowed)])


def _check_clock_options(rules: ClockRules, sources: Sequence[MeterFile]) -> None:
    """Refuse what would say nothing. Raises ConfigurationError."""
    given = rules.trust or rules.offset_s is not None
    kept = [source.meter.offset_s is not None for source in sources]
    if rules.u_s is not None and not given and not any(kept):
        allowed = "goes with --offset or --trust-stamps: of an offset that is searched, it is found"
        raise _wrong_import_option("--clock-u", rules.u_s, allowed)
    if rules.search_s is not None and (given or all(kept)):
        by = "--trust-stamps" if rules.trust else "--offset" if given else "the mapping's offset_s"
        raise _wrong_import_option(
            "--search", rules.search_s, f"says nothing beside {by}: nothing is searched"
        )


def _has_stated(sources: Sequence[MeterFile]) -> bool:
    rails = (rail for source in sources for rail in source.meter.rails.values())
    return any(rail.stated is not None for rail in rails)


def _import_as_planned(
    works: Sequence[Work], labels: Labels, plan: str
) -> tuple[tuple[Work, ...], Labels]:
    """The phases as a plan calls them, and its name and text for the run."""
    from labctl.config.plan import load_plan
    from labctl.importing.given_plan import as_planned

    loaded, text = load_plan(plan)
    return as_planned(works, loaded, plan), replace(labels, plan=loaded.name, plan_text=text)


def _check_import_name(key: str, name: str) -> None:
    from labctl.record.layout import NAME_PATTERN
    from labctl.toml_reading import pattern_in_words

    if not re.fullmatch(NAME_PATTERN, name):
        raise _wrong_import_option(key, name, pattern_in_words(NAME_PATTERN))


def _checked_zone(zone: str) -> str:
    from labctl.importing.times import check_zone

    try:
        check_zone(zone)
    except ValueError as error:
        raise _wrong_import_option("--zone", zone, str(error)) from error
    return zone


def _plan_name(fio: Sequence[Path]) -> str:
    """After fio's file or folder."""
    stem = fio[0].resolve().stem.lower()
    return re.sub(r"[^a-z0-9.-]+", "-", stem).strip("-.")[:64] or "fio"


def _rail_names(files: Sequence[Path], said: Sequence[str]) -> dict[Path, str]:
    """The rail of each file that has one said. Raises ConfigurationError."""
    found: dict[Path, str] = {}
    for one in said:
        name, _, rail = one.rpartition("=")
        own = [file for file in files if not name or name in (file.name, file.stem, str(file))]
        if not own:
            raise _wrong_import_option(
                "--rail", one, f"is of none of the files: {', '.join(map(str, files))}"
            )
        for file in own:
            if file in found:
                raise _wrong_import_option("--rail", one, f"{file} is of {found[file]} already")
            _check_import_name("--rail", rail)
            found[file] = rail
    return found


def _import_sources(
    files: Sequence[Path], mapping: Path | None, given: Given, rails: Mapping[Path, str]
) -> list[MeterFile]:
    """Each file with what its columns are, kept or guessed. Raises ConfigurationError with what is
    wrong with any of them."""
    from labctl.importing.guess import guess
    from labctl.importing.mapping import load_mapping
    from labctl.importing.meter_channels import MeterFile
    from labctl.importing.rails import Given
    from labctl.importing.workload import is_fio_output

    ready = _ready_name(mapping)
    if mapping is not None and not ready and (given != Given() or rails):
        allowed = "says what the columns are, and no option beside it: edit it, or leave it out"
        raise _wrong_import_option("--mapping", str(mapping), allowed)
    kept = None if mapping is None or ready else load_mapping(mapping)
    sources: list[MeterFile] = []
    mistakes: list[Mistake] = []
    for file in files:
        try:
            if not file.is_file():
                words = "is a folder: name the files of meters"
                words = words if file.is_dir() else "there is no such file"
                raise ConfigurationError([Mistake(str(file), "file", None, words)])
            if is_fio_output(file):
                words = "is what fio printed: name it with --fio, and a meter's file here"
                raise ConfigurationError([Mistake(str(file), "file", None, words)])
            meter = None if kept is None else kept.of(file)
            if kept is not None and meter is None:
                raise ConfigurationError(
                    [Mistake(str(mapping), "meters", None, f"none is for {file.name}")]
                )
            if meter is not None:
                sources.append(MeterFile(file, meter))
                continue
            found = guess(file, replace(given, rail=rails.get(file, "")), ready)
            sources.append(MeterFile(file, found.meter, found.known.words() if found.known else ""))
        except ConfigurationError as error:
            mistakes += error.mistakes
    if mistakes:
        raise ConfigurationError(mistakes)
    return sources


def _ready_name(mapping: Path | None) -> str:
    """The name of the ready mapping that ``--mapping`` says; empty: it says a file, or nothing."""
    from labctl.importing.ready import ready_mappings

    if mapping is None or mapping.exists() or mapping.suffix or len(mapping.parts) > 1:
        return ""
    names = ready_mappings()
    if str(mapping) not in names:
        allowed = f"is no file, and none of the ready mappings: {', '.join(names)}"
        raise _wrong_import_option("--mapping", str(mapping), allowed)
    return str(mapping)


def _show_import(sources: Sequence[MeterFile], works: Sequence[Work]) -> None:
    """What was taken for what, on the first rows; and the phases."""
    from labctl.importing.phases import labels_of

    for source in sources:
        _show_meter(source)
    print(f"\nfio: {len(works)} phase{'' if len(works) == 1 else 's'}")
    begin_ns = works[0].begin_ns
    for number, (work, label) in enumerate(zip(works, labels_of(works), strict=True), 1):
        at_s = (work.begin_ns - begin_ns) / NS_PER_S
        u_s = work.boundary_u_ns / NS_PER_S
        print(
            f"  {number:>3} {label:<26} at {at_s:9.3f} s for {work.duration_s:8.3f} s "
            f"± {rounded(u_s, 2)} s"
        )
    for how in dict.fromkeys(work.timed_by for work in works):
        print(f"  when a phase was is known from {how}")


def _show_meter(source: MeterFile) -> None:
    import itertools

    from labctl.importing.guess import mapped_table

    meter, table = source.meter, mapped_table(source.file, source.meter)
    print(f"{source.file}: fields end at {meter.delimiter!r}, decimals at {meter.decimal!r}")
    if source.known:
        print(textwrap.fill(source.known, WIDTH, initial_indent="  ", subsequent_indent="    "))
    names = " and ".join(map(str, meter.time))
    zone = f" in {meter.zone}" if meter.zone else ""
    if meter.interval_s is not None:
        print(f"  time: a row each {meter.interval_s:g} s")
    else:
        print(f"  time: {names} ({meter.time_format}{zone})")
    columns = {}
    for name, rail in meter.rails.items():
        for kind, column in rail.columns():
            unit = table.unit(column)
            said = f" in {unit}" if unit else ""
            if column.unit_column is not None:
                said = f" in the unit that {column.unit_column} says"
            only = f" where {meter.channel_column} is {column.channel}" if column.channel else ""
            print(f"  {name} {kind}: {column.column}{said}{only}")
            columns[f"{name} {kind}"] = column
        if rail.stated is not None:
            print(
                f"  {name} volts: stated, {rail.stated.volts:g} V ± {rail.stated.tolerance_pct:g} %"
            )
    pct = "1 % (assumed)" if meter.accuracy_pct is None else f"{meter.accuracy_pct:g} %"
    print(f"  accuracy: ± {pct} of reading")
    part = next(table.parts())
    for row in itertools.islice(range(len(part.t_ns)), SHOWN_ROWS):
        seconds = (int(part.t_ns[row]) - int(part.t_ns[0])) / NS_PER_S
        cells = [
            f"{name} {part.columns[column][row]:.6g}"
            for name, column in columns.items()
            if part.columns[column][row] == part.columns[column][row]
        ]
        text = f"line {meter.first_line + row}: {seconds:+.6f} s, {', '.join(cells) or 'nothing'}"
        print(textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent="    "))


def _import_progress(*, quiet: bool) -> Progress:
    """Says every tenth of a file of many parts, on standard error."""
    said: dict[Path, int] = {}

    def say(file: Path, share: float) -> None:
        tenth = int(share * 10)
        if not quiet and 0 < tenth < 10 and tenth > said.get(file, 0):
            said[file] = tenth
            print(f"{file.name}: {tenth * 10} % read", file=sys.stderr, flush=True)

    return say
