"""The dialogue with QIS, written down once: the driver, the simulated QIS and the real one are
played against it.

``HELP`` is from the ``help.txt`` that comes with QIS 1.55.1 (its examples, with the names of one
module throughout), ``WITHOUT_MODULE`` was recorded from QIS 1.55.1 on Debian 12, without a module
and without a network, on its TCP port.
"""

from __future__ import annotations

import time
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from instruments import drivers
from instruments.drivers.quarch_qis import PORT, QisSession, parse_modules
from instruments.drivers.quarch_readings import StripeReadings
from instruments.drivers.quarch_stream import Stripes, parse_header, parse_state, parse_stripes
from instruments.errors import ConnectionLost, NoAnswer, ProtocolError, SettingRefused
from instruments.reading import EPOCH_NS, Quantity, Status
from instruments.transports.tcp_line import TcpLine
from tests.protocol.exchange import Clock, ExpectedExchange
from tests.unit.instruments.drivers.test_drivers_table import SETTINGS

GREETING: Final = b"$t v1.55.1 Mon Nov 23 16:27:23 UTC 2026\r\n"
WITHOUT_MODULE: Final = (
    ("$version", b"v1.55.1\r\n>"),
    ("$list", b"No Devices Found\r\n\r\n>"),
    ("$list details", b"No Devices Found\r\n\r\n>"),
    ("$scan tcp::127.0.0.1", b"No Quarch Device Found at: 127.0.0.1\r\n>"),
    ("hello?", b"No Target Device Specified\r\n>"),
    ("stream?", b"No Target Device Specified\r\n>"),
    ("$nonsense", b"No Target Device Specified\r\n>"),
    (
        "usb::qtl1999-99-999 rec stream",
        b"Device USB::qtl1999-99-999 Invalid or No Longer Valid\r\n>",
    ),
    (
        "tcp::qtl1999-99-999 stream text all",
        b"Device TCP::qtl1999-99-999 Invalid or No Longer Valid\r\n>",
    ),
    ("", b">"),
)
"""What QIS 1.55.1 answered, byte for byte."""

HEADER: Final = b"""<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<header>
	<version>V3</version>
	<devicePeriod>4096us</devicePeriod>
	<mainPeriod>4096uS</mainPeriod>
	<legacyVersion>5</legacyVersion>
	<legacyFormat>15</legacyFormat>
	<legacyAverage>10</legacyAverage>
	<channels>
		<channel><name>Status</name><group>status</group><units>NA</units>
			<maxTValue>0</maxTValue><dataPosition>0</dataPosition></channel>
		<channel><name>5V</name><group>voltage</group><units>mV</units>
			<maxTValue>16384</maxTValue><dataPosition>1</dataPosition></channel>
		<channel><name>5V</name><group>current</group><units>uA</units>
			<maxTValue>16777216</maxTValue><dataPosition>2</dataPosition></channel>
		<channel><name>12V</name><group>voltage</group><units>mV</units>
			<maxTValue>16384</maxTValue><dataPosition>3</dataPosition></channel>
		<channel><name>12V</name><group>current</group><units>uA</units>
			<maxTValue>16777216</maxTValue><dataPosition>4</dataPosition></channel>
	</channels>
</header>""".replace(b"\n", b"\r\n")
STRIPES: Final = b"0 947 59 948 -26\r\n4096 947 57 948 -27\r\n8192 947 58 948 -26\r\neof"
HELP: Final = (
    ("hello?", rb"\w+ Programmable Power Module \+Triggering"),
    ("stream mode header v3", rb"OK"),
    ("stream mode resample off", rb"OK"),
    ("record:trigger:mode manual", rb"OK"),
    ("record:averaging 1k", rb"OK"),
    ("rec stream", rb"OK"),
    ("stream?", rb"Running\r\nStripes Buffered: \d+ of \d+"),
    (
        "stream text header",
        rb'<\?xml version="1\.0".*<devicePeriod>4096us</devicePeriod>.*</header>',
    ),
    ("stream text 1", rb"(\d+( -?\d+){4}(\r\neof)?|eof)"),
    ("rec stop", rb"OK"),
    ("stream?", rb"Stopped: User\r\nStripes Buffered: \d+ of \d+"),
)
"""What the help and the vendor's notes AN-025 and AN-026 have a module behind QIS answer."""
MODULE: Final = "usb::QTL1999-02-020"
LISTED: Final = (
    b"1) usb::QTL1999-02-020 Port:9 Stream:Yes Name:XLC Programmable Power Module\r\n"
    b"2) rest::QTL1999-02-020 IP:192.168.1.90 Port:80 NBName:1999-02-020 Stream:Yes "
    b"Name:HD Programmable Power Module +Triggering\r\n"
)


def said(command: str) -> bytes:
    """As it is sent to the module."""
    return f"{MODULE} {command}\r\n".encode()


def prompt(answer: bytes) -> bytes:
    return answer + b"\r\n>"


OPENING: Final[tuple[tuple[bytes, bytes | Exception], ...]] = (
    (b"$list details\r\n", prompt(LISTED)),
    (said("hello?"), prompt(b"XLC Programmable Power Module")),
)
STARTING: Final[tuple[tuple[bytes, bytes | Exception], ...]] = (
    (said("stream?"), prompt(b"Stopped: User\r\nStripes Buffered: 0 of 8388608")),
    (said("stream mode header v3"), prompt(b"OK")),
    (said("stream mode resample off"), prompt(b"OK")),
    (said("record:trigger:mode manual"), prompt(b"OK")),
    (said("record:averaging 1k"), prompt(b"OK")),
    (said("rec stream"), prompt(b"OK")),
    (said("stream text header"), prompt(HEADER)),
)
TAKE: Final = said("stream text all")


def module(line: ExpectedExchange, **changes: Any) -> Any:
    settings = SETTINGS["quarch"] | {"rails": ["12V", "5V"], "stripe_us": 4096} | changes
    return drivers.create("ppm", "quarch", settings, Clock(10**9, 10**6), line)


def begun(*steps: tuple[bytes, bytes | Exception], **changes: Any) -> tuple[Any, ExpectedExchange]:
    line = ExpectedExchange(*OPENING, *STARTING, *steps, arriving=[GREETING])
    ppm = module(line, **changes)
    ppm.open()
    ppm.start()
    return ppm, line


def test_the_dialogue_of_the_help() -> None:
    ppm, line = begun((TAKE, prompt(STRIPES)), (said("rec stop"), prompt(b"OK")))
    with line:
        batch = ppm.read()
        ppm.close()
    assert line.closed == 1
    values = {block.channel: block.values.tolist() for block in batch.blocks}
    assert values["voltage_5V"] == pytest.approx([0.947] * 3)
    assert values["current_12V"] == pytest.approx([-26e-6, -27e-6, -26e-6])
    assert batch.blocks[0].t_ns.tolist() == [2_048_000, 6_144_000, 10_240_000]
    assert batch.clock_pairs[0].device_ns == 12_288_000, "the end of the newest stripe"
    assert batch.statuses == ()


def test_the_identity_is_that_of_qis() -> None:
    line = ExpectedExchange(*OPENING, arriving=[GREETING])
    identity = module(line).open()
    assert (identity.maker, identity.model) == ("Quarch", "XLC Programmable Power Module")
    assert identity.serial == "QTL1999-02-020" and identity.notes == ("QIS v1.55.1",)


def test_an_answer_may_come_in_pieces() -> None:
    whole = prompt(STRIPES)
    ppm, line = begun()
    line._steps = [(TAKE, whole[:20])]
    line._unread = []
    pieces = [whole[20:21], whole[21:-2], whole[-2:]]
    answer = line.read_some
    line.read_some = lambda timeout_s: answer(timeout_s) or (pieces.pop(0) if pieces else b"")  # type: ignore[method-assign]
    assert len(ppm.read().blocks[0]) == 3


def test_an_answer_without_an_end_is_none() -> None:
    asked = time.monotonic()

    def endless(timeout_s: float) -> bytes:
        assert time.monotonic() < asked + 10, "it goes on for ever"
        return b"0 1 2 3 4\r\n"

    line = ExpectedExchange((b"$list details\r\n", None))
    line.read_some = endless  # type: ignore[method-assign]
    with pytest.raises(NoAnswer, match=r"no whole answer to \$list details"):
        QisSession("ppm", line).ask("$list details", 0.05)


@pytest.mark.parametrize("server", ["lab..pc", f"{'a' * 64}.lab"])
def test_a_name_that_no_host_can_have_is_no_connection(server: str) -> None:
    with pytest.raises(ConnectionLost, match="cannot connect to"):
        TcpLine("ppm", server, PORT).open()


@pytest.mark.parametrize(
    ("listed", "greeting", "wanted", "words"),
    [
        (b"No Devices Found\r\n", GREETING, ConnectionLost, "it sees no module"),
        (LISTED.replace(b"-020", b"-021"), GREETING, ConnectionLost, "it sees usb::QTL1999-02-021"),
        (LISTED, b"SSH-2.0-OpenSSH_9.2\r\n", ProtocolError, "no QIS: it greets with"),
        (NoAnswer("nothing"), GREETING, NoAnswer, "nothing"),
        ("Pakete\xb5\r\n".encode("latin-1"), GREETING, ProtocolError, "answered .list details"),
    ],
)
def test_what_is_not_the_module(
    listed: bytes | Exception, greeting: bytes, wanted: type[Exception], words: str
) -> None:
    answer = prompt(listed) if isinstance(listed, bytes) else listed
    line = ExpectedExchange((b"$list details\r\n", answer), arriving=[greeting])
    with pytest.raises(wanted, match=words):
        module(line).open()


@pytest.mark.parametrize(
    ("place", "answer", "wanted", "words"),
    [
        (4, b"FAIL: 0x32", SettingRefused, "answered record:averaging 1k with 'FAIL: 0x32'"),
        (5, b"FAIL", ConnectionLost, "no stream begins: 'FAIL'"),
        (5, b"Device USB::QTL1999-02-020 Invalid or No Longer Valid", ConnectionLost, "plugged in"),
        (6, HEADER.replace(b"4096us", b"64us"), SettingRefused, "a stripe each 64 µs although"),
        (6, b"Version: 5\r\nFormat: 15\r\nAverage: 10", ProtocolError, "no V3 header"),
        (
            6,
            HEADER.replace(b">12V<", b">3V3<"),
            SettingRefused,
            "no volts of a rail 12V; it has 5V",
        ),
    ],
)
def test_what_cannot_begin(place: int, answer: bytes, wanted: type[Exception], words: str) -> None:
    steps = [*STARTING[:place], (STARTING[place][0], prompt(answer))]
    line = ExpectedExchange(*OPENING, *steps, arriving=[GREETING])
    ppm = module(line)
    ppm.open()
    with pytest.raises(wanted, match=words):
        ppm.start()


def test_stripes_that_are_missing_and_lines_that_are_none() -> None:
    text = b"0 1 2 3 4\r\n4096 1 2 3 4\r\n16384 1 2 3 4\r\n20480 1 2 \xb5 4\r\n24576 1 2 3 4\r\neof"
    ppm, _ = begun((TAKE, prompt(text)))
    batch = ppm.read()
    count = {
        status: sum(s.count for s in batch.statuses if s.status is status) for status in Status
    }
    assert (count[Status.UNREADABLE], count[Status.LOST]) == (1, 2), "none is counted twice"
    assert "20480 1 2 \\xb5 4" in batch.statuses[0].detail
    t_ns = np.concatenate([b.t_ns for b in batch.blocks if b.channel == "voltage_5V"])
    assert t_ns.tolist() == [2_048_000, 6_144_000, 18_432_000, 26_624_000]


def test_a_number_that_slipped_into_the_next_line_is_in_no_stripe() -> None:
    """All numbers together are as many as those of whole lines."""
    header = parse_header(HEADER.decode())
    text = b"0 1 2 3 4\r\n4096 1 2 3\r\n8192 9 1 2 3 4\r\n12288 1 2 3 4\r\neof"
    stripes = parse_stripes(text, header)
    assert stripes.rows[:, 0].tolist() == [0, 12288]
    assert (stripes.unreadable, stripes.sample) == (2, "4096 1 2 3")


def test_a_line_that_is_none_at_the_end_of_an_answer_is_missing_once() -> None:
    first = b"0 1 2 3 4\r\n4096 1 2 3 4\r\n8192 1 2 \xb5 4\r\neof"
    second = b"12288 1 2 3 4\r\n20480 1 2 3 4\r\neof"
    ppm, _ = begun((TAKE, prompt(first)), (TAKE, prompt(second)))
    found = [(s.status, s.count) for _ in range(2) for s in ppm.read().statuses]
    assert found == [(Status.UNREADABLE, 1), (Status.LOST, 1)]


def test_a_stream_that_ended_before_its_first_stripe_is_no_second_loss() -> None:
    header = parse_header(HEADER.decode())
    column = next(iter(header.columns.values()))
    ppm = module(ExpectedExchange())
    readings = StripeReadings(ppm.channels, 1, watts=False)
    rails = [(column, column)] * 2
    readings.begin(header, rails)
    rows = np.zeros((1, header.width))
    ms = 1_000_000
    readings.batch(Stripes(rows), 10 * ms)
    counts = []
    for host_ns in (10 * ms + 10 * header.period_ns, 10 * ms + 15 * header.period_ns):
        readings.begin(header, rails)
        (status,) = readings.lost_between(host_ns, "it stopped").statuses
        counts.append(status.count)
    assert counts == [10, 5]


def test_readings_are_means_of_stripes_without_a_gap() -> None:
    first = b"0 1000 0 0 0\r\n4096 3000 0 0 0\r\n8192 5000 0 0 0\r\neof"
    second = b"12288 7000 0 0 0\r\n16384 9000 0 0 0\r\n24576 1000 0 0 0\r\n28672 3000 0 0 0\r\neof"
    ppm, _ = begun((TAKE, prompt(first)), (TAKE, prompt(second)), average=2)
    blocks = [b for _ in range(2) for b in ppm.read().blocks if b.channel == "voltage_5V"]
    assert np.concatenate([b.values for b in blocks]).tolist() == [2.0, 6.0, 2.0]
    assert np.concatenate([b.t_ns for b in blocks]).tolist() == [4_096_000, 12_288_000, 28_672_000]


def test_a_stream_that_began_anew_is_a_new_epoch() -> None:
    ppm, _ = begun((TAKE, prompt(STRIPES)), (TAKE, prompt(STRIPES)))
    first, second = ppm.read(), ppm.read()
    assert first.blocks[0].t_ns[0] == 2_048_000
    assert second.blocks[0].t_ns[0] == EPOCH_NS + 2_048_000
    assert "its time went back" in second.statuses[0].detail


def test_watts_are_the_products_of_the_stripes() -> None:
    text = b"0 5000 1000000 0 0\r\n4096 5000 3000000 0 0\r\neof"
    watts = {"power_pct_of_reading": 2.0, "power_floor_watts": 0.03}
    ppm, _ = begun((TAKE, prompt(text)), average=2, rails=["5V"], **watts)
    batch = ppm.read()
    names = [block.channel for block in batch.blocks]
    assert names == ["voltage_5V", "current_5V", "power_5V"]
    assert [block.values.tolist() for block in batch.blocks] == [[5.0], [2.0], [10.0]]


def test_a_pam_names_its_channels_itself() -> None:
    text = HEADER.replace(b">5V<", b">3.3V<").replace(b">12V<", b">VIO_1V8<").decode()
    header = parse_header(text.replace("<units>mV", "<units>uV", 1))
    column = header.column("3.3V", Quantity.VOLTAGE)
    assert column is not None and (column.place, column.factor) == (1, 1e-6)
    assert header.column("vio_1v8", Quantity.CURRENT) is not None
    assert header.column("3V3", Quantity.VOLTAGE) is None
    assert header.names == ("3.3V", "VIO_1V8")


def test_a_module_is_found_in_the_list_but_not_over_rest() -> None:
    assert parse_modules(LISTED.decode()) == {MODULE: "XLC Programmable Power Module"}
    assert parse_modules("No Devices Found") == {}


def test_the_state_of_a_stream() -> None:
    running = parse_state("Running\r\nStripes Buffered: 1167 of 8388608")
    assert running.running and not running.stopped and running.buffered == 1167
    user = parse_state("Stopped: User\r\nStripes Buffered: 94 of 8388608")
    assert user.stopped and not user.overran and user.buffered == 94
    assert parse_state("Stopped: buffer overrun").overran


@given(noise=st.binary(max_size=200))
def test_noise_is_no_stripe(noise: bytes) -> None:
    header = parse_header(HEADER.decode())
    stripes = parse_stripes(noise, header)
    assert stripes.rows.shape[1] == header.width and np.isfinite(stripes.rows).all()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<header/>",
        HEADER.decode().replace("uS", "x").replace("us", "x"),
        HEADER.decode().replace("mV", "x").replace("uA", "x"),
    ],
)
def test_a_header_without_what_is_needed_is_refused(text: str) -> None:
    with pytest.raises(ProtocolError):
        parse_header(text)


@pytest.mark.parametrize(
    "changes",
    [
        {"resource": "QTL1999-02-020"},
        {"resource": "usb::a\r\nrec stop"},
        {"resource": "rest::QTL1999-02-020"},
        {"server": "host:0"},
        {"server": "host:70000"},
        {"server": "a b"},
        {"rails": []},
        {"rails": ["3.3V", "3_3V"]},
        {"stripe_us": 5},
        {"stripe_us": 262_144},
        {"average": 0},
        {"power_floor_watts": 0.1},
    ],
)
def test_settings_that_cannot_be(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(changes)).partition("_floor")[0]):
        drivers.settings_model("quarch").model_validate(SETTINGS["quarch"] | changes)


def test_each_averaging_is_worded_as_the_module_has_it() -> None:
    from instruments.drivers.quarch import AVERAGING

    # HwAveraging of QTL1999-02.xml, Quarch Power Studio
    words = "0 2 4 8 16 32 64 128 256 512 1k 2k 4k 8k 16k 32k"
    assert " ".join(AVERAGING.values()) == words
    assert list(AVERAGING)[-1] == 4 * 32 * 1024
