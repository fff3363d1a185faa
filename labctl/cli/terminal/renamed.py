"""Old names of commands and options: they work for one version, with a word."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import typer


def renamed(now: str) -> Callable[[typer.Context, typer.CallbackParam, Any], Any]:
    """The callback of an option that is called ``now``."""

    def say(ctx: typer.Context, param: typer.CallbackParam, value: Any) -> Any:
        if value is not None and not ctx.resilient_parsing:
            say_renamed(param.opts[0], now)
        return value

    return say


def say_renamed(old: str, now: str) -> None:
    """One line on standard error."""
    print(f"labctl: {old} is now called {now}; the next version knows no {old}", file=sys.stderr)
