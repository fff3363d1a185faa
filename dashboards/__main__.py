"""``python -m dashboards``: write ``json/`` again from the code."""

from __future__ import annotations

import sys

from dashboards import JSON_DIR
from dashboards.every import every_dashboard


def main() -> int:
    """Write every dashboard's JSON; remove what no module makes any more."""
    JSON_DIR.mkdir(exist_ok=True)
    made = every_dashboard()
    for path in JSON_DIR.glob("*.json"):
        if path.stem not in made:
            path.unlink()
    for uid, text in made.items():
        (JSON_DIR / f"{uid}.json").write_text(text, encoding="utf-8")
    sys.stdout.write(f"{len(made)} dashboards in {JSON_DIR}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
