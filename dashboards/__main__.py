"""``python -m dashboards``: write ``json/`` again from the code."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from dashboards import JSON_DIR


def main() -> int:
    """Write every dashboard's JSON; remove files that no module makes any more.

    Needs the extra ``dashboards``, which the environment of a checkout has.
    """
    if find_spec("grafana_foundation_sdk") is None:
        sys.stderr.write("python -m dashboards works in a checkout, after make env there\n")
        return 2
    from dashboards.every import every_dashboard

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
