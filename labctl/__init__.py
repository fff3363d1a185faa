"""labctl: the watts of an SSD at each queue depth, on each rail, and when it throttles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labctl.report.data.run_data import RailReadings, Readings, RunData
    from labctl.service.runs.open_run import open_run

    __version__: str

__all__ = ["RailReadings", "Readings", "RunData", "__version__", "open_run"]


def __getattr__(name: str) -> Any:
    """numpy and the analysis are only loaded by who asks for them: the command line starts fast."""
    if name == "__version__":
        from labctl.installed import labctl_version

        return labctl_version()
    if name == "open_run":
        from labctl.service.runs.open_run import open_run

        return open_run
    if name in __all__:
        from labctl.report.data import run_data

        return getattr(run_data, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
