"""The table of commands: each is where it says, and its help is the command's own."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer

from labctl.cli.main import COMMANDS, app


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_the_table_is_that_of_the_command(name: str) -> None:
    group = typer.main.get_command(app)
    command = group.get_command(None, name)  # type: ignore[attr-defined]
    assert command.help.splitlines()[0] == COMMANDS[name].help


def test_help_imports_no_command() -> None:
    code = (
        "import sys\n"
        "from labctl.cli.main import main\n"
        "sys.argv = ['labctl', '--help']\n"
        "try:\n    main()\n"
        "except SystemExit:\n    pass\n"
        "print([name for name in sys.modules if name.startswith(('labctl.cli.run', 'numpy'))])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert all(f"  {name} " in done.stdout for name in COMMANDS)
