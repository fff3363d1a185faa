"""Writes lines to InfluxDB 2.x or 1.8+, and retries until they are stored.

By the answer to a request:

- network errors, time-outs, 408, 429, 5xx: tried again, with growing pauses;
- 401, 403, 404 and other refusals of the request itself, also a 400 or 422 that does not speak of
  lines: reported once, tried again slowly;
- 400, 422 that speak of lines: halved until only the invalid lines are left, which go to
  the reject file with the server's reason. 2.x stores nothing of a batch with an unparsable line,
  1.x all but that line; the rest being sent again does no harm in either;
- 413: halved.
"""

from __future__ import annotations

import asyncio
import functools
import json
import random
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
from influxdb_client.client.influxdb_client_async import InfluxDBClientAsync
from influxdb_client.rest import ApiException

from labctl.sinks.influxdb.settings import TOKEN_VARIABLE, InfluxSettings
from labctl.sinks.schema import SCHEMA
from labctl.sinks.sink import ReportLine, StoredPoints

LONGEST_ANSWER = 8 * 1024
"""Bytes read of an error's text: a server lists every bad line of a batch."""

LONGEST_REASON = 400

_LINE_TROUBLE = re.compile(
    r"unable to parse|partial write|field type conflict|retention policy|max key size"
    r"|time outside range|line too long|line protocol|unbalanced quotes"
    r"|(invalid|missing|bad) (field|tag|number|measurement|timestamp)",
    re.IGNORECASE,
)
"""What the servers say of a line (``models/points.go`` and ``tsdb`` of InfluxDB 1 and 2; 3 says
"line protocol")."""
_PLAIN_NAME = re.compile(r"[\w.+-]+")

_DROPPED = re.compile(r"\bdropped[= ](\d+)")


@dataclass(frozen=True, slots=True)
class WritePace:
    """How long to wait between attempts, and for an answer. Seconds."""

    first_s: float = 0.25
    most_s: float = 10.0
    refused_s: float = 15.0
    answer_s: float = 30.0
    connect_s: float = 5.0


class _Verdict(Enum):
    STORED = auto()
    LINES = auto()
    TOO_LARGE = auto()
    AWAY = auto()
    REFUSED = auto()


@dataclass(frozen=True, slots=True)
class _Answer:
    verdict: _Verdict
    reason: str = ""
    wait_s: float = 0.0
    """Retry-After of the server, s."""


class _ShortAnswer(aiohttp.ClientResponse):
    """An answer of which no more than ``LONGEST_ANSWER`` bytes are read; the client reads it once,
    by :meth:`read`."""

    async def read(self) -> bytes:
        data = bytearray()
        async for chunk in self.content.iter_chunked(LONGEST_ANSWER):
            data += chunk
            if len(data) >= LONGEST_ANSWER:
                self.close()
                break
        return bytes(data[:LONGEST_ANSWER])


class InfluxWriter:
    """Stores batches of lines in one InfluxDB."""

    def __init__(
        self,
        settings: InfluxSettings,
        rejects: Path,
        report_line: ReportLine,
        pace: WritePace | None = None,
    ) -> None:
        """``rejects`` is the file for lines that the server will not take.

        ``report_line`` gets a sentence when trouble begins and when it ends.
        """
        self.stored = 0
        self.rejected = 0
        self.trouble = ""
        """What is wrong with the server now, in words; empty while it stores what is sent."""
        self._settings = settings
        self._rejects = rejects
        self._report_line = report_line
        self._pace = pace or WritePace()
        self._token: str | None = None
        self._reported: _Verdict | None = None
        self._recovered = asyncio.Event()
        self._client: Any = None  # the library's annotations are incomplete

    async def __aenter__(self) -> InfluxWriter:
        context = None
        if self._settings.ca_file is not None:
            path = Path(self._settings.ca_file).expanduser()
            context = await asyncio.to_thread(ssl.create_default_context, cafile=path)
        self._client = InfluxDBClientAsync(
            url=self._settings.url,
            org=self._settings.org,
            timeout=aiohttp.ClientTimeout(
                total=self._pace.answer_s, sock_connect=self._pace.connect_s
            ),
            ssl_context=context,
            allow_redirects=False,  # a redirected POST becomes a GET: it would store nothing
            client_session_kwargs={"response_class": _ShortAnswer},
        )
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._client is not None:
            await self._client.close()

    async def store(self, lines: Sequence[str]) -> None:
        """Return when every line is stored, or in the reject file."""
        parts = [list(lines)]
        while parts:
            part = parts.pop()
            body = "\n".join(part).encode()
            answer = await self._until_answered(functools.partial(self._write, body))
            if answer.verdict is _Verdict.STORED:
                self.stored += len(part)
            elif len(part) == 1 or _all_dropped(answer, len(part)):
                self._reject(part, answer.reason)
            else:
                middle = len(part) // 2
                parts += [part[middle:], part[:middle]]

    async def probe(self) -> str:
        """What is wrong with the server, token or bucket, in words; empty when it takes points.

        One line without a field is sent: a server that would store lines answers that it is
        invalid (2.x and 1.x check token and bucket first), and stores nothing.
        """
        answer = await self._attempt(functools.partial(self._write, b"labctl_probe"))
        taken = answer.verdict in (_Verdict.LINES, _Verdict.STORED)
        return "" if taken else answer.reason

    async def remove(self, points: StoredPoints) -> str:
        """Return when the points are removed: empty, or why the server removes none (3 Core; a
        token that may only write).

        2.x has an address for it, 1.x a statement of InfluxQL. What is of neither a measurement
        nor a run is not removed.
        """
        named = [name for name in (points.measurement, points.run) if name is not None]
        if not named or not all(map(is_plain, named)):
            return ""  # of a record from elsewhere; names that labctl gives are plain
        answer = await self._until_answered(
            functools.partial(self._remove_as_2, points), refusal_is_final=True
        )
        if answer.verdict is not _Verdict.STORED:
            answer = await self._until_answered(
                functools.partial(self._remove_as_1, points), refusal_is_final=True
            )
        return "" if answer.verdict is _Verdict.STORED else answer.reason

    async def _write(self, body: bytes) -> bool:
        writer = self._client.write_api()
        return bool(await writer.write(bucket=self._settings.bucket, record=body))

    async def _remove_as_2(self, points: StoredPoints) -> bool:
        first, last = (
            np.datetime64(t_ns, "ns").astype(str) + "Z"
            for t_ns in (points.first_ns, points.last_ns)
        )
        parts = {"_measurement": points.measurement, "run": points.run}
        predicate = " AND ".join(
            f'{name}="{value}"' for name, value in parts.items() if value is not None
        )
        delete = self._client.delete_api().delete
        return bool(await delete(first, last, predicate, self._settings.bucket, self._settings.org))

    async def _remove_as_1(self, points: StoredPoints) -> bool:
        # each named: a statement about all fails where one has a field of the tag's name
        every = [name for name, one in SCHEMA.items() if "run" in one.tags]
        of_run = "" if points.run is None else f"\"run\" = '{points.run}' AND "
        statement = "; ".join(
            f'DELETE FROM "{name}" WHERE {of_run}'
            f"time >= {points.first_ns} AND time <= {points.last_ns}"
            for name in ([points.measurement] if points.measurement else every)
        )
        answer = await self._client.api_client.call_api(
            "/query",
            "POST",
            query_params=[("db", self._settings.bucket), ("q", statement)],
            response_type="object",
            _return_http_data_only=True,
        )
        # 1.x says what went wrong in a good answer; who has rows for it did something else
        told = json.dumps(answer.get("results")) if isinstance(answer, dict) else "error"
        return '"error"' not in told and '"series"' not in told

    async def _until_answered(
        self, ask: Callable[[], Awaitable[bool]], *, refusal_is_final: bool = False
    ) -> _Answer:
        """Try until the server answers about what was asked itself."""
        pause_s = self._pace.first_s
        while True:
            recovered = self._recovered
            answer = await self._attempt(ask)
            if answer.verdict in (_Verdict.STORED, _Verdict.LINES, _Verdict.TOO_LARGE):
                self._trouble_over()
                return answer
            if refusal_is_final and answer.verdict is _Verdict.REFUSED:
                return answer
            if recovered.is_set():
                continue  # sent before the server recovered: try again at once
            self._report_trouble(answer)
            if answer.verdict is _Verdict.REFUSED:
                wait_s = self._pace.refused_s
            else:
                wait_s = max(pause_s, min(answer.wait_s, self._pace.most_s))
                pause_s = min(pause_s * 2, self._pace.most_s)
            await self._pause(wait_s * random.uniform(0.75, 1.25))

    async def _attempt(self, ask: Callable[[], Awaitable[bool]]) -> _Answer:
        try:
            await self._renew_token()
            if await ask():
                return _Answer(_Verdict.STORED)
            return _Answer(_Verdict.REFUSED, "it answers, but not as InfluxDB does: a proxy?")
        except ApiException as error:
            return self._answer_of(error)
        except TimeoutError:
            return _Answer(_Verdict.AWAY, f"no answer within {self._pace.answer_s:.0f} s")
        except (aiohttp.ClientError, OSError) as error:
            return _Answer(
                _Verdict.AWAY, _shortened_write_error(str(error) or type(error).__name__)
            )

    async def _renew_token(self) -> None:
        """Read the token again after a refusal: a corrected one is used at the next attempt."""
        if self._token is not None and self._reported is not _Verdict.REFUSED:
            return
        try:
            token = await asyncio.to_thread(self._settings.token)
        except (OSError, UnicodeDecodeError) as error:
            if self._token is None:
                self._token = ""
            self._report_line(f"InfluxDB: the token file cannot be read: {error}")
            return
        if token != self._token:
            self._token = token
            if token:
                self._client.api_client.set_default_header("Authorization", f"Token {token}")

    def _answer_of(self, error: ApiException) -> _Answer:
        status = int(error.status or 0)
        reason = _write_error_reason(error)
        shown = f"{status} {reason}".strip()
        if status == 413:
            return _Answer(_Verdict.TOO_LARGE, shown)
        if status in (400, 422) and _LINE_TROUBLE.search(reason):
            return _Answer(_Verdict.LINES, shown)
        if status in (408, 429) or (status >= 500 and status != 501):
            return _Answer(_Verdict.AWAY, shown, _retry_after(error))
        hints = {
            401: f"is the token right? ({TOKEN_VARIABLE} or token_file)"
            if self._token
            else f"there is no token for this address: {TOKEN_VARIABLE}, or token_file beside "
            "this url",
            403: "may this token write to the bucket?",
            404: f"is there a bucket {self._settings.bucket!r}?",
        }
        hint = hints.get(status, "is this the address of an InfluxDB?")
        if re.search(r"\borg(anization|ID)?\b", reason):
            hint = f"is {self._settings.org!r} the organisation there? say org"
        if status == 404 and "page not found" in reason:
            hint = "is this an InfluxDB, of version 1.8 or newer?"
        return _Answer(_Verdict.REFUSED, f"{shown}: {hint}")

    def _report_trouble(self, answer: _Answer) -> None:
        self.trouble = answer.reason
        if answer.verdict is self._reported:
            return
        self._reported = answer.verdict
        what = "refuses" if answer.verdict is _Verdict.REFUSED else "does not answer"
        self._report_line(
            f"InfluxDB {self._settings.destination} {what}: {answer.reason}; "
            "nothing is lost, it is sent when it can be"
        )

    def _trouble_over(self) -> None:
        if self._reported is None:
            return
        self._reported, self.trouble = None, ""
        self._report_line(f"InfluxDB {self._settings.destination} takes points again")
        self._recovered.set()  # ends the pauses of the other batches
        self._recovered = asyncio.Event()

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._recovered.wait()
        except TimeoutError:
            return

    def _reject(self, part: Sequence[str], reason: str) -> None:
        first = not self.rejected
        self.rejected += len(part)
        text = "".join(f"# {_shortened_write_error(reason)}\n{line}\n" for line in part)
        try:
            with self._rejects.open("a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            self._report_line(f"{self._rejects} cannot be written: {error.strerror or error}")
        if first:
            self._report_line(
                f"InfluxDB {self._settings.destination} will not take some lines, they are in "
                f"{self._rejects}: {_shortened_write_error(reason)}"
            )


def is_plain(name: str) -> bool:
    """Whether a name needs no quoting in a predicate or a statement."""
    return _PLAIN_NAME.fullmatch(name) is not None


def _all_dropped(answer: _Answer, count: int) -> bool:
    """Whether the server dropped all ``count`` lines (older than the bucket's retention): halving
    would take thousands of requests."""
    found = _DROPPED.findall(answer.reason)
    return answer.verdict is _Verdict.LINES and any(int(number) == count for number in found)


def _write_error_reason(error: ApiException) -> str:
    """The server's error text, on one line, shortened."""
    body = getattr(error, "body", None) or b""
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else str(body)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = None
    if isinstance(data, dict):
        text = str(data.get("message") or data.get("error") or text)
    return _shortened_write_error(text or str(error.reason or ""))


def _shortened_write_error(text: str) -> str:
    plain = " ".join(text.split())
    if len(plain) <= LONGEST_REASON:
        return plain
    half = LONGEST_REASON // 2
    return f"{plain[:half]} … {plain[-half:]}"


def _retry_after(error: ApiException) -> float:
    headers: Mapping[str, str] = getattr(error, "headers", None) or {}
    value = headers.get("Retry-After", "")
    return float(value) if value.isascii() and value.isdigit() else 0.0
