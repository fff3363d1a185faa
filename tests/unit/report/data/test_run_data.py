"""A run in Python, and the example of the docs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import labctl
from labctl.errors import JournalError
from tests.unit.synthetic_run import EPOCH_NS, Bench, Meter, Synthetic, build, good_meter

SUPPLY_SIDE: dict[str, object] = {"volts_at": "supply"}
WARM_SHUNT: dict[str, object] = {
    "shunt_ppm_per_kelvin": 500.0,
    "shunt_kelvin_per_watt": 40.0,
    "shunt_celsius": [35.0, 40.0],
}

ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Synthetic:
    random = np.random.default_rng(3)
    meters = {name: good_meter(name, random) for name in ("v12.voltage", "i12.current")}
    return build(tmp_path_factory.mktemp("runs"), Bench(meters=meters))


def test_importing_labctl_loads_nothing_heavy() -> None:
    code = "import sys, labctl; print(sorted({'numpy', 'pydantic', 'altair'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    with pytest.raises(AttributeError, match="nonsense"):
        _ = labctl.nonsense  # type: ignore[attr-defined]


def test_a_rails_arrays_have_the_truth_of_each_phase(made: Synthetic) -> None:
    run = labctl.open_run(made.path)
    for phase in run.phases:
        for name in ("12V", "3V3"):
            rail = run.rail(name, phase)
            assert len(rail.watts) > 80
            truth = made.rail_watts[name][phase.phase.index]
            assert rail.watts.mean() == pytest.approx(truth, rel=0.02)
            assert rail.t_ns[0] >= phase.begin_ns and rail.t_ns[-1] < phase.end_ns


@pytest.mark.parametrize("changed", [{}, SUPPLY_SIDE, WARM_SHUNT])
def test_the_api_the_csv_and_the_summary_have_the_same_watts(
    tmp_path: Path, changed: dict[str, object]
) -> None:
    """Also with volts at the supply's side of a shunt, a warm shunt, and a gap in the volts."""
    lost = Meter(rate_hz=10.0, lost=((15.0, 15.9), (22.0, 22.3)))
    made = build(tmp_path, Bench(shunt_ohm=0.1, meters={"v12.voltage": lost}))
    _with_rail(made.path, changed)
    run = labctl.open_run(made.path)
    table = run.table()
    for number, phase in enumerate(run.phases):
        for name, result in phase.rails.items():
            rail = run.rail(name, phase)
            assert rail.mean_watts == result.watts.value == table[f"watts_{name}"][number]
            mean = np.average(rail.watts, weights=rail.seconds)
            assert mean == pytest.approx(result.watts.value, rel=1e-12)
            assert np.average(rail.amps, weights=rail.seconds) == pytest.approx(
                result.amps.mean, rel=5e-3
            )
            inside = (run.rail(name).t_ns >= rail.t_ns[0]) & (run.rail(name).t_ns <= rail.t_ns[-1])
            whole = run.rail(name).watts[inside]  # volts beyond the phase count at its ends
            assert whole == pytest.approx(rail.watts, rel=1e-3)
            assert whole[10:-10] == pytest.approx(rail.watts[10:-10], rel=1e-12)


def _with_rail(path: Path, changed: dict[str, object]) -> None:
    header = json.loads((path / "run.json").read_text())
    for rail in header["rails"]:
        rail |= changed
    (path / "run.json").write_text(json.dumps(header))


def test_no_watts_are_made_up_in_a_gap_of_the_volts(tmp_path: Path) -> None:
    lost = Meter(rate_hz=10.0, lost=((15.0, 18.0),))
    run = labctl.open_run(build(tmp_path, Bench(meters={"v12.voltage": lost})).path)
    t_s = (run.rail("12V").t_ns - EPOCH_NS) / 1e9
    assert not ((t_s > 15.6) & (t_s < 17.4)).any()


def test_a_run_in_the_home_is_found(made: Synthetic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(made.path.parent))
    assert labctl.open_run(f"~/{made.path.name}").path == made.path


def test_a_device_clock_is_mapped_to_the_runs_timebase(made: Synthetic) -> None:
    run = labctl.open_run(str(made.path))
    t_ns = run.channel("i12.current").t_ns
    assert abs(int(t_ns[0]) - EPOCH_NS) < 2_000_000_000, "the meter's clock is seconds off"
    assert run.channel("i12.current").unit == "A"
    assert (np.diff(t_ns) > 0).all()


def test_the_table_is_phases_csv_in_columns(made: Synthetic) -> None:
    run = labctl.open_run(made.path)
    table = run.table()
    assert {len(column) for column in table.values()} == {len(run.phases)}
    assert table["index"] == list(range(len(run.phases)))
    measured = run.table(measured_only=True)
    assert set(measured["role"]) == {"measure"}
    assert measured["watts"] == [item.watts.value for item in run.summary.measured if item.watts]


def test_channels_of_fio_are_there_too(made: Synthetic) -> None:
    run = labctl.open_run(made.path)
    assert "fio.read.iops" in run.channels
    assert not any(name.endswith(".clock") for name in run.channels)
    seconds, iops = run.live_iops(run.summary.measured[0])
    assert len(seconds) == len(iops) == 19
    assert iops.mean() == pytest.approx(60_000, rel=0.02)


def test_what_is_not_there_names_what_is(made: Synthetic, tmp_path: Path) -> None:
    run = labctl.open_run(made.path)
    with pytest.raises(JournalError, match="no rail '5V'; there are: 12V, 3V3"):
        run.rail("5V")
    with pytest.raises(JournalError, match="no channel 'x'; there are: fio"):
        run.channel("x")
    with pytest.raises(JournalError, match="not a run"):
        labctl.open_run(tmp_path)
    with pytest.raises(JournalError, match="no channel"):
        run.channel("../run.json")


def test_a_rail_without_readings_is_empty(tmp_path: Path) -> None:
    silent = Meter(lost=((0.0, 1e6),))
    run = labctl.open_run(build(tmp_path, Bench(meters={"v3.voltage": silent})).path)
    assert len(run.rail("3V3").watts) == 0


def test_the_example_of_the_docs_runs(made: Synthetic) -> None:
    script = ROOT / "docs" / "examples" / "open_a_run.py"
    done = subprocess.run(
        [sys.executable, str(script), str(made.path)],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "made up completed 6 phases" in done.stdout
    assert "randread 4k QD16" in done.stdout
    assert "12V:" in done.stdout and "best at QD" in done.stdout
