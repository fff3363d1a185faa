"""First set-up of InfluxDB 2.x: organisation, bucket, tokens."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from dashboards.stack.errors import StackError

TIMEOUT_S = 10.0


def answers_healthy(url: str) -> bool:
    """Whether a server is healthy, by InfluxDB's ``/health`` or Grafana's ``/api/health``."""
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:
            return bool(response.status == 200)
    except OSError:
        return False


class InfluxSetup:
    """The set-up of a fresh server, through its HTTP interface."""

    def __init__(self, url: str, name: str) -> None:
        """``name`` is that of the user, the organisation and the bucket alike."""
        self.url = url
        self._name = name

    def once(self, password: str, token: str) -> None:
        """Set the server up unless it is. Raises StackError when it knows another token."""
        if self._call("GET", "/api/v2/setup")["allowed"]:
            wanted = {
                "username": self._name,
                "password": password,
                "org": self._name,
                "bucket": self._name,
                "token": token,
            }
            self._call("POST", "/api/v2/setup", body=wanted)
        self._bucket(token)

    def read_token(self, token: str) -> str:
        """A new token that can read the bucket and nothing else."""
        bucket = self._bucket(token)
        wanted = {
            "orgID": bucket["orgID"],
            "description": "Grafana reads the dashboards",
            "permissions": [
                {
                    "action": "read",
                    "resource": {
                        "type": "buckets",
                        "id": bucket["id"],
                        "orgID": bucket["orgID"],
                    },
                }
            ],
        }
        return str(self._call("POST", "/api/v2/authorizations", token, wanted)["token"])

    def _bucket(self, token: str) -> dict[str, Any]:
        found = self._call("GET", f"/api/v2/buckets?name={self._name}", token)["buckets"]
        if not found:
            raise StackError(f"{self.url} has no bucket {self._name}")
        return dict(found[0])

    def _call(
        self, method: str, path: str, token: str = "", body: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"}
        if token:
            headers["Authorization"] = f"Token {token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
                return dict(json.load(response))
        except urllib.error.HTTPError as error:
            text = error.read(500).decode("utf-8", "replace")
            raise StackError(f"InfluxDB refused {method} {path}: {error.code} {text}") from error
        except OSError as error:
            raise StackError(f"InfluxDB does not answer {method} {path}: {error}") from error
