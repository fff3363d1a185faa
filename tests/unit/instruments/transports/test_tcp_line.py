from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from instruments.errors import ConnectionLost
from instruments.transports.tcp_line import TcpLine


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_name_that_nobody_resolves_in_time_is_no_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answered = threading.Event()
    real = socket.getaddrinfo

    def slow(host: Any, *arguments: Any, **options: Any) -> Any:
        if host == "meter.example":
            answered.wait(120)
        return real(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    line = TcpLine("ppm", "meter.example", 9722, "is QIS on?", connect_s=0.1)
    try:
        with pytest.raises(
            ConnectionLost, match=r"ppm: .*meter\.example:9722: .*name.*; is QIS on"
        ):
            line.open()
        assert not answered.is_set()
    finally:
        answered.set()


def test_a_name_with_two_addresses_connects_to_the_one_that_listens(
    listening: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def two(_host: Any, _port: Any, *_arguments: Any, **_options: Any) -> Any:
        stream = (socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
        return [
            (socket.AF_INET, *stream, ("127.0.0.1", 1)),
            (socket.AF_INET, *stream, ("127.0.0.1", listening)),
        ]

    monkeypatch.setattr(socket, "getaddrinfo", two)
    line = TcpLine("ppm", "meter.example", listening)
    line.open()
    line.write(b"hello")
    line.close()


def test_where_nobody_listens_it_says_so() -> None:
    line = TcpLine("ppm", "127.0.0.1", 1, "is QIS on?")
    with pytest.raises(ConnectionLost, match=r"Connection refused; is QIS on\?"):
        line.open()


def test_a_name_that_no_host_has_is_no_connection() -> None:
    for name in ("nowhere.invalid", "a" * 80):
        with pytest.raises(ConnectionLost, match=f"cannot connect to {name}:9722"):
            TcpLine("ppm", name, 9722).open()
