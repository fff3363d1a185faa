"""Notices to people (a job failed, a meter was lost), stored until they are sent.

A notice is written to a file. A task of the daemon sends it to each address, retried with growing
pauses for three days. So a network outage delays a notice and loses none, and sending never
holds up a job.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from labctl.record.bounded_read import read_small
from labctl.record.json_values import UNREADABLE
from labctl.record.timebase import DAY_S
from labctl.service.data_dir import write_private
from labctl.sinks.sink import ReportLine

KEPT_S = 3 * DAY_S
FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 900.0
CHECK_EVERY_S = 1.0
MOST_WAITING = 1_000
_MOST_BYTES = 65_536
_MOST_TITLE, _MOST_TEXT = 200, 8_000


class NoticeKind(StrEnum):
    """The subject of a notice."""

    DONE = "done"
    FAILED = "failed"
    GUARD_TRIPPED = "guard_tripped"
    METER_LOST = "meter_lost"
    DISK = "disk"
    MORNING = "morning"


class Notice(BaseModel):
    """One notice, and to whom it was sent. Addresses hold secrets: only digests are stored."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: NoticeKind
    title: Annotated[str, Field(max_length=_MOST_TITLE)]
    text: Annotated[str, Field(max_length=_MOST_TEXT)]
    made_s: float
    sent_to: Annotated[tuple[str, ...], Field(max_length=100)] = ()
    attempts: Annotated[int, Field(ge=0)] = 0
    next_s: float = 0.0


Send = Callable[[str, Notice], bool]
"""Sends a notice to one address; whether it was taken."""


class Notices:
    """The notices of a data directory. Every method may be called from any thread."""

    def __init__(
        self,
        folder: Path,
        kinds: Sequence[NoticeKind],
        addresses: Sequence[str],
        report_line: ReportLine,
        send: Send | None = None,
    ) -> None:
        """``report_line`` gets a sentence when sending begins to fail and when it works again."""
        self.kinds = frozenset(kinds)
        self.addresses = tuple(addresses)
        self._folder = folder
        self._report_line = report_line
        self._send = send or send_with_apprise
        self._failing: set[str] = set()
        self._closing = threading.Event()
        self._count = 0

    def add(self, kind: NoticeKind, title: str, text: str) -> None:
        """Store a notice to be sent. Never raises: a job must not fail because of a notice."""
        if kind not in self.kinds or not self.addresses:
            return
        notice = Notice(
            kind=kind, title=title[:_MOST_TITLE], text=text[:_MOST_TEXT], made_s=time.time()
        )
        self._count += 1
        name = f"{time.time_ns():020d}-{os.getpid()}-{self._count}.json"
        try:
            write_private(self._folder / name, notice.model_dump_json() + "\n")
        except (OSError, ValueError) as error:
            self._report_line(f"a notice could not be kept ({error}): {title}")

    def close(self) -> None:
        """Send no more; the next daemon sends what waits."""
        self._closing.set()

    async def deliver(self) -> None:
        """Send what waits, for ever."""
        while True:
            await asyncio.to_thread(self.deliver_once)
            await asyncio.sleep(CHECK_EVERY_S)

    def deliver_once(self) -> None:
        """Send what is due now."""
        waiting = sorted(self._folder.glob("*.json")) if self._folder.is_dir() else []
        for path in waiting[:-MOST_WAITING]:
            path.unlink(missing_ok=True)
        for path in waiting[-MOST_WAITING:]:
            if self._closing.is_set():
                return
            try:
                self._deliver(path)
            except OSError as error:
                self._report_trouble("the folder of notices", str(error))

    def _deliver(self, path: Path) -> None:
        try:
            notice = Notice.model_validate_json(read_small(path, _MOST_BYTES))
        except ValueError:
            path.unlink(missing_ok=True)
            self._report_line(f"{path.name} was no notice and is deleted")
            return
        now_s = time.time()
        if now_s < notice.next_s <= now_s + LONGEST_PAUSE_S:  # else the wall clock was stepped
            return
        sent_to = list(notice.sent_to)
        for address in self.addresses:
            if _notice_address_digest(address) not in sent_to and self._try_to_send(
                address, notice
            ):
                sent_to.append(_notice_address_digest(address))
        missing = {_notice_address_digest(address) for address in self.addresses} - set(sent_to)
        if not missing:
            path.unlink(missing_ok=True)
        elif abs(now_s - notice.made_s) > KEPT_S:
            path.unlink(missing_ok=True)
            self._report_line(
                f"a notice could not be sent for three days and is dropped: {notice.title}"
            )
        else:
            pause_s = min(FIRST_PAUSE_S * 2 ** min(notice.attempts, 10), LONGEST_PAUSE_S)
            retried = notice.model_copy(
                update={
                    "sent_to": tuple(sent_to),
                    "attempts": notice.attempts + 1,
                    "next_s": now_s + pause_s,
                }
            )
            write_private(path, retried.model_dump_json() + "\n")

    def _try_to_send(self, address: str, notice: Notice) -> bool:
        where = address.partition(":")[0]
        try:
            taken = self._send(address, notice)
        except Exception as error:  # errors of a service's code must not end the daemon's task
            self._report_trouble(where, type(error).__name__)
            return False
        if not taken:
            self._report_trouble(where, "not taken")
        elif where in self._failing:
            self._failing.discard(where)
            self._report_line(f"notices by {where} go out again")
        return taken

    def _report_trouble(self, where: str, why: str) -> None:
        if where not in self._failing:
            self._failing.add(where)
            self._report_line(
                f"notices by {where} do not go out ({why}); they are kept and tried again"
            )


def _notice_address_digest(address: str) -> str:
    return hashlib.sha256(address.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def send_with_apprise(address: str, notice: Notice) -> bool:
    """Send to one address of Apprise (https://github.com/caronc/apprise, "URL basics")."""
    import apprise

    kinds = {
        NoticeKind.DONE: apprise.NotifyType.SUCCESS,
        NoticeKind.MORNING: apprise.NotifyType.INFO,
        NoticeKind.FAILED: apprise.NotifyType.FAILURE,
        NoticeKind.GUARD_TRIPPED: apprise.NotifyType.FAILURE,
    }
    sender = apprise.Apprise()
    if not sender.add(address):
        return False
    kind = kinds.get(notice.kind, apprise.NotifyType.WARNING)
    return bool(sender.notify(body=notice.text, title=notice.title, notify_type=kind))


def waiting(folder: Path) -> list[str]:
    """The titles of the notices that wait to be sent."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append(str(json.loads(read_small(path, _MOST_BYTES))["title"]))
        except (OSError, *UNREADABLE):
            continue
    return found
