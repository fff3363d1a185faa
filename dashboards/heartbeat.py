"""Whether a rig is at work, idle or silent: by its last heartbeat and the database's clock.

A state that was stored says nothing about now: a rig that died while running would run for ever.
"""

from __future__ import annotations

from dashboards import HEARTBEAT_S
from dashboards.influx import LAST_MONTH, matches
from dashboards.mappings import value_mappings
from dashboards.palette import BAD_COLOR, OK_COLOR, QUIET_COLOR

RIG = matches("rig")

SILENT_AFTER_S = 3 * HEARTBEAT_S
"""Two heartbeats are missing by then. The clocks of rigs and database have to agree as well."""

LATELY = f"time > now() - {SILENT_AFTER_S}s"
HEARD = f"{LATELY} AND {RIG}"
NOT_HEARD = f"Not heard within {SILENT_AFTER_S} s"

ENDED, SILENT, JUST_ENDED, AT_WORK, RECORDS_IDLE = "0", "1", "2", "3", "4"
"""What :func:`state_as` yields, the sum of: 1 for a last heartbeat that announces no end, 2 for one
that has just come, and 1 when it is of an idle record."""

STATES = value_mappings(
    {
        ENDED: ("idle", QUIET_COLOR),
        SILENT: ("SILENT", BAD_COLOR),
        JUST_ENDED: ("idle", QUIET_COLOR),
        AT_WORK: ("running", OK_COLOR),
        RECORDS_IDLE: ("idle", QUIET_COLOR),
    }
)


def state_as(name: str) -> str:
    """The query of the state of the chosen rig, in a column of this name."""
    return (
        f'SELECT sum("state") AS "{name}" FROM '
        f'(SELECT last("alive") AS "state" FROM "rig" WHERE {LAST_MONTH} AND {RIG}), '
        f'(SELECT last("alive") * 0 + 2 AS "state" FROM "rig" WHERE {HEARD}), '
        '(SELECT "alive" AS "state" FROM (SELECT last("alive") AS "alive", "state" AS "said" '
        f'FROM "rig" WHERE {HEARD}) WHERE "said" = \'idle\') WHERE {LAST_MONTH}'
    )
