from __future__ import annotations

from typing import Any

from labctl.importing.work_documents import by_fio


def _job(name: str, group: int, job_runtime: int, runtime: int, ios: int) -> dict[str, Any]:
    read = {"runtime": runtime, "total_ios": ios}
    return {"jobname": name, "groupid": group, "job_runtime": job_runtime, "read": read}


def test_a_job_that_has_just_begun_has_not_worked_for_as_long_as_it_waited() -> None:
    """Times of fio 3.33 on a busy machine: its first I/O is counted before its own time runs."""
    documents = [
        {"timestamp_ms": 1000 + at, "jobs": [_job("one", 0, 1005, 1006, 124), two]}
        for at, two in (
            (651, _job("two", 1, 1206, 0, 0)),
            (952, _job("two", 1, 1506, 0, 1)),
            (1273, _job("two", 1, 299, 299, 41)),
        )
    ]
    assert by_fio(documents) == [documents]
