"""The daemon watches the room on disk: one warning, with what to do about it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from labctl.service.daemon import periodic
from labctl.service.daemon.daemon import Daemon
from labctl.service.daemon.notices import waiting
from labctl.service.daemon.settings import ServiceSettings
from labctl.service.data_dir import Home


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What each check found; they come fast, and only the budget counts."""
    found: list[str] = []
    check = periodic._disk_trouble

    def noted(daemon: Daemon) -> str:
        found.append(check(daemon))
        return found[-1]

    monkeypatch.setattr(periodic, "_disk_trouble", noted)
    monkeypatch.setattr(periodic, "DISK_EVERY_S", 0.01)
    monkeypatch.setattr(periodic, "LEAST_FREE_BYTES", 0)
    return found


def reported(folder: Path, checks: list[str], budget: int | None) -> tuple[list[str], list[str]]:
    """What it tells, and the titles of its notices, after some checks of 50 kB of runs and 50 kB of
    idle records."""
    messages: list[str] = []
    home = Home(folder / "home")
    home.make()
    for place in (home.runs, home.idle):
        (place / "a-run").mkdir(parents=True)
        (place / "a-run" / "readings").write_bytes(bytes(50_000))
    daemon = Daemon(home, (), home.runs, ServiceSettings(disk_budget=budget), messages.append)
    daemon.notices.addresses = ("json://127.0.0.1:9/",)

    async def watch() -> None:
        task = asyncio.create_task(periodic.watch_disk(daemon))
        async with asyncio.timeout(60):
            while len(checks) < 4:
                await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run(watch())
    return messages, waiting(home.notices)


def test_over_its_budget_it_warns_once_and_counts_idle_records_too(
    tmp_path: Path, checks: list[str]
) -> None:
    (line,), notices = reported(tmp_path, checks, 90_000)
    assert "the budget is" in line and f"--runs {tmp_path / 'home' / 'idle'}" in line
    assert notices == ["labctl: little room for runs"]


@pytest.mark.parametrize("budget", [None, 110_000])
def test_within_its_budget_it_says_nothing(
    tmp_path: Path, checks: list[str], budget: int | None
) -> None:
    assert reported(tmp_path, checks, budget) == ([], [])


def test_a_disk_that_is_nearly_full_is_reported(
    tmp_path: Path, checks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(periodic, "LEAST_FREE_BYTES", 1 << 62)
    (line,), notices = reported(tmp_path, checks, None)
    assert "GB are free" in line and len(notices) == 1
