"""``labctl trace describe`` and ``labctl trace convert``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from labctl.cli.terminal.pager import pages
from labctl.errors import ConfigurationError, Mistake
from labctl.rounded import rounded

app = typer.Typer(
    help="Describe traces of I/O, and make them ready for replay.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

NOTHING = "–"


@app.command()
@pages
def describe(
    file: Annotated[
        Path,
        typer.Argument(metavar="TRACE", help="A trace: fio iolog, blktrace or CSV (also .gz)."),
    ],
    csv_output: Annotated[bool, typer.Option("--csv", help="Print the bins as CSV.")] = False,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Sizes, queue depths, rates and service times of a trace."""
    from labctl.report.csv_text import csv_text
    from labctl.trace.describe import describe as describe_trace
    from labctl.trace.formats import open_trace

    found = describe_trace(open_trace(file))
    if json_output:
        print(json.dumps(asdict(found), ensure_ascii=False, indent=1))
    elif csv_output:
        rows = [
            (table, one.name, one.ios, one.reads, one.writes, one.bytes)
            for table, bins in (("size", found.sizes), ("queue depth", found.queue_depths or ()))
            for one in bins
        ]
        print(csv_text(("table", "bin", "ios", "reads", "writes", "bytes"), rows), end="")
    else:
        print("\n".join(_trace_description_text(found)))


@app.command()
def convert(
    file: Annotated[Path, typer.Argument(metavar="TRACE", help="A trace in any known format.")],
    target: Annotated[Path, typer.Argument(metavar="IOLOG", help="The fio iolog to write.")],
    drive_size: Annotated[str, typer.Option(help="Size of the drive: 1200g, 512m or bytes.")],
    wrap: Annotated[
        bool, typer.Option("--wrap", help="Fold I/Os beyond the drive's end onto it.")
    ] = False,
    disk: Annotated[
        int | None, typer.Option(help="Only I/Os of this disk (number or LUN) of the trace.")
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write a trace as a fio iolog for replay with read_iolog."""
    from labctl.record.phase import parse_size
    from labctl.trace.convert import convert as convert_trace
    from labctl.trace.formats import open_trace

    try:
        drive_bytes = parse_size(drive_size)
    except ValueError as error:
        mistake = Mistake("command line", "--drive-size", drive_size, str(error))
        raise ConfigurationError([mistake]) from error
    done = convert_trace(open_trace(file), target, drive_bytes, wrap=wrap, disk=disk)
    if json_output:
        print(json.dumps({**asdict(done), "path": str(done.path)}, indent=1))
        return
    folded = f", {done.wrapped} of them folded onto the drive" if done.wrapped else ""
    print(f"{done.path}: fio iolog version {done.version}, {done.ios} I/Os{folded}")
    for line in _bad_trace_lines(done.bad_lines, done.bad_shown):
        print(line)


def _bad_trace_lines(count: int, shown: Sequence[str]) -> list[str]:
    if not count:
        return []
    more = count - len(shown)
    return [
        f"{count} bad line{'s' if count > 1 else ''}, left out",
        *(f"  {line}" for line in shown),
        *([f"  and {more} more"] if more else []),
    ]


def _trace_description_text(found: object) -> list[str]:
    from labctl.trace.describe import Bin, Description

    assert isinstance(found, Description)

    def share(part: float | None) -> str:
        return NOTHING if part is None else f"{part:.1%}"

    def number(value: float | None, factor: float = 1.0) -> str:
        return NOTHING if value is None else f"{float(rounded(value * factor, 4)):,.12g}"

    def table(title: str, bins: Sequence[Bin]) -> list[str]:
        total = sum(one.ios for one in bins) or 1
        size = sum(one.bytes for one in bins) or 1
        head = f"  {title:<12}{'I/Os':>12}{'share':>8}{'reads':>12}{'writes':>12}{'of bytes':>10}"
        rows = [
            f"  {one.name:<12}{one.ios:>12,}{one.ios / total:>8.1%}{one.reads:>12,}"
            f"{one.writes:>12,}{one.bytes / size:>10.1%}"
            for one in bins
        ]
        return ["", head, *rows]

    others = "".join(
        f", {count:,} {name}"
        for count, name in ((found.trims, "trims"), (found.flushes, "flushes"))
        if count
    )
    lines = [
        f"{found.path}: {found.format}",
        f"  {found.ios:,} I/Os: {found.reads:,} reads, {found.writes:,} writes{others}",
        f"  read {found.bytes_read / 1e9:,.3f} GB, written {found.bytes_written / 1e9:,.3f} GB; "
        f"reads {share(found.read_share)} of the I/Os, {share(found.read_byte_share)} of the bytes",
        f"  sequential: {share(found.sequential_ios)} of the I/Os, "
        f"{share(found.sequential_bytes)} of the bytes, on {found.disks} "
        f"disk{'' if found.disks == 1 else 's'}",
        f"  needs a drive of {found.span_bytes / 1e9:,.3f} GB ({found.span_bytes} bytes)",
    ]
    if found.duration_s is None:
        lines.append("  times: not known, the format has none")
    else:
        lines.append(
            f"  {number(found.duration_s)} s, {number(found.bytes_per_s, 1e-6)} MB/s, "
            f"{number(found.iops)} IOPS"
        )
    if found.service_mean_ms is not None:
        lines.append(
            f"  service time: mean {number(found.service_mean_ms)} ms, "
            f"max {number(found.service_max_ms)} ms; busy {number(found.busy_s)} s; "
            f"mean queue depth {number(found.mean_queue_depth)}"
        )
    if found.slow_shares is not None:
        slow = [f"{part:.3%} over {ms} ms" for ms, part in found.slow_shares.items()]
        lines.append(f"  {', '.join(slow)}")
    if found.out_of_order:
        lines.append(f"  {found.out_of_order:,} I/Os begin before the one that stands before them")
    lines += table("size", found.sizes)
    if found.queue_depths is not None:
        lines += table("queue depth", found.queue_depths)
    else:
        lines += ["", "  service times and queue depths: not known, the format has none"]
    return [*lines, *_bad_trace_lines(found.bad_lines, found.bad_shown)]
