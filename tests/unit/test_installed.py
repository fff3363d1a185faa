"""What is missing is found, and the command that adds it fits the environment."""

from __future__ import annotations

import shlex
import sys
import tomllib
from pathlib import Path

import pytest

from instruments.errors import ConnectionLost
from instruments.install_command import install_command
from instruments.transports.visa_line import BUS_LIBRARIES, VisaLine
from labctl.errors import MissingPart
from labctl.installed import Extra, labctl_version, missing_of, need

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This interpreter takes an empty folder for its environment."""
    folder = tmp_path / "venvs" / "ssdwatts"
    folder.mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(folder))
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    monkeypatch.setattr(sys, "executable", str(folder / "bin" / "python"))
    monkeypatch.delenv("PIPX_HOME", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("HOME", "/nobody")
    return folder


def test_an_environment_with_pip_is_added_to_by_its_own_pip(environment: Path) -> None:
    (environment / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.11.2\n")
    python = environment / "bin" / "python"
    assert install_command("duckdb>=1.0") == f"{python} -m pip install 'duckdb>=1.0'"


def test_an_environment_of_uv_has_no_pip(environment: Path) -> None:
    (environment / "pyvenv.cfg").write_text("home = /usr/bin\nimplementation = CPython\nuv = 0.5\n")
    python = environment / "bin" / "python"
    assert shlex.split(install_command("a[b]>=1", "c")) == [
        "uv", "pip", "install", "--python", str(python), "a[b]>=1", "c",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("variable", "below"), [("PIPX_HOME", ""), ("XDG_DATA_HOME", "pipx"), ("HOME", ".local/pipx")]
)
def test_pipx_finds_an_environment_where_it_keeps_them(
    variable: str, below: str, environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / below
    kept = home / "venvs" / "ssdwatts"
    kept.mkdir(parents=True, exist_ok=True)
    (kept / "pipx_metadata.json").write_text("{}")
    (kept / "pyvenv.cfg").write_text("uv = 0.5\n")  # which may be pipx's tool
    monkeypatch.setattr(sys, "prefix", str(kept))
    monkeypatch.setenv(variable, str(tmp_path))
    assert install_command("duckdb>=1.0") == "pipx inject ssdwatts 'duckdb>=1.0'"


def test_pipx_is_told_where_an_environment_is_that_it_would_not_find(environment: Path) -> None:
    (environment / "pipx_metadata.json").write_text("{}")
    home = environment.parent.parent
    assert install_command("x") == f"PIPX_HOME={shlex.quote(str(home))} pipx inject ssdwatts x"


@pytest.mark.parametrize(
    ("extra", "module"),
    [
        (Extra.INFLUX, "influxdb_client"),
        (Extra.JLS, "pyjls"),
        (Extra.MQTT, "aiomqtt"),
        (Extra.NOTIFY, "apprise"),
        (Extra.PARQUET, "pyarrow"),
        (Extra.QUERY, "duckdb"),
        (Extra.STORE, "obstore"),
    ],
)
def test_an_extra_that_is_there_is_not_asked_for(extra: Extra, module: str) -> None:
    pytest.importorskip(module)
    need(extra)


def distribution(site: Path, name: str, version: str, requires: str = "") -> None:
    info = site / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}"
    )


def test_a_library_that_is_too_old_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distribution(tmp_path, "duckdb", "0.9.2")
    monkeypatch.syspath_prepend(tmp_path)
    assert missing_of(Extra.QUERY) == tuple(PROJECT["optional-dependencies"]["query"])
    with pytest.raises(MissingPart, match=r"the extra query, .*'duckdb>=1\.0'$"):
        need(Extra.QUERY)


def test_a_library_without_its_own_extra_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``influxdb-client`` alone brings no aiohttp."""
    requires = 'Requires-Dist: no-such-library-at-all ; extra == "async"\n'
    distribution(tmp_path, "influxdb_client", "1.50.0", requires)
    monkeypatch.syspath_prepend(tmp_path)
    assert missing_of(Extra.INFLUX) == ("influxdb-client[async]>=1.40",)


def test_what_several_extras_miss_is_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distribution(tmp_path, "duckdb", "0.9.2")
    distribution(tmp_path, "pyarrow", "1.0")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingPart) as raised:
        need(Extra.QUERY, Extra.PARQUET)
    command = str(raised.value).partition("; add it: ")[2]
    assert shlex.split(command)[-2:] == ["duckdb>=1.0", "pyarrow>=17"]
    assert "\n" not in str(raised.value) and raised.value.exit_code == 2


def test_the_version_is_that_of_the_project() -> None:
    assert labctl_version() == PROJECT["version"]


@pytest.mark.parametrize(
    ("resource", "bus"), [("USB0::0x2A8D::0x0101::MY1::INSTR", "USB"), ("gpib0::22::INSTR", "GPIB")]
)
def test_a_bus_without_its_library_is_told_with_the_command(resource: str, bus: str) -> None:
    modules = {"USB": ("usb",), "GPIB": ("gpib", "gpib_ctypes")}[bus]
    for module in modules:
        if module in sys.modules or _is_installed(module):
            pytest.skip(f"{module} is installed")
    with pytest.raises(ConnectionLost) as raised:
        VisaLine("v12", resource).open()
    assert str(raised.value).endswith(f"add it: {install_command(BUS_LIBRARIES[bus])}")


def _is_installed(module: str) -> bool:
    from importlib.util import find_spec

    return find_spec(module) is not None
