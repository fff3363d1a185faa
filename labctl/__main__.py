"""``python -m labctl``: the command, where its script is not on PATH."""

from __future__ import annotations

from labctl.cli.main import main

if __name__ == "__main__":
    main()
