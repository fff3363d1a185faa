"""The wheel of this checkout in an environment that has nothing but what it depends on.

The libraries are linked from the environment of the tests, so that no network is needed: those
that the wheel requires, and for each extra those that come with it into a folder of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, PathDistribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PACKAGES = ("labctl", "instruments", "dashboards", "rigs/examples")


@dataclass(frozen=True)
class InstalledWheel:
    """An environment with the wheel. ``extras`` has a folder of libraries for each extra."""

    folder: Path
    wheel: Path
    extras: Mapping[str, Path]

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def labctl(self) -> Path:
        """The command."""
        return self.folder / "bin" / "labctl"

    def surroundings(self, home: Path, *extras: str) -> dict[str, str]:
        """Environment variables of somebody whose home is ``home`` and who added ``extras``."""
        kept = {key: os.environ[key] for key in ("PATH", "LANG", "TMPDIR") if key in os.environ}
        libraries = os.pathsep.join(str(self.extras[extra]) for extra in extras)
        return {**kept, "HOME": str(home), "PYTHONPATH": libraries}


def build(folder: Path) -> Path:
    """The wheel, built from a copy of what is in it, in ``folder``."""
    source = folder / "source"
    ignored = shutil.ignore_patterns("__pycache__")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    words = ["wheel", "-q", "--no-index", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    _pip(*words, str(source))
    return next(folder.glob("*.whl"))


def install(wheel: Path, folder: Path) -> InstalledWheel:
    """A fresh environment in ``folder`` with the wheel and what it requires."""
    environment = folder / "environment"
    venv.create(environment, symlinks=True)
    site = next(environment.glob("lib/python*/site-packages"))
    python = str(environment / "bin" / "python")
    _pip("--python", python, "install", "-q", "--no-index", "--no-deps", str(wheel))
    found = PathDistribution(next(site.glob("*.dist-info")))
    base = closure(found)
    link(base.values(), site)
    extras = {}
    for extra in found.metadata.get_all("Provides-Extra") or ():
        try:
            added = closure(found, extra)
        except PackageNotFoundError:  # an extra for one meter that is not installed here
            continue
        extras[extra] = folder / "extras" / extra
        extras[extra].mkdir(parents=True)
        link((added[name] for name in added if name not in base), extras[extra])
    return InstalledWheel(environment, wheel, extras)


def closure(start: Distribution, extra: str = "") -> dict[str, Distribution]:
    """All that a distribution requires, and what that requires, as installed for the tests."""
    found: dict[str, Distribution] = {}
    waiting = [(start, (extra,))]
    seen = set()
    while waiting:
        one, extras = waiting.pop()
        for requirement in map(Requirement, one.requires or ()):
            marker = requirement.marker
            if marker and not any(marker.evaluate({"extra": extra}) for extra in extras):
                continue
            wanted = (requirement.name.lower(), ("", *sorted(requirement.extras)))
            if wanted not in seen:
                seen.add(wanted)
                found[wanted[0]] = distribution(requirement.name)
                waiting.append((found[wanted[0]], wanted[1]))
    return found


def link(found: Iterable[Distribution], site: Path) -> None:
    """Have these distributions in a folder of libraries."""
    for one in found:
        tops = {file.parts[0] for file in one.files or ()} - {"..", "__pycache__"}
        for name in sorted(tops):
            target = Path(str(one.locate_file(name))).resolve()
            if not (site / name).exists():
                (site / name).symlink_to(target)


def _pip(*words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *words],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
