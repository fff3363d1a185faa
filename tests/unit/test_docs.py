"""Documentation and program agree: commands run, links lead somewhere, examples load."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from pydantic import BaseModel

from labctl.config.find_rig import EXAMPLES
from labctl.config.plan import parse_plan
from labctl.config.rail import Current, Rail
from labctl.config.rig import load_rig
from labctl.config.rig_file import Drive, Limits
from labctl.errors import INTERRUPTED, NOT_NOW, GuardTripped, LabctlError, Refused
from tests.forked_labctl import labctl

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TEXTS = [*PAGES, *(ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"))]
GROUPS = ("influxdb", "mqtt", "queue", "trace")
"""Commands that have commands of their own."""
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")


def blocks(page: Path, language: str) -> list[str]:
    return [text for _, found, text in FENCE.findall(page.read_text()) if found == language]


def commands() -> list[str]:
    lines = []
    for page in PAGES:
        for text in blocks(page, "sh"):
            lines += [line.split("#")[0].strip() for line in text.splitlines()]
    return sorted({line for line in lines if line})


@cache
def help_of(*words: str) -> str:
    """What a command, or a command's command, prints for ``--help``."""
    shown = labctl(*words, "--help", cwd=ROOT)
    assert shown.returncode == 0, words
    return shown.stdout


@pytest.mark.parametrize("line", commands())
def test_every_command_in_the_docs_exists_with_its_options(line: str) -> None:
    """They are run in tests/bench/test_documented_commands.py."""
    words = shlex.split(line)
    if words[0] == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert words[1] in targets
    elif words[0] == "cp":
        assert (ROOT / words[1]).is_file()
    elif words[0] == "labctl":
        shown = help_of(*words[1 : 3 if words[1] in GROUPS else 2])
        for option in (word for word in words if word.startswith("--")):
            assert option in shown, f"{line}: no {option}"
    else:
        assert words[0] in ("pipx", "sudo", "curl", "docker", "systemctl"), line


def anchors(page: Path) -> set[str]:
    """What its headings are called in links, on a forge and on the site."""
    text = FENCE.sub("", page.read_text())
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = (re.sub(r"\[(.*?)\]\(.*?\)", r"\1", title).lower() for title in titles)
    return {re.sub(r"[^\w -]", "", title).strip().replace(" ", "-") for title in plain}


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.name)
def test_every_link_between_pages_leads_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(FENCE.sub("", page.read_text())):
        if target.startswith(("http:", "https:")):
            continue
        there = page.parent / target if target else page
        assert there.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in anchors(there), f"{page.name}: {target}#{anchor}"


def test_the_site_has_every_page_and_links_to_nothing_outside() -> None:
    docs = ROOT / "docs"
    nav = re.findall(r"[\w/.-]+\.md$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    pages = [page for page in PAGES if page.is_relative_to(docs)]
    assert sorted(nav) == sorted(str(page.relative_to(docs)) for page in pages)
    for page in pages:
        for target, _ in LINK.findall(page.read_text()):
            if not target.startswith(("http:", "https:")):
                assert (page.parent / target).resolve().is_relative_to(docs), f"{page}: {target}"


@pytest.mark.parametrize(
    ("door", "command"),
    [
        ("I have a CSV", "labctl import"),
        ("I have meters", "labctl init"),
        ("I want a night's work", "labctl queue add"),
        ("I want a dashboard", "make stack"),
    ],
)
def test_each_door_of_the_landing_page_leads_to_a_command(door: str, command: str) -> None:
    """That of a CSV said that none can be imported, long after one could."""
    text = (ROOT / "docs" / "index.md").read_text()
    (behind,) = (part for part in re.split(r"(?m)^(?=\*\*I |## )", text) if f"**{door}**" in part)
    assert command in "".join(found for _, _, found in FENCE.findall(behind))


def test_every_command_for_contributors_names_what_there_is() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    tests = "".join(path.read_text() for path in (ROOT / "tests" / "unit").rglob("test_*.py"))
    for text in blocks(ROOT / "CONTRIBUTING.md", "sh"):
        for line in filter(None, (line.split("#")[0].strip() for line in text.splitlines())):
            match shlex.split(line):
                case ["make", target]:
                    assert target in targets, line
                case [".venv/bin/labctl", command, *_]:
                    assert help_of(command), line
                case [".venv/bin/pytest", *words]:
                    assert all((ROOT / word).exists() for word in words if "/" in word), line
                    if "-k" in words:
                        assert f"def {words[words.index('-k') + 1]}(" in tests, line
                case _:
                    pytest.fail(f"no known shape: {line}")


def test_the_readmes_plan_is_a_plan() -> None:
    plans = [text for text in blocks(ROOT / "README.md", "toml") if "[[sweeps]]" in text]
    assert plans
    for text in plans:
        assert len(parse_plan(text, "README.md").expand()) == 2 + 8 + 6


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_example_rig_loads(path: Path) -> None:
    assert load_rig(path).name == path.stem


def test_a_dry_run_prints_phases_time_and_bytes_and_touches_nothing() -> None:
    done = labctl("run", EXAMPLES / "nvme-adapter", "power-per-qd", "--dry-run", cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "27 phases" in done.stdout
    assert "time: 1 h 14 min and the fill of the whole drive" in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines()), done.stdout


def test_a_dry_run_estimates_when_the_drives_size_and_speed_are_known(tmp_path: Path) -> None:
    """200 GB at 2 GB/s: 100 s on top of 74 min; 12 phases of 180 s write."""
    text = (EXAMPLES / "nvme-adapter.toml").read_text()
    rig = tmp_path / "rig.toml"
    rig.write_text(
        text.replace(
            "[drive]", "[drive]\nsize_bytes = 200000000000\nwrite_bytes_per_s = 2000000000"
        )
    )
    done = labctl("run", rig, "power-per-qd", "--dry-run", cwd=ROOT)
    assert "time: about 1 h 15 min" in done.stdout
    assert "bytes written: about 4520.0 GB" in done.stdout


@pytest.mark.parametrize("words", [("plans",), ("rigs",), ("runs", "--runs", "no-such")])
def test_lists_have_json(words: tuple[str, ...]) -> None:
    import json

    assert isinstance(json.loads(labctl(*words, "--json", cwd=ROOT).stdout), list)


def test_check_names_file_key_value_and_what_is_allowed(tmp_path: Path) -> None:
    text = (EXAMPLES / "nvme-adapter.toml").read_text()
    broken = tmp_path / "broken.toml"
    broken.write_text(text.replace('engine = "io_uring"', 'engine = "warp"').replace("12.0", "-1"))
    done = labctl("check", broken, cwd=ROOT)
    assert done.returncode == 2
    assert "drive.engine = 'warp'" in done.stderr and "'io_uring'" in done.stderr
    assert "rails.12V.nominal_volts = -1" in done.stderr and "greater than 0" in done.stderr
    assert labctl("check", tmp_path / "none.toml", cwd=ROOT).returncode == 2


def test_a_foreign_package_called_instruments_is_named_plainly(tmp_path: Path) -> None:
    (tmp_path / "instruments").mkdir()
    (tmp_path / "instruments" / "__init__.py").write_text("")
    done = subprocess.run(
        [sys.executable, "-c",
         f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.argv = ['labctl', 'plans']\n"
         "from labctl.cli.main import main; main()"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2
    assert "InstrumentKit" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("model", [Drive, Limits, Rail, Current], ids=lambda model: model.__name__)
def test_every_key_of_a_rig_stands_in_the_docs(model: type[BaseModel]) -> None:
    page = (ROOT / "docs" / "rig.md").read_text()
    assert [
        name for name in model.model_fields if f"`{name}" not in page and name not in page
    ] == []


@pytest.mark.parametrize("page", ["README.md", "docs/slurm.md"])
def test_both_tables_of_exit_codes_have_all_of_them(page: str) -> None:
    text = (ROOT / page).read_text().partition("## Exit codes")[2].partition("\n## ")[0]
    raised = (LabctlError.exit_code, Refused.exit_code, GuardTripped.exit_code)
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)] == [
        0, *raised, NOT_NOW, INTERRUPTED,
    ]  # fmt: skip


def test_the_drawing_of_the_house_has_every_room() -> None:
    drawing = (ROOT / "docs" / "pictures" / "house.svg").read_text()
    words = set(re.findall(r"\w+", " ".join(re.findall(r">([^<>]+)<", drawing))))
    rooms = {one.parent for one in (ROOT / "labctl").rglob("__init__.py")} - {ROOT / "labctl"}
    assert rooms and {one.name for one in rooms} <= words
