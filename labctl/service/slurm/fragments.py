"""What Slurm needs for the rigs of this machine: a batch script, and parts of two of its files.

A rig is a generic resource called ``rig``: its type is the rig's name, and there is one of it.
Meters and drives are features of the machine. Syntax: slurm.conf(5), gres.conf(5) of Slurm 22.05.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Template

from labctl.config.find_rig import write_new
from labctl.config.rig import Rig
from labctl.errors import ConfigurationError, Mistake
from labctl.record.layout import NAME_PATTERN

SCRIPT, SETTINGS, RESOURCES = "labctl.sbatch", "slurm.conf", "gres.conf"
_NO_FEATURE = re.compile(r"[^A-Za-z0-9._-]+")
"""What Slurm reads as an operator (``&|()[]*:,``) or as the end of a word."""


def write_fragments(folder: Path, rigs: Mapping[str, Rig]) -> list[Path]:
    """Write the three files into ``folder``; where they are.

    ``rigs`` by the name that ``labctl run`` finds each by. Raises ConfigurationError where there
    are none, where a name is none that Slurm takes, or where a file is there already.
    """
    mistakes = [
        Mistake(rig.path, "file", name, "Slurm takes letters, digits, _ and - in a rig's name")
        for name, rig in rigs.items()
        if not re.match(NAME_PATTERN, name)
    ]
    if not rigs:
        mistakes = [Mistake("--slurm", "rigs", None, "this machine has none: labctl init")]
    if mistakes:
        raise ConfigurationError(mistakes)
    node = socket.gethostname().partition(".")[0]
    values = {
        "node": node,
        "cpus": str(os.cpu_count() or 1),
        "gres": ",".join(f"rig:{name}:1" for name in rigs),
        "features": ",".join(dict.fromkeys(one for rig in rigs.values() for one in _features(rig))),
        "lines": "\n".join(
            f"NodeName={node} Name=rig Type={name} Count=1 Flags=CountOnly" for name in rigs
        ),
    }
    written = []
    for name in (SCRIPT, SETTINGS, RESOURCES):
        text = Path(__file__).with_name(name).read_text("utf-8")
        write_new(folder / name, text if name == SCRIPT else Template(text).substitute(values))
        written.append(folder / name)
    return written


def _features(rig: Rig) -> Iterator[str]:
    """Drivers and models of its meters, models of its drives, as words that Slurm takes."""
    meters = rig.file.instruments.values()
    words = [word for one in meters for word in (one.driver, getattr(one, "model", ""))]
    words += [drive.model for drive in rig.drives.values()]
    for word in words:
        if feature := _NO_FEATURE.sub("_", word or "").strip("_"):
            yield feature
