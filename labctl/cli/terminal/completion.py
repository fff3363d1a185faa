"""Completes rigs, plans, runs and jobs on the command line, and prints the shell's part of it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Annotated

import typer

COMPLETE_VARIABLE = "_LABCTL_COMPLETE"
"""Set by the shell when it asks for the words that may come next."""
SHELLS = ("bash", "zsh", "fish")
_HOW = {
    "bash": "labctl completion bash > ~/.local/share/bash-completion/completions/labctl",
    "zsh": "labctl completion zsh > ~/.zfunc/_labctl, and fpath+=~/.zfunc before compinit",
    "fish": "labctl completion fish > ~/.config/fish/completions/labctl.fish",
}


def beginning_with(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Completes one of these names; nothing where they cannot be found."""

    def complete(incomplete: str) -> list[str]:
        try:
            return [name for name in names() if name.startswith(incomplete)]
        except Exception:  # a shell that asks must not be answered with a traceback
            return []

    return complete


def print_completion(
    shell: Annotated[
        str,
        typer.Argument(
            metavar="SHELL",
            autocompletion=beginning_with(lambda: SHELLS),
            help=f"One of {', '.join(SHELLS)}.",
        ),
    ],
) -> None:
    """Print what completes words of labctl in your shell.

    Its second line says where it goes.
    """
    typers = importlib.import_module("typer.completion")
    if shell not in SHELLS:
        raise typer.BadParameter(f"{shell!r} must be one of {', '.join(SHELLS)}")
    script = typers.get_completion_script(
        prog_name="labctl", complete_var=COMPLETE_VARIABLE, shell=shell
    )
    first, _, rest = script.strip().partition("\n")
    print(f"{first}\n# {_HOW[shell]}\n{rest}")  # zsh takes a file by its first line alone


def _rigs_to_complete() -> Iterable[str]:
    from labctl.config.find_rig import rig_files

    return dict.fromkeys(path.stem for path in rig_files())


def _examples_to_complete() -> Iterable[str]:
    from labctl.config.find_rig import example_rigs

    return example_rigs()


def _plans_to_complete() -> Iterable[str]:
    from labctl.config.plan import built_in_plans

    return built_in_plans()


def _limits_to_complete() -> Iterable[str]:
    from labctl.record.power_limits import built_in_limits

    return built_in_limits()


def _runs_to_complete() -> Iterable[str]:
    from labctl.cli.terminal.run_names import LATEST
    from labctl.cli.terminal.runs_place import run_places
    from labctl.record.reader import runs_in

    found = runs_in(run_places())
    return [LATEST, *reversed([path.name for path in found])]


def _jobs_to_complete() -> Iterable[str]:
    from labctl.service.data_dir import find_home
    from labctl.service.queue.store import Queue

    return [str(job.id) for job in Queue(find_home()).jobs()]


complete_rigs = beginning_with(_rigs_to_complete)
complete_examples = beginning_with(_examples_to_complete)
complete_plans = beginning_with(_plans_to_complete)
complete_limits = beginning_with(_limits_to_complete)
complete_runs = beginning_with(_runs_to_complete)
complete_jobs = beginning_with(_jobs_to_complete)
