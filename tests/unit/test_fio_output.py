from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labctl.capture.monitor import intervals
from labctl.fio_output import DocumentStream, documents, final_result, status_of

SHARED = Path(__file__).parents[3] / "shared" / "data" / "fio"


def side(ios: int, runtime_ms: int = 1000, mean_ns: float = 50_000.0) -> dict[str, Any]:
    return {
        "io_bytes": ios * 4096,
        "io_kbytes": ios * 4,
        "total_ios": ios,
        "runtime": runtime_ms if ios else 0,
        "lat_ns": {
            "min": 1000, "max": 90_000, "mean": mean_ns if ios else 0.0, "N": ios,
            "percentile": {"50.000000": 48_000, "99.000000": 88_000} if ios else {},
        },
    }  # fmt: skip


def document(*jobs: dict[str, Any], wall_ms: int = 1_700_000_001_000) -> dict[str, Any]:
    return {"fio version": "fio-3.33", "timestamp_ms": wall_ms, "jobs": list(jobs)}


def job(reads: int, writes: int = 0, runtime_ms: int = 1000) -> dict[str, Any]:
    return {
        "jobname": "phase",
        "error": 0,
        "job_runtime": runtime_ms,
        "read": side(reads, runtime_ms),
        "write": side(writes, runtime_ms),
    }


def printed(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=2) + "\n"


def test_jobs_without_group_reporting_are_summed() -> None:
    result = final_result(printed(document(job(1000), job(3000))))
    assert result is not None and result.read is not None
    assert result.read.total_ios == 4000
    assert result.read.iops == 4000
    assert result.write is None


def test_all_clients_is_not_counted_twice() -> None:
    clients = [job(100), job(200), {**job(300), "jobname": "All clients"}]
    text = printed({"fio version": "fio-3.36", "client_stats": clients})
    result = final_result(text)
    assert result is not None and result.read is not None
    assert result.read.total_ios == 300
    assert status_of(json.loads(text)).wall_ms is None


def test_noise_before_between_and_after_documents_is_no_matter() -> None:
    noise = "fio: connected to NBD server\nnote: both iodepth >= 1\n" + "fio: io_u error\n" * 5000
    text = noise + printed(document(job(10))) + noise + printed(document(job(30))) + "{ torn"
    assert len(list(documents(text))) == 2
    result = final_result(text)
    assert result is not None and result.read is not None
    assert result.read.total_ios == 30


@given(st.lists(st.integers(1, 200), max_size=40), st.booleans())
@settings(max_examples=50)
def test_documents_are_found_however_the_stream_is_cut(cuts: list[int], noisy: bool) -> None:
    text = "".join(
        ("fio: io_u error on file\n" if noisy else "") + printed(document(job(n)))
        for n in (1, 2, 3)
    )
    stream = DocumentStream()
    found = []
    for cut in cuts:
        found += stream.feed(text[:cut])
        text = text[cut:]
    found += stream.feed(text)
    assert [status_of(item).totals["read"].ios for item in found] == [1, 2, 3]


@given(st.text(max_size=300))
def test_any_garbage_gives_no_result_and_no_crash(text: str) -> None:
    assert final_result(text) is None
    DocumentStream().feed(text)


def test_an_interval_is_a_difference_never_the_cumulative_mean() -> None:
    """1000 IOPS for 10 s, then 100 IOPS: the live value is 100, the cumulative mean 918."""
    before = status_of(document(job(10_000, runtime_ms=10_000)))
    after = status_of(document(job(10_100, runtime_ms=11_000)))
    found = intervals(before, after, end_ns=50_000_000_000)
    assert found["read"].iops == pytest.approx(100)
    assert found["read"].t_ns == 49_500_000_000
    assert "write" not in found


def test_interval_latency_is_of_the_interval() -> None:
    first, second = job(100), job(200, runtime_ms=2000)
    first["read"]["lat_ns"]["mean"] = 10_000.0
    second["read"]["lat_ns"]["mean"] = 20_000.0
    found = intervals(status_of(document(first)), status_of(document(second)), 0)
    assert found["read"].latency_mean_us == pytest.approx(30.0)


def test_fio_2_gives_microseconds_and_kib() -> None:
    old = {
        "io_bytes": 4000,
        "iops": 1000,
        "runtime": 1000,
        "lat": {"min": 1, "max": 900, "mean": 52.5},
        "clat": {"percentile": {"50.000000": 50, "0.00": 0}},
    }
    text = printed({"fio version": "fio-2.1.4", "jobs": [{"jobname": "a", "read": old}]})
    result = final_result(text)
    assert result is not None and result.read is not None
    assert result.read.bytes_per_s == 4000 * 1024
    assert result.read.total_ios == 1000
    assert result.read.latency_mean_us == 52.5
    assert result.read.latency_percentiles_us == {"50": 50.0}


def test_an_error_in_a_document_is_not_lost() -> None:
    broken = {**job(10), "error": 5}
    result = final_result(printed(document(broken)))
    assert result is not None and "5" in result.error


def test_percentiles_of_two_equal_jobs_are_those_of_one() -> None:
    one = final_result(printed(document(job(1000))))
    two = final_result(printed(document(job(1000), job(1000))))
    assert one is not None and one.read is not None and two is not None and two.read is not None
    for name, value in one.read.latency_percentiles_us.items():
        assert two.read.latency_percentiles_us[name] == pytest.approx(value, rel=1e-6)


@pytest.mark.skipif(not SHARED.is_dir(), reason="real fio recordings are not beside this clone")
def test_real_recordings_of_three_versions() -> None:
    results = {path.name: final_result(path.read_text()) for path in SHARED.glob("*.json")}
    sixteen = next(r for name, r in results.items() if "nj16" in name)
    assert sixteen is not None and sixteen.write is not None
    raw = json.loads(next(SHARED.glob("*nj16*")).read_text())
    assert len(raw["jobs"]) == 16
    assert sixteen.write.total_ios == sum(j["write"]["total_ios"] for j in raw["jobs"])
    assert sixteen.write.iops == pytest.approx(sum(j["write"]["iops"] for j in raw["jobs"]), 1e-3)
    latest = next(r for name, r in results.items() if "3.39" in name)
    assert latest is not None and latest.read is not None
    assert latest.read.iops == pytest.approx(271780.17, abs=0.1)
    assert latest.read.latency_percentiles_us["99"] == pytest.approx(101.888)
    oldest = next(r for name, r in results.items() if "2.1.4" in name)
    assert oldest is not None and oldest.write is not None
