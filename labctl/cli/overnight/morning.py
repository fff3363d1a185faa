"""``labctl morning``: the summary of the jobs of the last day."""

from __future__ import annotations

import json
import time
from typing import Annotated

import typer

from labctl.cli.terminal.arguments import JsonOption, RunsOption
from labctl.cli.terminal.pager import pages
from labctl.cli.terminal.runs_place import place_of_jobs
from labctl.errors import ConfigurationError, Mistake
from labctl.record.timebase import DAY_S
from labctl.service.data_dir import find_home
from labctl.service.queue.new_jobs import CLOCK, parse_after
from labctl.service.queue.store import Queue
from labctl.service.status import morning as mornings

SINCE = "must be a time (18:00), or a date and time that have passed (2026-11-21 18:00)"


@pages
def print_morning(
    since: Annotated[
        str | None, typer.Option(help="From then on: 18:00, or a date and time; else a day.")
    ] = None,
    runs: RunsOption = None,
    json_output: JsonOption = False,
) -> None:
    """Print what ran, what it found and what to look at."""
    since_s = time.time() - DAY_S
    if since is not None:
        since_s = _since_for_morning(since)
    jobs = Queue(find_home()).jobs()
    found = mornings.morning(jobs, place_of_jobs(runs), since_s)
    if json_output:
        print(json.dumps(found.to_json(), indent=1))
    else:
        print("\n".join(mornings.lines(found)))


def _since_for_morning(text: str) -> float:
    """A time that has passed: a time of day is the last one that was."""
    from datetime import datetime

    now = datetime.now().astimezone()
    try:
        moment = parse_after(text, now)
    except ConfigurationError:
        raise ConfigurationError([Mistake("command line", "--since", text, SINCE)]) from None
    if moment > now.timestamp() and CLOCK.fullmatch(text.strip()):
        moment -= DAY_S
    if moment > now.timestamp() or text.strip().startswith("+"):
        raise ConfigurationError([Mistake("command line", "--since", text, SINCE)])
    return moment
