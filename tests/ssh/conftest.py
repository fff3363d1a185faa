from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from instruments.transports.ssh import CONFIG_VARIABLE
from tests.ssh.sshd import Sshd


@pytest.fixture
def sshd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    """A host called ``bench``, reached by everything that this test starts."""
    with Sshd(tmp_path / "sshd") as server:
        monkeypatch.setenv(CONFIG_VARIABLE, str(server.config))
        yield server
