"""A small HTTP server that answers writes as InfluxDB 1.8 was seen to answer,
for what the real 2.7 cannot show: partial writes, body limits, odd answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from aiohttp import web

from tests.servers.influx_lines import Stored, Unparsable, parsed

BODY_LIMIT = 25_000_000


@dataclass
class Canned:
    """An answer that has nothing to do with the lines."""

    status: int
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class FakeInflux:
    databases: set[str] = field(default_factory=lambda: {"lab"})
    token: str = "me:secret"
    body_limit: int = BODY_LIMIT
    canned: deque[Canned] = field(default_factory=deque)
    stored: Stored = field(default_factory=dict)
    types: dict[tuple[str, str], type] = field(default_factory=dict)
    requests: int = 0
    removes: bool = True
    answers_queries: bool = False
    held: asyncio.Event | None = None
    """The first write is answered when it is set."""
    url: str = ""

    async def remove(self, request: web.Request) -> web.Response:
        """The removal of points that later ones replace, which leaves ``stored`` as it is."""
        return web.Response(status=204) if self.removes else _error(404, "not found")

    async def query(self, request: web.Request) -> web.Response:
        """As 1.x answers a statement that it may not carry out: in a good answer."""
        if not self.answers_queries:
            return _error(404, "not found")
        wrong = {"statement_id": 0, "error": "not authorized"}
        return web.json_response({"results": [wrong]})

    async def write(self, request: web.Request) -> web.Response:
        self.requests += 1
        body = await request.read()
        if self.held is not None:
            held, self.held = self.held, None
            await held.wait()
        if self.canned:
            answer = self.canned.popleft()
            return web.Response(status=answer.status, text=answer.body, headers=answer.headers)
        if request.headers.get("Authorization") != f"Token {self.token}":
            return _error(401, "authorization failed")
        if request.query.get("precision") != "ns":
            return _error(400, "this test only knows ns")
        if request.query.get("bucket") not in self.databases:
            return _error(404, f'database not found: "{request.query.get("bucket")}"')
        if len(body) > self.body_limit:
            return _error(413, "Request Entity Too Large")
        troubles = []
        for text in body.decode().split("\n"):
            try:
                key, fields = parsed(text)
            except (Unparsable, ValueError, IndexError) as error:
                troubles.append(f"unable to parse '{text}': {error}")
                continue
            wrong = [
                name
                for name, value in fields.items()
                if self.types.setdefault((key[0], name), type(value)) is not type(value)
            ]
            if wrong:
                troubles.append(f"field type conflict: input field {wrong[0]} dropped=1")
                continue
            self.stored.setdefault(key, {}).update(fields)
        if troubles:
            return _error(400, "partial write: " + "\n".join(troubles))
        return web.Response(status=204)


def _error(status: int, message: str) -> web.Response:
    return web.Response(status=status, text=json.dumps({"error": message}))


@contextlib.asynccontextmanager
async def serving(fake: FakeInflux) -> AsyncIterator[FakeInflux]:
    """The server on a free port of the loopback."""
    app = web.Application(client_max_size=100_000_000)
    app.router.add_post("/api/v2/write", fake.write)
    app.router.add_post("/api/v2/delete", fake.remove)
    app.router.add_post("/query", fake.query)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield fake
    finally:
        await runner.cleanup()
