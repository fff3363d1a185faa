"""What starts the stack: provisioning, compose file, secrets, and the native servers' set-up."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboards import COMPOSE_FILE, PROVISIONING_DIR, ROOT
from dashboards.stack.errors import StackError
from dashboards.stack.mosquitto_password import password_line
from dashboards.stack.native import NativeStack, Ports
from dashboards.stack.secrets_file import KEYS, load_or_create
from labctl.cli.servers.stack import run_native
from labctl.errors import ConfigurationError


def _yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def _rules() -> list[dict[str, Any]]:
    (group,) = _yaml(PROVISIONING_DIR / "alerting" / "labctl.yaml")["groups"]
    assert {"orgId", "name", "folder", "interval", "rules"} <= group.keys()
    return list(group["rules"])


def test_the_data_source_serves_every_version() -> None:
    (source,) = _yaml(PROVISIONING_DIR / "datasources" / "influxdb.yaml")["datasources"]
    assert source["name"] == source["uid"] == "labctl"
    assert source["database"] == source["jsonData"]["dbName"]
    assert source["jsonData"]["httpHeaderName1"] == "Authorization"
    assert source["secureJsonData"]["httpHeaderValue1"] == "Token $LABCTL_INFLUX_READ_TOKEN"
    (older,) = _yaml(ROOT / "examples" / "influxdb-1.yaml")["datasources"]
    assert older["uid"] == "labctl"
    assert older["secureJsonData"] == {"password": "$LABCTL_INFLUX_PASSWORD"}


def test_alert_rules_have_what_grafana_asks_for() -> None:
    rules = _rules()
    assert [rule["title"] for rule in rules] == [
        "Drive over its warning temperature",
        "Meter silent",
        "Run failed",
        "Heartbeat lost",
    ]
    for rule in rules:
        assert re.fullmatch(r"[\w-]{1,40}", rule["uid"])
        refs = [item["refId"] for item in rule["data"]]
        assert rule["condition"] == refs[-1]
        assert (rule["noDataState"], rule["execErrState"]) == ("OK", "Error")
        asked, *computed = rule["data"]
        assert asked["datasourceUid"] == "labctl"
        assert {"from", "to"} == asked["relativeTimeRange"].keys()
        assert (
            'GROUP BY "rig"' in asked["model"]["query"] or '"rig" fill' in asked["model"]["query"]
        )
        for item in computed:
            assert item["datasourceUid"] == "__expr__"
            assert item["model"]["expression"] in refs
            assert item["model"]["type"] in ("reduce", "threshold")
        for item in rule["data"]:
            assert item["model"]["refId"] == item["refId"]


def test_no_dollar_in_alert_rules_for_grafana_to_replace() -> None:
    for rule in _rules():
        assert "$" not in json.dumps(rule)


def test_compose_pins_checks_and_keeps_to_loopback() -> None:
    services = _yaml(COMPOSE_FILE)["services"]
    assert set(services) == {"influxdb", "mosquitto", "grafana"}
    for name, service in services.items():
        assert re.search(r":\d+\.\d+\.\d+$", service["image"]), name
        assert service["healthcheck"]["test"], name
        assert service["restart"] == "unless-stopped"
        for port in service["ports"]:
            assert port.startswith("${LABCTL_BIND:-127.0.0.1}:"), name
    text = COMPOSE_FILE.read_text("utf-8")
    assert set(re.findall(r"(LABCTL_\w+):\?", text)) == set(KEYS), "every secret is demanded"
    for volume in re.findall(r"- (\.{1,2}/[^:]+):", text):
        assert (COMPOSE_FILE.parent / volume).exists(), volume


def test_compose_file_is_accepted_by_docker(tmp_path: Path) -> None:
    docker = shutil.which("docker")
    command = [str(docker), "compose", "version"]
    if docker is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no docker compose on this machine")
    environment = tmp_path / "env"
    load_or_create(environment)
    options = ["--env-file", str(environment), "-f", str(COMPOSE_FILE)]
    command = [docker, "compose", *options, "config", "--quiet"]
    subprocess.run(command, check=True)


def test_secrets_are_made_once_and_are_nobody_elses(tmp_path: Path) -> None:
    path = tmp_path / "state" / "secrets.env"
    first = load_or_create(path)
    assert set(first) == set(KEYS)
    assert min(map(len, first.values())) >= 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_or_create(path) == first
    path.chmod(0o644)
    assert load_or_create(path) == first
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_secret_that_is_missing_is_added_and_the_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "secrets.env"
    path.write_text("LABCTL_MQTT_PASSWORD=mine\nOTHER=kept\n")
    secrets = load_or_create(path)
    assert secrets["LABCTL_MQTT_PASSWORD"] == "mine"
    assert load_or_create(path)["OTHER"] == "kept"


def test_the_password_line_is_mosquittos() -> None:
    user, digest = password_line("labctl", "secret").strip().split(":")
    _, version, iterations, salt, hashed = digest.split("$")
    assert (user, version) == ("labctl", "7")
    again = hashlib.pbkdf2_hmac("sha512", b"secret", base64.b64decode(salt), int(iterations))
    assert base64.b64encode(again).decode() == hashed


def test_missing_programs_are_named_all_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("GRAFANA_HOME", raising=False)
    with pytest.raises(StackError) as refused:
        NativeStack(tmp_path, Ports()).__enter__()
    text = str(refused.value)
    assert refused.value.usage
    assert "influxdb is not installed" in text and "grafana is not installed" in text


def test_an_unknown_server_to_leave_out_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="must be one of influxdb, mosquitto, grafana"):
        run_native(None, Ports(), ["postgres"])
