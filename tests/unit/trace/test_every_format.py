"""Traces in every format: by hand, against a plain reference, and past the real fio."""

from __future__ import annotations

import gzip
import json
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labctl.record.phase import Replay
from labctl.trace import formats
from labctl.trace.blktrace import MAGIC, RECORD
from labctl.trace.chunks import TraceError
from labctl.trace.convert import convert
from labctl.trace.describe import Description, describe
from labctl.trace.fields import integers, nanoseconds, split_blanks, split_commas
from labctl.trace.formats import open_trace
from labctl.trace.replay import Demand, demand_of
from tests.unit.test_docs import ROOT, labctl

BLKPARSE = """\
  8,0    3        1     0.000000000   697  A   W 223490 + 8 <- (8,1) 223427
  8,0    3        2     0.000000373   697  Q   W 223490 + 8 [kjournald]
  8,0    3        3     0.000003146   697  G   W 223490 + 8 [kjournald]
  8,0    3        0     0.000006000     0  m   N cfq697S / alloced
  8,0    3        4     0.000013150   697  D   W 223490 + 8 [kjournald]
  8,0    1        5     0.000500000   697  Q  RA 223498 + 56 [cat]
  8,0    0        6     0.001302011     0  C   W 223490 + 8 [0]
  8,16   0        7     0.002000000    12  Q  DS 4096 + 2048 [fstrim]
  8,0    2        8     0.003000000    12  Q FWS [jbd2/sda1-8]
  8,0    2        9     0.004000000    12  Q  WS 22x498 + 8 [jbd2/sda1-8]
CPU3 (8,0):
 Reads Queued:           1,       28KiB\t Writes Queued:           1,        4KiB
Total (8,0):
Throughput (R/W): 7,000KiB/s / 1,000KiB/s
Events (8,0): 9 entries
"""
"""As blkparse prints by default, with a remap, a message, a flush, a torn line and its sums."""

needs_fio = pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")

FILETIME = 128166372003061629
MSR = [
    # time (100 ns), type, offset, size, response (100 ns)
    (FILETIME, "Read", 0, 4096, 20_000),
    (FILETIME + 10_000, "Read", 4096, 4096, 200_000),
    (FILETIME + 15_000, "Write", 1 << 20, 131072, 1_500_000),
    (FILETIME + 5_000_000, "Write", 512, 1024, 10_000),
]
"""At 0, 1, 1.5 and 500 ms; 2, 20, 150 and 1 ms of service."""


def msr_text(rows: list[tuple[int, str, int, int, int]] = MSR, disk: int = 0) -> str:
    return "".join(f"{t},usr,{disk},{op},{at},{size},{ms}\n" for t, op, at, size, ms in rows)


def written(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def described(path: Path) -> Description:
    return describe(open_trace(path))


def bins(found: Description) -> dict[str, int]:
    return {one.name: one.ios for one in found.sizes if one.ios}


def test_msr_by_hand(tmp_path: Path) -> None:
    found = described(written(tmp_path / "usr_0.csv", msr_text()))
    assert found.format == "MSR Cambridge CSV"
    assert (found.ios, found.reads, found.writes, found.bad_lines) == (4, 2, 2, 0)
    assert (found.bytes_read, found.bytes_written) == (8192, 132096)
    assert found.read_share == 0.5
    assert found.sequential_ios == pytest.approx(1 / 3), "the second follows the first"
    assert bins(found) == {"<4K": 1, "4K": 2, "128K": 1}
    assert found.duration_s == pytest.approx(0.5)
    assert found.bytes_per_s == pytest.approx(140288 / 0.5)
    assert found.service_mean_ms == pytest.approx((2 + 20 + 150 + 1) / 4)
    assert found.busy_s == pytest.approx(0.1515 + 0.001)
    assert found.slow_shares == {10: 0.5, 100: 0.25}
    assert found.queue_depths is not None
    assert {one.name: one.ios for one in found.queue_depths if one.ios} == {"1": 2, "2": 1, "3": 1}
    assert found.mean_queue_depth == pytest.approx((1 + 2 + 3 + 1) / 4)
    assert found.span_bytes == (1 << 20) + 131072


def test_the_example_of_the_docs_is_a_trace() -> None:
    found = described(ROOT / "docs" / "examples" / "trace.csv")
    assert (found.format, found.ios, found.bad_lines) == ("MSR Cambridge CSV", 40, 0)


def test_blkparse_text_by_hand(tmp_path: Path) -> None:
    found = described(written(tmp_path / "sda.txt", BLKPARSE))
    assert found.format == "blkparse text"
    assert (found.reads, found.writes, found.trims, found.disks) == (1, 1, 1, 1)
    assert (found.bytes_read, found.bytes_written) == (56 * 512, 8 * 512)
    assert found.sequential_ios == 1.0, "sector 223498 follows 223490 + 8"
    assert found.duration_s == pytest.approx(0.002 - 0.000000373)
    assert found.bad_lines == 1
    assert found.bad_shown[0].startswith("line 10: no event of blkparse")


def test_a_piece_of_a_systor_trace_needs_no_header(tmp_path: Path) -> None:
    """The second line had no response message: its type is blank, and it is named."""
    text = (
        "1456095145.133076000,0.000806000,R,0,899056122368,131072\n"
        "1456095145.133080000,,,0,899056122368,131072\n"
        "1456095145.134076000,0.000306000,W,0,4096,512\n"
    )
    found = described(written(tmp_path / "piece.csv", text))
    assert (found.reads, found.writes, found.bad_lines) == (1, 1, 1)
    assert found.bad_shown == (
        "line 2: neither read nor write: '1456095145.133080000,,,0,899056122368,131072'",
    )
    assert found.service_mean_ms == pytest.approx(0.556)


def test_iologs_as_other_programs_write_them(tmp_path: Path) -> None:
    """Blank lines, no line feed at the end, a device that was never added, spdk's names."""
    v2 = "fio version 2 iolog\n/dev/dm-0 add\n/dev/dm-0 open\n/dev/sdb write 8192 4096\n\n"
    v2 += "/dev/sdb wait 500 0\n/dev/sdb read 0 4096\n\n/dev/dm-0 close"
    found = described(written(tmp_path / "v2.log", v2))
    assert (found.reads, found.writes, found.bad_lines) == (1, 1, 0)
    assert found.duration_s is None
    v3 = "fio version 3 iolog\n2 Nvme1n1 add\n872 Nvme1n1 open\n878 Nvme1n1 write 0 16384\n"
    v3 += "888 Nvme1n1 datasync 0 0\n891 Nvme1n1 write 16384 16384\n10001677 Nvme1n1 close\n"
    found = described(written(tmp_path / "v3.log", v3))
    assert (found.writes, found.flushes, found.bad_lines) == (2, 1, 0)
    assert found.duration_s == pytest.approx(13e-6)


def test_systor_by_hand(tmp_path: Path) -> None:
    """SNIA IOTTA, Systor '17: seconds with decimals, several LUNs, a response may be missing."""
    text = (
        "Timestamp,Response,IOType,LUN,Offset,Size\n"
        "1456099200.000000000,0.000500000,R,1,0,8192\n"
        "1456099200.001000000,,W,3,8192,8192\n"
        "1456099202.5,0.02,R,1,8192,65536\n"
    )
    found = described(written(tmp_path / "lun.csv", text))
    assert found.format == "CSV with a header"
    assert (found.reads, found.writes, found.disks, found.bad_lines) == (2, 1, 2, 0)
    assert found.duration_s == pytest.approx(2.5)
    assert found.sequential_ios == 1.0, "on LUN 1; what LUN 3 did before is not known"
    assert found.service_mean_ms == pytest.approx(10.25)


def test_iolog_versions_by_hand(tmp_path: Path) -> None:
    two = written(
        tmp_path / "two",
        "fio version 2 iolog\n/dev/sdb add\n/dev/sdb open\n/dev/sdb read 0 4096\n"
        "/dev/sdb wait 1000 0\n/dev/sdb write 4096 16384\n/dev/sdb sync 0 0\n/dev/sdb close\n",
    )
    found = described(two)
    assert (found.reads, found.writes, found.flushes, found.bad_lines) == (1, 1, 1, 0)
    assert (found.duration_s, found.queue_depths, found.service_mean_ms) == (None, None, None)
    three = written(
        tmp_path / "three",
        "fio version 3 iolog\n0 f add\n1 f open\n5 f read 0 4096\n1000005 f trim 8192 4096\n"
        "2000005 f write 4096 16384\n2000010 f close\n",
    )
    found = described(three)
    assert (found.ios, found.trims, found.duration_s) == (3, 1, pytest.approx(2.0))
    assert found.sequential_ios == 1.0


def blktrace(rows: list[tuple[int, int, int, int]], pdus: dict[int, bytes] | None = None) -> bytes:
    """Records of (ns, sector, bytes, action); ``pdus`` are data behind some of them."""
    data = b""
    for number, (t, sector, size, action) in enumerate(rows):
        record = np.zeros(1, RECORD)
        pdu = (pdus or {}).get(number, b"")
        record["magic"], record["sequence"], record["time"] = MAGIC, number, t
        record["sector"], record["bytes"], record["action"] = sector, size, action
        record["device"], record["pdu_len"] = (8 << 20) | 16, len(pdu)
        data += record.tobytes() + pdu
    return data


QUEUE_READ, QUEUE_WRITE = 1 | (1 << 16), 1 | (2 << 16)
COMPLETE, NOTIFY = 8 | (1 << 16), 1 << 26


def test_blktrace_by_hand(tmp_path: Path) -> None:
    data = blktrace(
        [
            (100, 0, 0, NOTIFY),
            (1000, 8, 4096, QUEUE_READ),
            (2000, 8, 4096, COMPLETE),
            (5_001_000, 16, 65536, QUEUE_WRITE),
        ],
        {0: b"fio\0\0", 2: b"xyz"},
    )
    found = described(written(tmp_path / "dump.bin", data))
    assert (found.format, found.ios, found.reads, found.writes) == ("blktrace", 2, 1, 1)
    assert found.sequential_ios == 1.0
    assert found.duration_s == pytest.approx(0.005)
    assert found.bad_lines == 0
    torn = described(written(tmp_path / "torn.bin", data[:-10]))
    assert (torn.ios, torn.bad_lines) == (1, 1)
    assert "cut off after 38 bytes" in torn.bad_shown[0]
    broken = described(written(tmp_path / "broken.bin", data + b"rubbish" * 20))
    assert (broken.ios, broken.bad_lines) == (2, 1)


@needs_fio
def test_fio_replays_the_same_ios_of_a_blktrace(tmp_path: Path) -> None:
    """The real fio reads our made-up blktrace, and does as many I/Os of as many bytes."""
    chance = random.Random(5)
    rows = [
        (1000 * i, 8 * chance.randrange(1000), 4096 * chance.randint(1, 16),
         chance.choice((QUEUE_READ, QUEUE_WRITE, COMPLETE)))
        for i in range(1, 200)
    ]  # fmt: skip
    dump = written(tmp_path / "dump.bin", blktrace(rows))
    disk = written(tmp_path / "disk", b"\0" * (8 << 20))
    ours = described(dump)
    assert replayed(dump, disk) == (
        ours.reads, ours.writes, ours.bytes_read, ours.bytes_written,
    )  # fmt: skip


def replayed(log: Path, disk: Path) -> tuple[int, int, int, int]:
    """Reads, writes, and bytes of both, that the real fio does when it replays a log."""
    done = subprocess.run(
        ["fio", "--name=r", "--ioengine=sync", f"--read_iolog={log}", "--replay_no_stall=1",
         f"--replay_redirect={disk}", "--output-format=json"],
        check=True, capture_output=True, text=True, cwd=disk.parent, timeout=60,
    )  # fmt: skip
    job = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    sides = job["read"], job["write"]
    reads, writes = (side["total_ios"] for side in sides)
    bytes_read, bytes_written = (side["io_bytes"] for side in sides)
    return reads, writes, bytes_read, bytes_written


@needs_fio
def test_a_log_that_fio_wrote_is_read_and_fio_replays_what_we_write(tmp_path: Path) -> None:
    log = tmp_path / "log"
    subprocess.run(
        ["fio", "--name=w", "--ioengine=null", "--rw=randrw", "--rwmixread=70", "--size=64m",
         "--bsrange=4k-64k", "--iodepth=4", "--number_ios=500", f"--write_iolog={log}"],
        check=True, capture_output=True, cwd=tmp_path, timeout=60,
    )  # fmt: skip
    source = described(log)
    assert source.format == "fio iolog v3"
    assert source.bad_lines == 0 and source.ios > 300
    out = tmp_path / "out"
    done = convert(open_trace(log), out, 64 << 20)
    assert (done.version, done.ios, done.wrapped) == (3, source.ios, 0)
    disk = written(tmp_path / "disk", b"\0" * (64 << 20))
    assert replayed(out, disk) == (
        source.reads, source.writes, source.bytes_read, source.bytes_written,
    )  # fmt: skip


def reference(text: str) -> dict[str, Any]:
    """A plain reading of an MSR trace, a line at a time."""
    rows, bad = [], 0
    for line in text.splitlines():
        cells = line.split(",")
        try:
            t, disk, at, size, response = (int(cells[i]) for i in (0, 2, 4, 5, 6))
            if cells[3].lower() not in ("read", "write") or size <= 0 or min(at, t) < 0:
                raise ValueError
            if max(map(len, cells)) > 18:
                raise ValueError
            rows.append((t, cells[3].lower(), disk, at, size, response))
        except (ValueError, IndexError):
            bad += bool(line.strip())
    followers = joined = 0
    ends: dict[int, int] = {}
    depths: dict[str, int] = {}
    names = (("1", 1), ("2", 2), ("3", 3), ("4-5", 5), ("6-10", 10), ("11-20", 20), ("21-32", 32))
    ordered = sorted(rows, key=lambda row: row[0])
    for number, row in enumerate(ordered):
        depth = 1 + sum(one[0] + one[5] > row[0] for one in ordered[:number])
        name = next((name for name, most in names if depth <= most), ">32")
        depths[name] = depths.get(name, 0) + 1
    for row in rows:
        if row[2] in ends:
            followers += 1
            joined += ends[row[2]] == row[3]
        ends[row[2]] = row[3] + row[4]
    return {
        "ios": len(rows),
        "bad": bad,
        "reads": sum(row[1] == "read" for row in rows),
        "bytes": sum(row[4] for row in rows),
        "sequential": joined / followers if followers else None,
        "depths": depths,
    }


BAD = (
    "",
    "hello",
    "1,2,3",
    "x,usr,0,Read,0,4096,10",
    "1,usr,0,Eat,0,4096,10",
    "1,usr,0,Read,0,,1",
    "1,usr,0,Read,-5,4096,10",
    "9" * 40 + ",usr,0,Read,0,4096,1",
    "1,usr,0,Read,0,0,10",
)


@pytest.mark.parametrize("block", [700, 5000, 1 << 22])
@pytest.mark.parametrize("seed", range(4))
def test_against_a_plain_reference_with_bad_lines_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, block: int
) -> None:
    """Also where a line, an open I/O or a sequence lies across two blocks."""
    monkeypatch.setattr(formats, "BLOCK_BYTES", block)
    chance = random.Random(seed)
    lines, t, at = [], FILETIME, 0
    for _ in range(600):
        t += chance.randrange(0, 30_000)
        at = at if chance.random() < 0.5 else 512 * chance.randrange(10_000)
        size = 512 * chance.randint(1, 300)
        op = chance.choice(("Read", "Write", "read"))
        lines.append(
            f"{t},usr,{chance.randrange(2)},{op},{at},{size},{chance.randrange(1, 90_000)}"
        )
        at += size
        if chance.random() < 0.05:
            lines.append(chance.choice(BAD))
    ending = "\r\n" if seed % 2 else "\n"
    text = ending.join(lines) + (ending if seed < 2 else "")
    wanted = reference(text)
    found = described(written(tmp_path / "t.csv", text))
    assert (found.ios, found.reads, found.bad_lines) == (
        wanted["ios"], wanted["reads"], wanted["bad"],
    )  # fmt: skip
    assert found.bytes_read + found.bytes_written == wanted["bytes"]
    assert found.sequential_ios == pytest.approx(wanted["sequential"])
    assert found.queue_depths is not None
    assert {one.name: one.ios for one in found.queue_depths if one.ios} == wanted["depths"]
    assert sum(one.ios for one in found.sizes) == wanted["ios"]


def test_bad_lines_are_counted_and_named(tmp_path: Path) -> None:
    text = msr_text() + "hello\n" + "128166372003061629,usr,0,Eat,0,4096,10\n" + msr_text()
    found = described(written(tmp_path / "t.csv", text))
    assert (found.ios, found.bad_lines) == (8, 2)
    assert found.bad_shown == (
        "line 5: too few columns: 'hello'",
        "line 6: neither read nor write: '128166372003061629,usr,0,Eat,0,4096,10'",
    )
    bad_log = "fio version 3 iolog\n0 f add\n5 f read 0 4096\n7 f fly 0 1\n9 f read x 4096\n"
    found = described(written(tmp_path / "log", bad_log))
    assert found.bad_shown == (
        "line 4: no action of fio: '7 f fly 0 1'",
        "line 5: no numbers where they should be: '9 f read x 4096'",
    )


def test_the_first_bad_lines_are_named_whatever_is_wrong_with_them(tmp_path: Path) -> None:
    bad = ["128166372003061629,usr,0,Eat,0,4096,10", "hello"] * 8
    found = described(written(tmp_path / "t.csv", msr_text() + "\n".join(bad) + "\n"))
    assert found.bad_lines == 16
    named = [line.split(":")[0] for line in found.bad_shown]
    assert named == [f"line {number}" for number in range(5, 15)]


def test_gzip_is_unpacked_and_a_torn_one_named(tmp_path: Path) -> None:
    packed = gzip.compress(msr_text().encode())
    assert described(written(tmp_path / "t.csv.gz", packed)).ios == 4
    large = gzip.compress(msr_text(MSR * 3000).encode())
    with pytest.raises(TraceError, match="cannot be read"):
        described(written(tmp_path / "torn.gz", large[:-20]))


@pytest.mark.parametrize("text", ["", "hello\n", "a,b,c\n1,2,3\n", "\0\0\0\0", "fio version 1\n"])
def test_what_is_no_trace_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(TraceError, match=r"empty|no trace that is known"):
        open_trace(written(tmp_path / "t", text))
    with pytest.raises(TraceError, match="cannot be read"):
        open_trace(tmp_path / "none")


def test_a_trace_without_any_io_is_refused(tmp_path: Path) -> None:
    empty = written(tmp_path / "t", "fio version 2 iolog\nf add\nf fly 0 1\n")
    with pytest.raises(TraceError, match=r"no line of it is an I/O .line 3"):
        described(empty)


def test_a_trace_larger_than_the_drive_is_refused_or_folded(tmp_path: Path) -> None:
    source = written(tmp_path / "t.csv", msr_text())
    out = tmp_path / "out"
    with pytest.raises(
        TraceError, match="line 3 ends at byte 1179648, the drive has 1048576: --wrap"
    ):
        convert(open_trace(source), out, 1 << 20)
    assert list(tmp_path.iterdir()) == [source], "nothing half-written is left"
    done = convert(open_trace(source), out, 1 << 20, wrap=True)
    assert (done.ios, done.wrapped) == (4, 1)
    found = described(out)
    assert found.span_bytes <= 1 << 20
    assert (found.bytes_read, found.bytes_written) == (8192, 132096)
    assert found.duration_s == pytest.approx(0.5)
    with pytest.raises(TraceError, match=r"the drive has 65536$"):
        convert(open_trace(source), out, 65536, wrap=True)


def test_a_replay_of_one_disk_asks_for_what_that_disk_needs(tmp_path: Path) -> None:
    """Disk 0 reads at the begin for a second, disk 2 writes far behind for ten."""
    near = [(FILETIME + number * 1_000_000, "Read", 0, 4096, 10) for number in range(11)]
    far = [(FILETIME + number * 10_000_000, "Write", 1 << 40, 4096, 10) for number in range(11)]
    source = written(tmp_path / "t.csv", msr_text(near) + msr_text(far, disk=2))
    own = demand_of(Replay(str(source), disk=0), 1 << 30)
    assert own == Demand(100, pytest.approx(1.0, rel=0.1))
    assert demand_of(Replay(str(source), disk=2), 1 << 41).read_pct == 0
    with pytest.raises(TraceError, match="needs a drive"):
        demand_of(Replay(str(source), disk=2), 1 << 30)
    with pytest.raises(TraceError, match="no I/O of disk 7"):
        demand_of(Replay(str(source), disk=7), 1 << 30)


def test_several_disks_are_refused_until_one_is_picked(tmp_path: Path) -> None:
    source = written(tmp_path / "t.csv", msr_text() + msr_text(disk=2))
    out = tmp_path / "out"
    with pytest.raises(TraceError, match=r"several disks \(0, 2\).*--disk"):
        convert(open_trace(source), out, 1 << 30)
    assert convert(open_trace(source), out, 1 << 30, disk=2).ios == 4
    with pytest.raises(TraceError, match="no I/O of disk 7"):
        convert(open_trace(source), out, 1 << 30, disk=7)


def test_times_never_go_backwards_in_what_fio_replays(tmp_path: Path) -> None:
    source = written(tmp_path / "t.csv", msr_text([MSR[0], MSR[2], MSR[1], MSR[3]]))
    assert described(source).out_of_order == 1
    convert(open_trace(source), tmp_path / "out", 1 << 30)
    lines = (tmp_path / "out").read_text().splitlines()[1:]
    times = [int(line.split()[0]) for line in lines]
    assert times == sorted(times)
    assert described(tmp_path / "out").out_of_order == 0


def test_the_commands(tmp_path: Path) -> None:
    source = written(tmp_path / "t.csv", msr_text() + "junk\n")
    shown = labctl("trace", "describe", str(source))
    assert shown.returncode == 0, shown.stderr
    assert max(map(len, shown.stdout.splitlines()[1:])) <= 80
    assert "1 bad line, left out" in shown.stdout
    data = json.loads(labctl("trace", "describe", str(source), "--json").stdout)
    assert data["slow_shares"] == {"10": 0.5, "100": 0.25}
    csv_text = labctl("trace", "describe", str(source), "--csv").stdout
    assert "size,4K,2,2,0,8192" in csv_text
    out = str(tmp_path / "out")
    refused = labctl("trace", "convert", str(source), out, "--drive-size", "1m")
    assert refused.returncode == 2 and "--wrap" in refused.stderr
    done = labctl("trace", "convert", str(source), out, "--drive-size", "1m", "--wrap")
    assert done.returncode == 0 and "4 I/Os, 1 of them folded" in done.stdout
    wrong = labctl("trace", "convert", str(source), out, "--drive-size", "big")
    assert wrong.returncode == 2 and "--drive-size" in wrong.stderr


NUMBERS = st.one_of(st.integers(0, 10**18 - 1).map(str), st.text("0123456789ab-.", max_size=22))


@settings(deadline=None)
@given(st.lists(NUMBERS, min_size=1, max_size=20))
def test_whole_numbers_as_python_reads_them(cells: list[str]) -> None:
    block = np.frombuffer((",".join(cells) + "\n").encode(), np.uint8)
    lines = split_commas(block)
    values, good = integers(block, lines.begin, lines.end)
    for cell, value, fine in zip(cells, values, good, strict=True):
        assert fine == (cell.isdigit() and len(cell) <= 18)
        assert not fine or value == int(cell)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 8 * 10**9), st.integers(0, 10**9 - 1)), min_size=1))
def test_seconds_to_the_nanosecond(pairs: list[tuple[int, int]]) -> None:
    cells = [f"{whole}.{part:09d}" if part else f"{whole}" for whole, part in pairs]
    block = np.frombuffer((",".join(cells) + "\n").encode(), np.uint8)
    lines = split_commas(block)
    values, good = nanoseconds(block, lines.begin, lines.end)
    assert good.all()
    assert values.tolist() == [whole * 10**9 + part for whole, part in pairs]


@given(st.text("ab \t\n", max_size=60))
def test_blanks_split_as_python_splits(text: str) -> None:
    block = np.frombuffer((text + "\n").encode(), np.uint8)
    lines = split_blanks(block)
    wanted = [line.split() for line in (text + "\n").split("\n")[:-1]]
    found = [
        [
            block[lines.begin[at] : lines.end[at]].tobytes().decode()
            for at in range(lines.first[i], lines.first[i] + lines.count[i])
        ]
        for i in range(len(lines))
    ]
    assert found == wanted
