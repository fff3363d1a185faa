"""The runs that an InfluxDB holds, and their removal: old runs leave it, or leave their results.

The database is asked, not the disk: a run whose directory is gone can be removed, too.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp

from labctl.errors import LabctlError
from labctl.sinks.influxdb.settings import InfluxSettings
from labctl.sinks.influxdb.writer import InfluxWriter, is_plain
from labctl.sinks.sink import ReportLine, StoredPoints

BINS = ("power", "temperature", "host_power", "io")
"""Measurements that grow with the seconds of a run."""

_EVERY_POINT_HAS_ONE_OF = {
    "power": ("volts", "amps"),
    "temperature": ("celsius",),
    "host_power": ("watts",),
    "io": ("iops",),
    "phase": ("index",),
    "point": ("qd",),
    "event": ("title",),
}
ANSWER_WITHIN_S = 300.0
CONNECT_WITHIN_S = 5.0
HEARD_WITHIN_S = 15
"""Two heartbeats of 5 s are missing by then, as on the dashboards."""
LONGEST_ANSWER = 1 << 26
"""Bytes: some 300,000 runs."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run in a database, and the times (ns) of the first and last point that were asked for.

    By the first watts of each rail, at ``rails_ns`` at the latest, the dashboards know its rails:
    they stay when its bins are removed.
    """

    name: str
    first_ns: int
    last_ns: int
    rails_ns: int = -1


class RunStore:
    """The runs of one database."""

    def __init__(self, settings: InfluxSettings, report_line: ReportLine) -> None:
        """``report_line`` gets a sentence when trouble with the server begins and ends."""
        self._settings = settings
        self._report_line = report_line

    async def runs(self, bins_only: bool) -> list[StoredRun]:
        """The runs that have points; ``bins_only``: that have bins. The oldest first. Those with
        a name that labctl would not give are left out: they cannot be removed.

        Raises LabctlError when the server does not answer, or refuses.
        """
        rails_ns: dict[str, int] = {}
        if bins_only:
            for run, t_ns in await self._runs(['SELECT first("watts") FROM "power"'], "rail"):
                rails_ns[run] = max(t_ns, rails_ns.get(run, t_ns))
        first, last = dict[str, int](), dict[str, int]()
        for measurement in BINS if bins_only else _EVERY_POINT_HAS_ONE_OF:
            fields = _EVERY_POINT_HAS_ONE_OF[measurement]
            asked = [
                f'SELECT {which}("{field}") FROM "{measurement}"'
                for field in fields
                for which in ("first", "last")
            ]
            for run, t_ns in await self._runs(asked):
                if measurement != "power" or t_ns > rails_ns.get(run, -1):
                    first[run] = min(t_ns, first.get(run, t_ns))
                    last[run] = max(t_ns, last.get(run, t_ns))
        found = [
            StoredRun(run, first[run], t_ns, rails_ns.get(run, -1))
            for run, t_ns in last.items()
            if is_plain(run)
        ]
        return sorted(found, key=lambda run: (run.last_ns, run.name))

    async def on(self) -> set[str]:
        """The runs that are on, by the last heartbeats of the rigs. Raises LabctlError."""
        heard = f'SELECT last("run") FROM "rig" WHERE time > now() - {HEARD_WITHIN_S}s'
        return {str(row[1]) for _, row in await self._ask(f'{heard} GROUP BY "rig"')}

    async def remove(self, runs: Iterable[StoredRun], bins_only: bool) -> None:
        """Remove all points of runs, or their bins. Raises LabctlError when the server refuses."""

        def begin_ns(run: StoredRun, measurement: str | None) -> int:
            return run.rails_ns + 1 if measurement == "power" else run.first_ns

        await self._remove(
            StoredPoints(measurement, run.name, begin_ns(run, measurement), run.last_ns)
            for run in runs
            for measurement in (BINS if bins_only else (None,))
        )

    async def remove_heartbeats(self, before_ns: int) -> None:
        """Remove heartbeats of all rigs before a time. Raises LabctlError."""
        await self._remove([StoredPoints("rig", None, 0, before_ns)])

    async def _remove(self, parts: Iterable[StoredPoints]) -> None:
        async with InfluxWriter(self._settings, Path("/dev/null"), self._report_line) as writer:
            for part in parts:
                why = await writer.remove(part)
                if why:
                    destination = self._settings.destination
                    raise LabctlError(f"InfluxDB {destination} removes nothing: {why}")

    async def _runs(self, statements: Sequence[str], *also_by: str) -> list[tuple[str, int]]:
        """Run and time of each row, of each run and what else it is to be grouped by."""
        tags = ", ".join(f'"{tag}"' for tag in ("run", *also_by))
        found = await self._ask("; ".join(f"{one} GROUP BY {tags}" for one in statements))
        return [(str(of["run"]), int(row[0])) for of, row in found]

    async def _ask(self, statements: str) -> list[tuple[dict[str, str], list[Any]]]:
        """Tags and first row of each series of the answers."""
        where = self._settings.destination
        query = urlencode({"db": self._settings.bucket, "q": statements, "epoch": "ns"})
        try:
            token = await asyncio.to_thread(self._settings.token)
            context = await asyncio.to_thread(self._certificates)
            limits = aiohttp.ClientTimeout(ANSWER_WITHIN_S, sock_connect=CONNECT_WITHIN_S)
            headers = {"Authorization": f"Token {token}"} if token else {}
            url = f"{self._settings.url}/query?{query}"
            async with (
                aiohttp.ClientSession(timeout=limits, headers=headers) as session,
                session.get(url, ssl=context, allow_redirects=False) as answer,
            ):
                text = await answer.content.read(LONGEST_ANSWER)
                while not answer.content.at_eof() and len(text) < LONGEST_ANSWER:
                    text += await answer.content.read(LONGEST_ANSWER)
                status = answer.status
        except (aiohttp.ClientError, OSError, UnicodeDecodeError) as error:
            words = str(error) or type(error).__name__
            raise LabctlError(f"InfluxDB {where} cannot be asked: {words}") from error
        try:
            return _stored_run_rows(json.loads(text))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            words = " ".join(text[:300].decode("utf-8", "replace").split())
            raise LabctlError(f"InfluxDB {where} answers {status}: {words}") from error

    def _certificates(self) -> ssl.SSLContext | bool:
        if self._settings.ca_file is None:
            return True
        return ssl.create_default_context(cafile=Path(self._settings.ca_file).expanduser())


def _stored_run_rows(answer: Any) -> list[tuple[dict[str, str], list[Any]]]:
    """Raises KeyError, TypeError, ValueError, AttributeError when this is no good answer."""
    found = []
    for result in answer["results"]:
        if "error" in result:
            raise ValueError(result["error"])
        for series in result.get("series") or ():
            found.append((dict(series["tags"]), list(series["values"][0])))
    return found
