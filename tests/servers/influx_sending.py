"""What the tests with a real InfluxDB share: a quick sink, a run of some batches, a comparison."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from labctl.sinks.follow.follower import Follower
from labctl.sinks.influxdb.settings import InfluxSettings
from labctl.sinks.influxdb.sink import InfluxSink
from labctl.sinks.influxdb.writer import WritePace
from tests.servers.influx_lines import Stored
from tests.servers.influx_run import MadeRun, default_meters
from tests.servers.influx_server import ORG, InfluxServer

QUICK = WritePace(first_s=0.05, most_s=0.3, refused_s=0.2, answer_s=3.0, connect_s=1.0)


def sink_of(
    run: Path,
    server: InfluxServer,
    bucket: str,
    reported: list[str],
    *,
    full_rate: bool = False,
    from_start: bool = False,
    token_file: str | None = None,
    pace: WritePace = QUICK,
) -> InfluxSink:
    settings = InfluxSettings(url=server.url, org=ORG, bucket=bucket, token_file=token_file)
    return InfluxSink(
        run,
        "influxdb",
        settings,
        reported.append,
        full_rate=full_rate,
        from_start=from_start,
        pace=pace,
    )


def busy_run(root: Path, seconds: float = 40.0) -> MadeRun:
    """Some ten batches at full rate."""
    meters = default_meters()
    for name in ("v12.voltage", "i12.voltage", "v3.voltage", "i3.current"):
        meters[name].rate_hz = 400.0
    return MadeRun(root, seconds=seconds, meters=meters).whole()


def assert_same(found: Stored, expected: Stored) -> None:
    """Counted per series first: the difference of thousands of points helps nobody."""

    def counted(stored: Stored) -> Counter[tuple[object, ...]]:
        return Counter(key[:2] for key in stored)

    assert counted(found) == counted(expected)
    wrong = [key for key in expected if found.get(key) != expected[key]]
    assert not wrong, f"{len(wrong)} differ, first {wrong[0]}"


async def sent_slowly(sink: InfluxSink, run: Path, halfway: object) -> None:
    """Send a run, and call ``halfway()`` after the third slice."""
    assert callable(halfway)
    async with sink:
        follower = Follower(run, sink.cursor)
        number = 0
        while (part := follower.advance(None)) is not None:
            await sink.put(part)
            number += 1
            if number == 3:
                halfway()
        await sink.drain()
