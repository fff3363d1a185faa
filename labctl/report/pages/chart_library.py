"""Vega-Embed, Vega-Lite and Vega as the one script in every page.

Bundling them takes seconds of a processor and gives the same text every time, so the text is kept
in the user's cache: ``$XDG_CACHE_HOME/labctl``, else ``~/.cache/labctl``; a file for each pair of
versions of vl-convert and Vega-Lite, its first line the SHA-256 of the rest. A cache that cannot
be read or written is no error: the text is then made anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from functools import cache
from importlib.metadata import version
from pathlib import Path

import vl_convert

from labctl.record.atomic_write import write_atomically
from labctl.report.charts.static_svg import vegalite_version
from labctl.report.user_cache import OTHERS_WRITE, user_cache

_EMBED_SNIPPET = "window.vegaEmbed = vegaEmbed;"
_LARGEST_BYTES = 20_000_000


@cache
def chart_library() -> str:
    """The script, from the cache or made anew."""
    file = _cache_file()
    kept = None if file is None else _kept_chart_library(file)
    if kept is not None:
        return kept
    bundle: str = vl_convert.javascript_bundle(_EMBED_SNIPPET, vl_version=vegalite_version())
    if file is not None:
        with contextlib.suppress(OSError):
            _keep_chart_library(file, bundle)
    return bundle


def _cache_file() -> Path | None:
    """Where it is kept; None for a user without a home."""
    cache_folder = user_cache()
    if cache_folder is None:
        return None
    snippet = hashlib.sha256(_EMBED_SNIPPET.encode()).hexdigest()[:8]
    versions = f"vl-convert-{version('vl-convert-python')}-vega-lite-{vegalite_version()}"
    return cache_folder / f"{versions}-{snippet}.js"


def _kept_chart_library(file: Path) -> str | None:
    """The script that was kept; None where there is none, somebody else could have written it,
    or it is damaged."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            about = os.fstat(stream.fileno())
            mine = about.st_uid == os.geteuid() and not about.st_mode & OTHERS_WRITE
            if not (mine and stat.S_ISREG(about.st_mode) and about.st_size <= _LARGEST_BYTES):
                return None
            digest, _, script = stream.read().partition(b"\n")
        if digest != hashlib.sha256(script).hexdigest().encode():
            return None
        return script.decode("utf-8")
    except (OSError, ValueError):
        return None


def _keep_chart_library(file: Path, script: str) -> None:
    """Write it, private, with its digest before it. Raises OSError."""
    data = script.encode()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    digest = hashlib.sha256(data).hexdigest().encode()
    write_atomically(file, digest + b"\n" + data, mode=0o600)
