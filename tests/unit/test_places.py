"""A test file is found from the file that it tests."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("instruments", "dashboards")
"""Their tests are below a folder of their name; those of labctl's rooms are beside it."""


def test_each_test_of_one_file_is_in_the_folder_of_that_file() -> None:
    homes = defaultdict(set)
    for room in ("labctl", *ROOMS):
        for file in (ROOT / room).rglob("*.py"):
            folder = file.parent.relative_to(ROOT if room in ROOMS else ROOT / room)
            homes[file.stem].add(folder)
    tests = list((ROOT / "tests" / "unit").rglob("test_*.py"))
    strays = {
        str(test.relative_to(ROOT))
        for test in tests
        for name in [test.stem.removeprefix("test_")]
        if homes[name] and test.parent.relative_to(ROOT / "tests" / "unit") not in homes[name]
    }
    assert tests and strays == set()
