"""Every line that tells how to install something works when it is typed, and fetches nothing of
another project: the ``labctl`` of a package index is not this one."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from instruments.drivers.joulescope import LIBRARY
from instruments.drivers.mqtt import PAHO
from instruments.transports.visa_line import BUS_LIBRARIES
from labctl.installed import Extra
from tests.unit.test_docs import PAGES, ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAME = PROJECT["name"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
REQUIREMENTS = {*BUS_LIBRARIES.values(), *(text for some in EXTRAS.values() for text in some)}

INSTALLS = ("install", "inject", "run", "upgrade", "download", "add", "wheel")
FETCHES = re.compile(
    rf"\b(?:pipx?|uvx?)\b[^\n`]*\b(?:{'|'.join(INSTALLS)})\b[^\n`]*?"
    r"""[\s'"=]labctl(?:\[[^\]\n]*\]|[<>=~!@][^\s]*)?(?=['"`\s.,;:)]|$)""",
    re.MULTILINE,
)
WITH_EXTRA = re.compile(r"\blabctl\[[a-z]+[\],]")
CODE = re.compile(r"`([^`]+)`")
FENCED = re.compile(r"^ *```sh\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


def tracked() -> list[Path]:
    """Every text of the project."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a checkout of git")
    found = [ROOT / name for name in done.stdout.split("\0") if name]
    return [path for path in found if path.is_file() and path.suffix not in (".png", ".gz")]


def test_no_line_has_a_package_index_asked_for_labctl() -> None:
    for path in tracked():
        text = path.read_text(errors="replace")
        for pattern in (FETCHES, WITH_EXTRA):
            found = pattern.search(text)
            assert found is None, f"{path.relative_to(ROOT)}: {found and found[0]}"


@pytest.mark.parametrize("tool", ["pip", "pipx", "python -m pip", "uv tool", "uv pip"])
@pytest.mark.parametrize("rest", ["{}", "{}[query]", "'{}[influx,mqtt]'", "-U {}", "{}==0.7.0"])
def test_such_lines_would_be_found(tool: str, rest: str) -> None:
    line = f"type {tool} install " + rest.format("labctl")
    assert FETCHES.search(f"see:\n{line}\n") and FETCHES.search(f"`{line}`")


def test_nothing_depends_on_it_either() -> None:
    for path in tracked():
        if path.name == "pyproject.toml":
            data = tomllib.loads(path.read_text())
            project = data.get("project", {})
            wanted = [*project.get("dependencies", ()), *data["build-system"]["requires"]]
            for some in project.get("optional-dependencies", {}).values():
                wanted += some
            assert "labctl" not in {Requirement(text).name for text in wanted}, path
        elif path.name.endswith("requirements.txt") or path.name == "constraints.txt":
            assert not re.search(r"^labctl\b", path.read_text(), re.MULTILINE), path


def install_lines() -> list[str]:
    """Every command line of the docs that installs something of Python's."""
    found = set()
    for page in PAGES:
        text = page.read_text()
        lines = [
            line.split("#")[0] for block in FENCED.findall(text) for line in block.splitlines()
        ]
        lines += CODE.findall(FENCED.sub("", text))
        found |= {line.strip() for line in lines if re.match(r"\s*(sudo )?(pipx?|uvx?) ", line)}
    return sorted(found)


def is_the_checkout(word: str) -> bool:
    """``.`` or ``.[extra,extra]``, of extras that there are."""
    extras = re.fullmatch(r"\.(?:\[([a-z,]+)\])?", word)
    return extras is not None and set((extras[1] or "").split(",")) <= {"", *EXTRAS}


def is_a_package(word: str) -> bool:
    """A folder of the checkout with a package in it."""
    return (ROOT / word / "pyproject.toml").is_file()


@pytest.mark.parametrize("line", install_lines())
def test_a_line_of_the_docs_installs_what_is_at_hand_or_what_is_required(line: str) -> None:
    match shlex.split(line):
        case ["pipx" | "pip", "install", what] | ["uv", "tool", "install", what]:
            assert is_the_checkout(what), line
        case ["pipx", "inject", name, *wanted] if wanted:
            assert name == NAME, line
            assert all(one in REQUIREMENTS or is_a_package(one) for one in wanted), line
        case ["pip", "wheel", "--no-deps", "."] | ["pipx" | "uv" | "pip", _]:
            pass
        case ["pipx", "uninstall", _] | ["uv", "tool", "upgrade"]:
            pass
        case _:
            pytest.fail(f"no known shape: {line}")


def test_the_docs_name_what_each_extra_adds() -> None:
    rows = {
        row[1]: shlex.split(row[2])[3:]
        for row in re.findall(
            r"^\| (`(\w+)`) \|.*\| `(pipx inject [^`]*)` \|$",
            (ROOT / "docs" / "installing.md").read_text(),
            re.MULTILINE,
        )
    }
    assert rows == {extra.value: EXTRAS[extra] for extra in Extra}


def test_extras_are_for_commands_or_for_developers() -> None:
    assert set(EXTRAS) == {*Extra, "dashboards"}


def test_the_driver_asks_for_the_library_that_the_extra_has() -> None:
    assert PAHO in EXTRAS["mqtt"]
    assert LIBRARY in EXTRAS["joulescope"]
