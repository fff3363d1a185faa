"""``labctl doctor`` where the drive is in another machine: asked over ssh, its clock too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from instruments.simulated.bench import Bench
from labctl.config.plan import load_plan
from labctl.config.rig import Rig, load_rig
from labctl.service.doctor.checks import Level
from labctl.service.doctor.examination import examine
from tests.ssh.sshd import HOST, Sshd, rig_on_host

pytestmark = pytest.mark.bench


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with Bench(tmp_path_factory.mktemp("ssh") / "bench") as running:
        yield running


@pytest.fixture
def rig(bench: Bench, tmp_path: Path) -> Rig:
    return load_rig(rig_on_host(bench, tmp_path))


def test_the_host_is_asked_and_its_clock_measured(sshd: Sshd, rig: Rig, tmp_path: Path) -> None:
    plan, _ = load_plan("demo")
    found = examine(rig, plan, tmp_path / "runs")
    assert found.exit_code == 0, found.checks
    good = {check.subject: check for check in found.checks if check.level is Level.OK}
    assert f"{HOST} is 0.00" in good["clock"].text
    assert any(check.text.startswith("fio-") for check in found.checks)
    sshd.wait_for_no_session()


def test_a_host_that_is_away_is_one_trouble_and_the_meters_are_still_checked(
    sshd: Sshd, rig: Rig, tmp_path: Path
) -> None:
    sshd.stop()
    found = examine(rig, None, tmp_path / "runs")
    assert found.exit_code == 1
    troubles = [check for check in found.checks if check.level is Level.TROUBLE]
    assert troubles[0].subject == "host"
    assert HOST in troubles[0].text
    assert {"i12", "v12", "i33", "v33"} <= {
        check.subject for check in found.checks if check.level is not Level.TROUBLE
    }
