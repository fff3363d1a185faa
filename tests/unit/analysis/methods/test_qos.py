"""Latency beyond the mean, also of real fio output where it is at hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labctl.analysis.methods.qos import (
    SlowShare,
    latency_verdict,
    percentiles,
    qos_slow_shares,
    slow_shares,
)
from labctl.config.sweeps import Sweep
from labctl.fio.documents import documents
from tests.unit.report_sample import plan, record_of, summary_of

SHARED = Path(__file__).parents[5] / "shared" / "data" / "fio"
EDGES = ("2", "4", "10", "20", "50", "100", "250", "500", "750", "1000", "2000", ">=2000")


def job(ios: int, **bins: float) -> dict[str, Any]:
    named = {edge: bins.get(f"ms{edge}", 0.0) for edge in EDGES}
    named[">=2000"] = bins.get("over", 0.0)
    return {"jobname": "x", "write": {"total_ios": ios}, "read": {}, "latency_ms": named}


def test_by_hand() -> None:
    """Of 1000 I/Os 4 % took 10 to 20 ms, 1 % 100 to 250 ms, 2 % over 2 s."""
    document = {"jobs": [job(1000, ms10=5.0, ms20=4.0, ms250=1.0, over=2.0)]}
    assert slow_shares(document) == (SlowShare(10, 7.0, 7.0), SlowShare(100, 3.0, 3.0))


def test_jobs_weigh_by_what_they_did() -> None:
    document = {"jobs": [job(3000, ms50=1.0), job(1000, ms50=9.0)]}
    assert slow_shares(document)[0] == SlowShare(10, 3.0, 3.0)


def test_what_fio_prints_as_0_01_is_only_known_to_be_at_most_that() -> None:
    assert slow_shares({"jobs": [job(1000, ms20=0.01, ms50=0.5)]}) == (
        SlowShare(10, 0.5, 0.51),
        SlowShare(100, 0.0, 0.0),
    )


def test_a_limit_that_fio_does_not_count() -> None:
    with pytest.raises(ValueError, match="not over 30 ms"):
        slow_shares({"jobs": [job(10)]}, (30,))


def test_no_bins_no_shares() -> None:
    assert slow_shares({"jobs": [{"read": {"total_ios": 5}}]}) == ()
    assert slow_shares({"jobs": [job(0)]}) == ()


_NONE, _ALL = (0.0, 0.0), (99.99, 100.1)
SLOW_SHARES_PCT = {
    "pkb_fio-2.1.4.json": (_ALL, _ALL),
    "sabrent-rkt4p-2tb_randwrite-qd1-nj16_fio-3.33.json": (_NONE, _NONE),
    "hothanh7_randread-qd16_fio-3.39.json": (_NONE, _NONE),
}
"""Least and most share of I/Os over 10 and 100 ms."""


@pytest.mark.skipif(not SHARED.is_dir(), reason="no recordings of other people beside the project")
def test_real_output_of_real_drives() -> None:
    """pkb's first job: 0.28 + 84.58 + 11.03 + 4.1 % took 100 ms to 1 s."""
    for name, expected in SLOW_SHARES_PCT.items():
        document = next(documents((SHARED / name).read_text()))
        if name.startswith("pkb"):
            document = {**document, "jobs": document["jobs"][:1]}
        for share, (least, most) in zip(slow_shares(document), expected, strict=True):
            assert least - 0.02 <= share.least_pct <= share.most_pct <= most, (name, share)


def test_a_percentile_needs_ios_beyond_it() -> None:
    result = summary_of(plan(Sweep(pattern=["randread"], duration_s=10))).measured[0]
    assert result.read is not None
    few = replace(
        result.read, total_ios=20_000, latency_percentiles_us={"99.9": 200.0, "99.999": 900.0}
    )
    assert [(item.percent, item.measured) for item in percentiles(few)] == [
        (99.9, True),
        (99.999, False),
    ]
    changed = replace(result, read=few)
    met = latency_verdict(changed, "read", 99.9, 500.0)
    missed = latency_verdict(changed, "read", 99.9, 200.0)
    unknown = latency_verdict(changed, "read", 99.999, 5000.0)
    assert met is not None and met.met is True
    assert str(met) == "99.9 % of randread 4k QD1 reads under 500 µs: yes (200 µs)"
    assert missed is not None and missed.met is False
    assert unknown is not None and unknown.met is None
    assert latency_verdict(changed, "write", 99.9, 500.0) is None


def test_shares_of_a_recorded_phase_are_of_the_last_document(tmp_path: Path) -> None:
    summary = summary_of(plan(Sweep(pattern=["randwrite"], duration_s=10)))
    record = record_of(tmp_path, summary)
    result = summary.measured[0]
    assert qos_slow_shares(record, result) == ()
    folder = record.fio_dir(result.phase)
    folder.mkdir(parents=True)
    texts = [json.dumps({"jobs": [job(10, ms50=share)]}, indent=2) for share in (9.0, 2.0)]
    (folder / "stdout").write_text("fio: a complaint\n" + "\n".join(texts) + "\n")
    assert qos_slow_shares(record, result)[0].most_pct == 2.0
