from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labctl.fio.documents import DocumentStream, documents
from labctl.fio.results import FioResult
from labctl.fio.status import FioStatus, Totals, comes_back_empty, intervals, status_of, unfinished
from tests.fio_result import final_result

SHARED = Path(__file__).parents[4] / "shared" / "data" / "fio"


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


def test_an_interval_of_a_paced_replay_is_as_long_as_the_time_between_its_documents() -> None:
    """fio noted its runtime, then waited 1.5 s for a worker that slept: 100 I/Os in two seconds."""
    before = status_of(document(job(100, runtime_ms=500)))
    after = status_of(document(job(200, runtime_ms=1000)))
    found = intervals(before, after, end_ns=5_000_000_000, begin_ns=3_000_000_000)
    assert (found["read"].iops, found["read"].t_ns) == (50.0, 4_000_000_000)
    assert intervals(before, after, end_ns=5_000_000_000, begin_ns=4_950_000_000) == {}


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
    assert "IOPS rounded down" in " ".join(result.notes)
    with_fraction = {**old, "iops": 1000.5}
    assert known({"jobs": [{"read": with_fraction}]}).notes == ()


def test_trims_are_not_silently_left_out() -> None:
    result = known(document({**job(10), "trim": side(7)}))
    assert "trims are not counted" in " ".join(result.notes)
    assert known(document({**job(10), "trim": side(0)})).notes == ()


@pytest.mark.parametrize(
    "word", ["nan", "-nan", "inf", "-nan(ind)", "nan(snan)", "1.#INF", "-1.#IND"]
)
def test_what_c_libraries_print_for_no_number(word: str) -> None:
    text = printed(document(job(10))).replace('"mean": 0.0', f'"mean" : {word}')
    assert word in text
    result = final_result(text)
    assert result is not None and result.read is not None and result.read.total_ios == 10


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


def streamed(text: str) -> list[dict[str, Any]]:
    stream = DocumentStream()
    return stream.feed(text) + stream.finish()


def known(data: dict[str, Any]) -> FioResult:
    result = final_result(printed(data))
    assert result is not None
    return result


COMPLAINT = "fio: io_u error on file nbd: Input/output error: read offset=1, buflen=4096"


@pytest.mark.parametrize("at", [1, 5, 12, 20])
def test_a_complaint_within_a_document(at: int) -> None:
    lines = printed(document(job(30))).split("\n")
    text = printed(document(job(10))) + "\n".join([*lines[:at], COMPLAINT, *lines[at:]])
    result = final_result(text)
    assert result is not None and result.read is not None
    assert result.read.total_ios == 30
    assert [status_of(d).totals["read"].ios for d in streamed(text)] == [10, 30]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(document(job(10))),
        json.dumps(document(job(10))) + "\n",
        json.dumps(document(job(10)), indent=2),
        "\ufeff" + printed(document(job(10))),
        printed(document(job(10))).replace("\n", "\r\n"),
        "fio: terminating on signal 2" + printed(document(job(10))),
        "note: foo {\n" + printed(document(job(10))),
        printed(document(job(10))).replace('"runtime": 1000,', f'"runtime": 1000,{COMPLAINT}'),
        printed(document(job(10))).replace("50000.0", "-nan"),
    ],
)
def test_one_line_no_last_line_feed_and_other_endings(text: str) -> None:
    assert [status_of(d).totals["read"].ios for d in documents(text)] == [10]
    assert [status_of(d).totals["read"].ios for d in DocumentStream().feed(text)] == [10]


def test_documents_without_line_feeds_between_them() -> None:
    for indent in (None, 2):
        text = "".join(json.dumps(document(job(n)), indent=indent) for n in (1, 2, 3))
        assert [status_of(d).totals["read"].ios for d in streamed(text)] == [1, 2, 3]


def test_odd_values_are_missing() -> None:
    assert final_result(printed({"jobs": None})) is None
    assert final_result(printed({"client_stats": ["x", 5]})) is None
    assert known({"jobs": [{"read": None, "write": side(5)}]}).write is not None
    odd = document({**job(10), "error": "EIO"}, job(5))
    odd["jobs"][0]["read"]["runtime"] = None
    odd["timestamp_ms"] = "12"
    result = known(odd)
    assert result.read is not None and result.read.total_ios == 15
    assert result.error == "fio error EIO"
    assert status_of(odd).wall_ms == 12
    junk = {"client_stats": [*(job(10), None, 7), {**job(10), "jobname": "All clients"}]}
    assert status_of(junk).totals["read"].ios == 10


def test_without_runtime_the_rates_are_those_that_fio_printed() -> None:
    one = {**side(10), "runtime": None, "iops": 123.0, "bw_bytes": 456}
    del one["io_kbytes"]
    result = known(document({"read": one})).read
    assert result is not None and (result.iops, result.bytes_per_s) == (123.0, 456.0)
    assert status_of(document({"read": one})).totals["read"].bytes == 40960


def test_latency_without_lat_ns_and_latency_that_was_not_measured() -> None:
    one = side(10)
    total = one.pop("lat_ns")
    one["clat_ns"], one["slat_ns"] = total, {"mean": 1000.0, "max": 2000, "N": 10}
    result = known(document({"read": one})).read
    assert result is not None
    assert result.latency_percentiles_us == {"50": 48.0, "99": 88.0}
    assert result.latency_mean_us == pytest.approx(51.0)
    one["lat_ns"] = {"min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0}
    result = known(document({"read": one})).read
    assert result is not None and result.latency_mean_us == pytest.approx(51.0)
    assert result.latency_max_us == pytest.approx(90.0)
    for name in ("clat_ns", "slat_ns"):
        one[name] = one["lat_ns"]
    unmeasured = known(document({"read": one}))
    assert "measured no latency" in " ".join(unmeasured.notes)
    assert status_of(document({"read": one})).totals["read"].latency_count == 0


def test_fio_3_1_gives_no_number_of_latencies() -> None:
    one = side(10)
    percentile = one["lat_ns"].pop("percentile")
    del one["lat_ns"]["N"]
    one["clat_ns"] = {"mean": 1.0, "percentile": percentile, "bins": {"1000": 4, "2000": 6}}
    result = known(document({"job_start": 1, "read": one})).read
    assert result is not None
    assert (result.latency_mean_us, result.latency_percentiles_us["99"]) == (50.0, 88.0)


def test_directions_that_fio_reports_in_one() -> None:
    data = document({"jobname": "a", "mixed": side(10), "error": 0})
    result = known(data)
    assert result.mixed is not None and result.mixed.total_ios == 10
    assert result.read == result.mixed and result.write is None
    assert "unified_rw_reporting" in result.notes[0]
    assert status_of(data).totals["read"].ios == 10
    both = known(document({**job(4, 6), "mixed": side(10)}))
    assert both.mixed is None and both.read is not None and both.read.total_ios == 4


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found = [path] if path else []
    if isinstance(value, dict | list):
        for key, item in items:
            deeper = isinstance(item, dict | list)
            found += places(item, (*path, key)) if deeper else [(*path, key)]
    return found


def shaped() -> list[dict[str, Any]]:
    full = {**job(10, 5), "job_start": 1}
    for name in ("read", "write"):
        full[name]["clat_ns"] = {**full[name]["lat_ns"], "bins": {"1000": 10}}
        full[name]["slat_ns"] = {"mean": 5.0, "max": 9, "N": 10}
    two = document(full, copy.deepcopy(full))
    clients = {"client_stats": [full, {**copy.deepcopy(full), "jobname": "All clients"}]}
    return [two, clients, document({"mixed": side(10), "error": 5})]


ODD = st.sampled_from([None, "", "EIO", "12", [], [1], {}, {"a": 1}, True, -1, 0, 10**400, 1e308])


@given(st.sampled_from(shaped()), st.lists(st.tuples(st.integers(0, 500), ODD), max_size=5))
@settings(max_examples=400, deadline=None)
def test_no_value_anywhere_raises(data: dict[str, Any], changes: list[tuple[int, Any]]) -> None:
    data = copy.deepcopy(data)
    for place, odd in changes:
        paths = places(data)
        if not paths:
            break
        *path, last = paths[place % len(paths)]
        parent: Any = data
        for key in path:
            parent = parent[key]
        parent[last] = copy.deepcopy(odd)
    text = printed(data)
    result = final_result(text)
    found = streamed(text)
    assert (result is None) == (not found)
    json.dumps([[part.iops for part in (result.read, result.write) if part]] if result else [])
    for item in [*found, data]:
        status_of(item)


def counted(ios: int, moved: int, **drives: tuple[int, int]) -> FioStatus:
    """A status of reads; ``moved`` counts blocks of 4 KiB."""
    return FioStatus(
        {"read": Totals(ios, moved * 4096), "write": Totals()},
        1000,
        None,
        drives={name: {"read": Totals(n, m * 4096)} for name, (n, m) in drives.items()},
    )


@pytest.mark.parametrize(
    ("before", "now", "in_flight", "empty"),
    [
        ((70_000, 69_990), (75_000, 74_990), 16, False),
        ((70_000, 70_000), (75_000, 70_000), 16, False),  # whatever is counted after the bytes
        ((1024, 0), (5000, 0), 1024, False),  # the first status of a deep queue
        ((1024, 0), (5000, 0), 1023, True),
        ((5000, 100), (9000, 4983), 16, True),  # one of those before has no bytes
        ((5000, 100), (9000, 4984), 16, False),
        ((5000, 0), (5000, 5000), 0, False),
        ((5000, 4983), (5000, 4983), 16, True),  # after its end
        ((0, 0), (0, 0), 0, False),
    ],
)
def test_what_was_counted_has_its_bytes_in_the_next_status_unless_it_is_in_flight(
    before: tuple[int, int], now: tuple[int, int], in_flight: int, empty: bool
) -> None:
    assert comes_back_empty(counted(*before), counted(*now), 4096, in_flight) == empty


def test_one_of_several_drives_that_is_gone_is_reported_whatever_the_others_do() -> None:
    before = counted(10_000, 9_990, a=(9_000, 9_000), b=(1_000, 990))
    going_on = counted(20_000, 19_990, a=(18_000, 17_995), b=(2_000, 1_995))
    b_gone = counted(20_000, 18_990, a=(18_000, 18_000), b=(2_000, 990))
    assert not comes_back_empty(before, going_on, 4096, 8)
    assert comes_back_empty(before, b_gone, 4096, 8)
    assert not comes_back_empty(before, b_gone, 4096, 16)


@pytest.mark.parametrize(
    ("ios", "latencies", "moved", "expected"),
    [
        (1000, 1000, 1000, False),
        (1000, 999, 1000, True),
        (1000, 1000, 999, True),
        (1000, 0, 1000, False),  # latencies were not measured
        (0, 0, 0, False),
    ],
)
def test_the_last_document_of_a_whole_output_counts_no_unfinished_io(
    ios: int, latencies: int, moved: int, expected: bool
) -> None:
    totals = Totals(ios, moved * 4096, 50.0 * latencies, latencies)
    assert unfinished(FioStatus({"read": totals}, 1000, None), 4096) == expected
