"""Redfish: what controllers send, and a server that does not do what it should."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from instruments.drivers.redfish import (
    Redfish,
    RedfishPower,
    RedfishSettings,
    decode_power,
    path_in,
)
from instruments.errors import ConnectionLost, InstrumentError, ProtocolError, WrongInstrument
from instruments.reading import Batch, Status

CHASSIS = "/redfish/v1/Chassis"
OLDER: dict[str, Any] = {
    CHASSIS: {"Members": [{"@odata.id": f"{CHASSIS}/Self"}]},
    f"{CHASSIS}/Self": {"Model": "R1", "Power": {"@odata.id": f"{CHASSIS}/Self/Power"}},
    f"{CHASSIS}/Self/Power": {
        "PowerControl": [
            {"PowerConsumedWatts": 344, "PowerMetrics": {"AverageConsumedWatts": 319}},
            {"PowerConsumedWatts": 12},
        ]
    },
}


@pytest.mark.parametrize(
    ("resource", "power"),
    [
        ({"PowerWatts": {"Reading": 374.5}}, RedfishPower(374.5)),
        (
            {"PowerWatts": {"Reading": 374, "DataSourceUri": f"{CHASSIS}/1U/Sensors/TotalPower"}},
            RedfishPower(374.0, source=f"{CHASSIS}/1U/Sensors/TotalPower"),
        ),
        (OLDER[f"{CHASSIS}/Self/Power"], RedfishPower(344.0)),
        ({"PowerControl": [{"PowerConsumedWatts": None}]}, RedfishPower(Status.NO_VALUE)),
        ({"PowerControl": [{"PowerConsumedWatts": "344"}]}, RedfishPower(Status.UNREADABLE)),
        ({"PowerControl": [{"PowerConsumedWatts": True}]}, RedfishPower(Status.UNREADABLE)),
        ({"PowerControl": [{"PowerConsumedWatts": -3}]}, RedfishPower(Status.UNREADABLE)),
        ({"PowerControl": [{"PowerConsumedWatts": 1e300}]}, RedfishPower(Status.UNREADABLE)),
        (
            {"Reading": 95, "ReadingUnits": "W", "ReadingTime": "2026-01-01T00:00:00Z"},
            RedfishPower(95.0, "2026-01-01T00:00:00Z"),
        ),
        ({"Reading": 39, "ReadingUnits": "Cel"}, None),
        ({"PowerControl": []}, None),
        ({"PowerControl": "none", "PowerWatts": 12}, None),
        ({}, None),
    ],
)
def test_watts_of_each_kind_of_resource(
    resource: dict[str, Any], power: RedfishPower | None
) -> None:
    assert decode_power(resource) == power


@pytest.mark.parametrize(
    "link",
    ["https://elsewhere.example/redfish/v1/x", "//elsewhere.example", "/redfish/v1/a b", "/etc", 7],
)
def test_no_link_leads_away_from_the_server(link: object) -> None:
    assert path_in({"one": {"@odata.id": link}, "other": link}, "one") == ""
    assert path_in({"one": {"@odata.id": link}, "other": link}, "other") == ""


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"url": "ftp://bmc"}, "must be an address"),
        ({"url": "https://root:calvin@bmc"}, "must not hold a password"),
        ({"url": "https://bmc/redfish/v1"}, "address alone"),
        ({"url": "https://bmc:99999"}, "0-65535"),
        ({"url": "http://bmc", "user": "a", "password_file": "b"}, "must begin with https"),
        ({"url": "https://bmc", "user": "a"}, "belong together"),
        ({"url": "https://bmc", "interval_s": 0.1}, "greater than or equal to 1"),
        ({"url": "https://bmc", "accuracy_floor": 1}, "belong together"),
    ],
)
def test_wrong_settings(keys: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        RedfishSettings.model_validate(keys)


Answer = Callable[[BaseHTTPRequestHandler], None]


@pytest.fixture
def serving() -> Iterator[Callable[[Answer], str]]:
    """Starts a server that answers each GET so; its address."""
    servers = []

    def serve(answer: Answer, tls: ssl.SSLContext | None = None) -> str:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                answer(self)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http{'' if tls is None else 's'}://127.0.0.1:{server.server_port}"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def send(handler: BaseHTTPRequestHandler, body: bytes, status: int = 200, **headers: str) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def resources(found: dict[str, Any]) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        known = handler.path in found
        send(handler, json.dumps(found.get(handler.path)).encode(), 200 if known else 404)

    return answer


def controller(url: str, **keys: Any) -> Redfish:
    settings = RedfishSettings.model_validate({"url": url, "interval_s": 1, "dither": False} | keys)
    return Redfish("bmc", settings, time.monotonic_ns)


def next_batch(instrument: Redfish) -> Batch:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        batch = instrument.read()
        if batch.blocks or batch.statuses:
            return batch
    raise AssertionError("no batch")


def test_an_older_controller_is_read_by_power(serving: Callable[[Answer], str]) -> None:
    instrument = controller(serving(resources(OLDER)))
    assert str(instrument.open()) == "Redfish R1"
    instrument.start()
    (block,) = next_batch(instrument).blocks
    assert block.values.tolist() == [344.0]
    instrument.close()


def test_the_login_goes_with_each_request_and_is_in_no_message(
    serving: Callable[[Answer], str], tmp_path: Path
) -> None:
    (tmp_path / "password").write_text("s3cret-word\n")
    seen = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        seen.append(handler.headers["Authorization"])
        send(handler, b"{}", 401)

    keys = {"user": "labctl", "password_file": str(tmp_path / "password")}
    with pytest.raises(ConnectionLost, match="refuses user labctl") as refused:
        controller(serving(answer), **keys).open()
    assert seen == ["Basic bGFiY3RsOnMzY3JldC13b3Jk"]
    assert "s3cret" not in str(refused.value)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make a certificate")
def test_a_password_goes_only_to_a_server_with_a_certificate_that_is_known(
    serving: Callable[..., str], tmp_path: Path
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    words = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    files = ("-keyout", str(key), "-out", str(certificate))
    of = ("-subj", "/CN=bmc", "-addext", "subjectAltName=IP:127.0.0.1")
    subprocess.run(
        ["openssl", "req", "-x509", *words, *files, *of],
        check=True,
        capture_output=True,
        timeout=60,
    )
    (tmp_path / "password").write_text("s3cret-word\n")
    logins = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        logins.append(handler.headers["Authorization"])
        resources(OLDER)(handler)

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    url = serving(answer, tls)
    login = {"user": "labctl", "password_file": str(tmp_path / "password")}
    known = login | {"ca_file": str(certificate)}
    for address, keys in ((url, login), (url.replace("127.0.0.1", "localhost"), known)):
        with pytest.raises(ConnectionLost, match="certificate"):
            controller(address, **keys).open()
    assert not logins
    instrument = controller(url, **known)
    assert str(instrument.open()) == "Redfish R1"
    instrument.close()
    assert logins and None not in logins


def test_several_chassis_are_named(serving: Callable[[Answer], str]) -> None:
    found = OLDER | {CHASSIS: {"Members": [{"@odata.id": f"{CHASSIS}/{x}"} for x in "AB"]}}
    found |= {f"{CHASSIS}/B": OLDER[f"{CHASSIS}/Self"]}
    url = serving(resources(found))
    with pytest.raises(WrongInstrument, match="2 chassis; there are: A, B"):
        controller(url).open()
    with pytest.raises(WrongInstrument, match="no chassis C"):
        controller(url, chassis="C").open()
    controller(url, chassis="B").open()


def test_a_reading_that_was_given_before_is_none(serving: Callable[[Answer], str]) -> None:
    sensor = f"{CHASSIS}/Self/Sensors/P"
    found = OLDER | {
        f"{CHASSIS}/Self": {"EnvironmentMetrics": {"@odata.id": f"{CHASSIS}/Self/E"}},
        f"{CHASSIS}/Self/E": {"PowerWatts": {"Reading": 9, "DataSourceUri": sensor}},
        sensor: {"Reading": 10, "ReadingUnits": "W", "ReadingTime": "2026-01-01T00:00:00Z"},
    }
    instrument = controller(serving(resources(found)))
    assert instrument.open().notes[0].endswith(sensor)
    instrument.start()
    assert next_batch(instrument).blocks[0].values.tolist() == [10.0]
    (status,) = next_batch(instrument).statuses
    assert status.status is Status.DUPLICATE
    found[sensor] = found[sensor] | {"ReadingTime": "2026-01-01T00:00:05Z"}
    assert next_batch(instrument).blocks[0].values.tolist() == [10.0]
    instrument.close()


def _redirect(handler: BaseHTTPRequestHandler) -> None:
    send(handler, b"", 302, Location="http://127.0.0.1:1/redfish/v1/Chassis")


def _stalls(handler: BaseHTTPRequestHandler) -> None:
    """Its body never ends."""
    handler.send_response(200)
    handler.send_header("Content-Length", "100")
    handler.end_headers()
    with contextlib.suppress(OSError):
        for _ in range(40):
            handler.wfile.write(b"{")
            handler.wfile.flush()
            time.sleep(0.2)


def _drops(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("answer", "error", "why"),
    [
        (lambda h: send(h, b"<html>"), ProtocolError, "no JSON object"),
        (lambda h: send(h, b"[1]"), ProtocolError, "no JSON object"),
        (lambda h: send(h, b"[" * 100_000), ProtocolError, "no JSON object"),
        (lambda h: send(h, b" " * 1_100_000), ProtocolError, "more than 1 MiB"),
        (lambda h: send(h, b"{}", 503), ProtocolError, "503"),
        (lambda h: send(h, b'{"Members": 7}'), WrongInstrument, "there are: none"),
        (_redirect, ProtocolError, "302"),
        (_stalls, ConnectionLost, "cut off"),
        (_drops, ConnectionLost, "is it there"),
    ],
)
def test_a_server_that_is_none_is_refused_in_a_word(
    serving: Callable[[Answer], str], answer: Answer, error: type[InstrumentError], why: str
) -> None:
    with pytest.raises(error, match=why):
        controller(serving(answer)).open()


def test_a_server_that_ends_the_connection_after_each_answer(
    serving: Callable[[Answer], str],
) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.close_connection = True
        send(handler, json.dumps(OLDER[handler.path]).encode())

    instrument = controller(serving(answer))
    instrument.open()
    instrument.start()
    for _ in range(2):
        assert next_batch(instrument).blocks[0].values.tolist() == [344.0]
    instrument.close()
