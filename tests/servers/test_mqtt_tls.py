"""A broker that is spoken to with certificates."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
from pathlib import Path

import pytest

from labctl.service.runs.shipping import ship
from tests.servers.influx_run import MadeRun
from tests.servers.mqtt_run import (
    LIMIT_S,
    events_of,
    sink_of,
)
from tests.servers.mqtt_server import Mosquitto, mosquitto, retained

pytestmark = pytest.mark.skipif(mosquitto() is None, reason="no mosquitto on PATH or in /usr/sbin")


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    """A certificate authority, a certificate for 127.0.0.1 and one for a client."""
    folder = tmp_path / "certificates"
    folder.mkdir()

    def openssl(*words: str) -> None:
        try:
            subprocess.run(
                ["openssl", *words], cwd=folder, check=True, capture_output=True, timeout=60
            )
        except FileNotFoundError:
            pytest.skip("no openssl to make certificates with")

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2",
            "-subj", "/CN=authority of the tests")  # fmt: skip
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    for name in ("broker", "client"):
        openssl("req", *curve, "-keyout", f"{name}.key", "-out", f"{name}.csr",
                "-subj", f"/CN={name}")  # fmt: skip
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                "-CAcreateserial", "-out", f"{name}.pem", "-days", "2",
                "-extfile", "names")  # fmt: skip
    return folder


async def test_tls_with_a_certificate_of_the_client(tmp_path: Path, certificates: Path) -> None:
    folder = certificates
    server = Mosquitto(
        tmp_path / "broker",
        lines=(
            f"cafile {folder / 'ca.pem'}",
            f"certfile {folder / 'broker.pem'}",
            f"keyfile {folder / 'broker.key'}",
            "require_certificate true",
        ),
    )
    server.start()
    try:
        run = MadeRun(tmp_path).whole()
        reported: list[str] = []
        files = {
            "tls": True,
            "ca_file": str(folder / "ca.pem"),
            "certificate_file": str(folder / "client.pem"),
            "key_file": str(folder / "client.key"),
        }
        async with asyncio.timeout(LIMIT_S):
            (shipped,) = await ship(run.path, [sink_of(run, server, reported, live=False, **files)])
        assert shipped.complete and shipped.report.sent >= events_of(run) and reported == []
        context = ssl.create_default_context(cafile=folder / "ca.pem")
        context.load_cert_chain(folder / "client.pem", folder / "client.key")
        found = await retained(server, tls_context=context)
        assert json.loads(found["labctl/bench/state"])["state"] == "idle"
        without = {"tls": True}
        sink = sink_of(run, server, reported, **without)
        async with sink:
            while not reported:
                await asyncio.sleep(0.02)
        assert "certificate verify failed" in reported[0]
    finally:
        server.kill()
