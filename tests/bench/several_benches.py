"""Several simulated drives in one rig: a bench each, and one rig file for all of them.

Each drive has rails and meters of its own, so that what each really drew is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from instruments.simulated.bench import Bench, BenchConfig, Sections, bench_rig_sections, rig_toml

_NVME = """#!/bin/sh
# The nvme of the simulated drive that is asked, which lies beside its device.
for word in "$@"; do
    case $word in
        */nvme0) exec "${word%/*}/nvme" "$@" ;;
    esac
done
echo "nvme: name a drive" >&2
exit 22
"""


class SeveralBenches:
    """``with SeveralBenches(directory, {"left": …, "right": …}) as benches:`` runs them all.

    ``benches.rig`` is a rig with all drives, ``benches["left"]`` one bench, in ``directory/left``.
    """

    def __init__(self, directory: Path, configs: Mapping[str, BenchConfig]) -> None:
        self.directory = directory.resolve()
        self._benches = {
            name: Bench(self.directory / name, config) for name, config in configs.items()
        }
        self._stack = ExitStack()

    @property
    def rig(self) -> Path:
        """The rig file for labctl."""
        return self.directory / "rig.toml"

    def __getitem__(self, name: str) -> Bench:
        return self._benches[name]

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        nvme = self.directory / "nvme"
        nvme.write_text(_NVME, encoding="ascii")
        nvme.chmod(0o755)
        with ExitStack() as stack:
            for bench in self._benches.values():
                stack.enter_context(bench)
            sections: Sections = {"": {"name": "benches", "host": "local"}, "temperatures": {}}
            for name, bench in self._benches.items():
                _add(sections, name, bench_rig_sections(bench))
            for name in self._benches:
                sections[f"drives.{name}"]["tools"] = str(self.directory)
            self.rig.write_text(rig_toml(sections), encoding="utf-8")
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()


def _add(sections: Sections, drive: str, own: Sections) -> None:
    """The tables of one bench, with what is named there named after its drive."""

    def channel(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {**value, "channel": f"{drive}_{value['channel']}"}
        return f"{drive}_{value}"

    for table, values in own.items():
        kind, _, name = table.partition(".")
        if kind == "drive":
            sections[f"drives.{drive}"] = values
        elif kind == "rails":
            both = {key: channel(values[key]) for key in ("voltage", "current")}
            sections[f"rails.{drive}_{name}"] = {**values, **both, "drive": drive}
        elif kind == "instruments":
            sections[f"instruments.{drive}_{name}"] = values
        elif kind == "temperatures":
            sections["temperatures"] |= {
                f"{drive}_{sensor}": {"channel": channel(one), "drive": drive}
                for sensor, one in values.items()
            }
