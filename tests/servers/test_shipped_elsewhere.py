"""A run from elsewhere names servers and files; what is sent, where and with which secret, this
machine says: its site file, a rig of its own, or the person at the command line."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from labctl.config.site import SITE_VARIABLE
from labctl.sinks.influxdb.settings import TOKEN_VARIABLE
from labctl.sinks.mqtt.settings import PASSWORD_VARIABLE
from tests.forked_labctl import labctl
from tests.servers.influx_run import MadeRun
from tests.servers.mqtt_server import PASSWORD, USER, Listener, Mosquitto, mosquitto
from tests.servers.recorder import HttpRecorder, TcpRecorder, recording
from tests.unit.config.test_rig import RIG

SITE_TOKEN, PRECIOUS = "token-of-the-site", "content-of-a-precious-file"


@dataclass
class Place:
    """A person's machine, and a stranger's run on it. ``ours`` and ``theirs`` listen."""

    folder: Path
    ours: HttpRecorder
    theirs: HttpRecorder
    broker: TcpRecorder
    """The stranger's."""
    environment: dict[str, str] = field(default_factory=dict)

    def file(self, name: str, content: str) -> Path:
        file = self.folder / name
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_text(content)
        return file

    def site(self, text: str) -> None:
        self.file("site.toml", text)

    def rig(self, text: str, name: str = "bench") -> Path:
        """A rig of this machine."""
        return self.file(f"rigs/{name}.toml", f"{RIG}{text}")

    def record(self, rig_text: str) -> Path:
        return MadeRun(self.folder / "stranger", rig_text=f"{RIG}{rig_text}").whole().path

    def labctl(self, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "LABCTL_RIGS": str(self.folder / "rigs"),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "LABCTL_HOME": str(self.folder / "home"),
            SITE_VARIABLE: str(self.folder / "site.toml"),
            **self.environment,
        }
        try:
            return labctl(*words, cwd=cwd or self.folder, env=environment, timeout=20)
        except subprocess.TimeoutExpired as error:  # a server that it keeps on asking
            message = (error.stderr or b"").decode()
            return subprocess.CompletedProcess(error.args, 124, "", message)

    def nothing_received(self) -> None:
        """The stranger's servers received nothing."""
        assert (self.theirs.tokens, self.broker.received) == ([], [])


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with recording() as ours, recording() as theirs, TcpRecorder() as broker:
        made = Place(tmp_path, ours, theirs, broker)
        made.site("")
        yield made


def influx(url: str, more: str = "") -> str:
    return f'\n[sinks.influxdb]\nurl = "{url}"\nbucket = "b"\n{more}'


def mqtt(port: int, more: str = "") -> str:
    return f'\n[sinks.mqtt]\nhost = "127.0.0.1"\nport = {port}\n{more}'


def token_file(place: Place, content: str = SITE_TOKEN, name: str = "token") -> str:
    return f'token_file = "{place.file(name, content)}"\n'


@pytest.mark.parametrize("rig", ["known", "unknown"])
def test_runs_go_where_this_machine_says_with_its_token(place: Place, rig: str) -> None:
    """By the site file, or by the rig of this machine that has the record's name."""
    ours = influx(place.ours.url, token_file(place))
    (place.rig if rig == "known" else place.site)(ours)
    run = place.record(influx(place.theirs.url) + mqtt(place.broker.port, 'user = "u"\n'))
    done = place.labctl("ship", str(run))
    assert done.returncode == 0, done.stderr
    place.nothing_received()
    assert place.ours.tokens and set(place.ours.tokens) == {f"Token {SITE_TOKEN}"}


@pytest.mark.parametrize(
    "named",
    ["/absolute", "relative", "~/of-the-user", "/link", "/fifo", "/folder", "$HOME/of-the-user"],
)
def test_no_file_that_a_record_names_is_opened(place: Place, named: str) -> None:
    """Neither for the stranger's server nor for ours. Who opens the FIFO does not come back."""
    precious = place.file("absolute", PRECIOUS)
    place.file("relative", PRECIOUS)
    place.file("of-the-user", PRECIOUS)
    (place.folder / "link").symlink_to(precious)
    (place.folder / "folder").mkdir()
    os.mkfifo(place.folder / "fifo")
    place.environment["HOME"] = str(place.folder)
    name = f"{place.folder}{named}" if named.startswith("/") else named
    keys = f'token_file = "{name}"\nca_file = "{name}"\n'
    login = f'user = "u"\npassword_file = "{name}"\n'
    run = place.record(influx(place.theirs.url, keys) + mqtt(place.broker.port, login))
    (run / "relative").write_text(PRECIOUS)
    alone = place.labctl("ship", str(run), cwd=run)
    assert alone.returncode == 2 and "--to" in alone.stderr, alone.stderr
    place.nothing_received()
    place.site(influx(place.ours.url))
    assert place.labctl("ship", str(run), cwd=run).returncode == 0
    place.nothing_received()
    assert set(place.ours.tokens) == {""}


@pytest.mark.parametrize(
    "site",
    [
        "",
        '[sinks.influxdb]\ntoken_file = "{file}"\n[sinks.mqtt]\npassword_file = "{file}"\n',
        '[sinks.influxdb]\norg = "lab"\n[sinks.mqtt]\nuser = "u"\n',
    ],
    ids=["no site", "files without an address", "names without an address"],
)
def test_secrets_without_an_address_stay_here(place: Place, site: str) -> None:
    place.site(site.format(file=place.file("secret", SITE_TOKEN)))
    place.environment |= {TOKEN_VARIABLE: SITE_TOKEN, PASSWORD_VARIABLE: SITE_TOKEN}
    run = place.record(influx(place.theirs.url) + mqtt(place.broker.port, 'user = "u"\n'))
    done = place.labctl("ship", str(run))
    assert done.returncode == 2 and "sinks." in done.stderr, done.stderr
    assert SITE_TOKEN not in done.stderr + done.stdout
    place.nothing_received()


@pytest.mark.long
def test_a_password_for_the_broker_stays_with_the_broker(place: Place) -> None:
    """The stranger's record says host and user; the site has both of its own."""
    with TcpRecorder() as own:
        secret = place.file("password", SITE_TOKEN)
        place.site(mqtt(own.port, f'user = "lab"\npassword_file = "{secret}"\n'))
        run = place.record(mqtt(place.broker.port, 'user = "theirs"\n'))
        place.labctl("ship", str(run))
        place.nothing_received()
        assert any(SITE_TOKEN.encode() in message for message in own.received)


@pytest.mark.skipif(mosquitto() is None, reason="mosquitto is not installed")
async def test_the_sites_broker_gets_a_strangers_run(place: Place) -> None:
    import asyncio

    server = Mosquitto(place.folder / "broker", with_password=True)
    server.start()
    try:
        place.site(mqtt(server.port, f'user = "{USER}"\n'))
        place.environment[PASSWORD_VARIABLE] = PASSWORD
        run = place.record(mqtt(place.broker.port, 'user = "theirs"\n'))
        async with Listener(server, username=USER, password=PASSWORD) as listener:
            done = await asyncio.to_thread(place.labctl, "ship", str(run))
            assert done.returncode == 0, done.stderr
            assert any(topic.startswith("labctl/bench/") for topic, _, _ in listener.received)
        place.nothing_received()
    finally:
        server.kill()


def test_a_rig_that_is_named_says_where(place: Place) -> None:
    run = place.record(influx(place.theirs.url))
    rig = place.rig(influx(place.ours.url, token_file(place)).replace("bench", "x"), "elsewhere")
    rig.write_text(rig.read_text().replace('name = "bench"', 'name = "another"'))
    for name in ("elsewhere", str(rig)):
        before = len(place.ours.tokens)
        done = place.labctl("ship", str(run), "--rig", name, "--from-start")
        assert done.returncode == 0, done.stderr
        assert set(place.ours.tokens[before:]) == {f"Token {SITE_TOKEN}"}
    place.nothing_received()


def test_a_rig_inside_of_the_record_is_not_this_machines(place: Place) -> None:
    run = place.record("")
    (run / "rigs").mkdir()
    (run / "rigs" / "bench.toml").write_text(RIG + influx(place.theirs.url))
    place.environment[TOKEN_VARIABLE] = SITE_TOKEN
    assert place.labctl("ship", ".", cwd=run).returncode == 2
    place.nothing_received()


def test_an_address_that_is_typed_gets_what_belongs_to_it(place: Place) -> None:
    """The site's token file is for the site's server; the variable is the person's who types."""
    run = place.record(influx(place.theirs.url, token_file(place, PRECIOUS, "precious")))
    place.site(influx(place.ours.url, token_file(place)))
    with recording() as typed:
        done = place.labctl("ship", str(run), "--to", f"{typed.url}?bucket=b")
        assert done.returncode == 0, done.stderr
        assert set(typed.tokens) == {""}
        place.environment[TOKEN_VARIABLE] = "typed"
        place.labctl("ship", str(run), "--to", f"{typed.url}?bucket=b", "--from-start")
        assert set(typed.tokens) == {"", "Token typed"}
    done = place.labctl("ship", str(run), "--to", f"{place.ours.url}?bucket=other")
    assert set(place.ours.tokens) == {f"Token {SITE_TOKEN}"}
    place.nothing_received()


def test_a_rigs_other_server_does_not_get_the_sites_token(place: Place) -> None:
    place.site(influx(place.ours.url, token_file(place)))
    run = place.record("")
    with recording() as others:
        place.rig(influx(others.url))
        assert place.labctl("ship", str(run)).returncode == 0
        assert set(others.tokens) == {""}
        place.rig(influx(others.url, token_file(place, "of-the-rig", "other")))
        assert place.labctl("ship", str(run), "--from-start").returncode == 0
        assert set(others.tokens) == {"", "Token of-the-rig"}
    assert place.ours.tokens == []


def test_a_redirection_gets_no_token(place: Place) -> None:
    """Not even on the same machine: another port is another server."""
    with recording(redirect_to=place.theirs.url) as moved:
        place.site(influx(moved.url, token_file(place)))
        run = place.record("")
        done = place.labctl("ship", str(run))
        assert set(moved.tokens) == {f"Token {SITE_TOKEN}"}
        assert "307" in done.stderr
    place.nothing_received()


def test_a_bundle_is_only_read(place: Place) -> None:
    """It cannot be shipped, and what its record names is not asked when it is verified."""
    run = place.record(influx(place.theirs.url, 'token_file = "/dev/tty"\n'))
    bundle = place.folder / "run.labctl.zip"
    assert place.labctl("bundle", str(run), "-o", str(bundle)).returncode == 0
    done = place.labctl("verify", str(bundle))
    assert done.returncode == 0, done.stdout + done.stderr
    assert place.labctl("ship", str(bundle)).returncode == 1
    place.nothing_received()


def test_what_is_kept_until_it_was_shipped_is_decided_without_asking_anybody(place: Place) -> None:
    run = place.record(influx(place.theirs.url, token_file(place, PRECIOUS, "precious")))
    for file in run.rglob("*"):
        os.utime(file, (1e9, 1e9))
    message = place.labctl("tidy", "--runs", str(run.parent), "--delete-after", "1").stdout
    assert "labctl ship" in message and run.exists()
    place.rig("")
    place.labctl("tidy", "--runs", str(run.parent), "--delete-after", "1")
    assert not run.exists(), "the rig of this machine sends nothing"
    place.nothing_received()


@pytest.mark.long
def test_another_broker_than_the_sites_does_not_get_its_password(place: Place) -> None:
    secret = place.file("password", SITE_TOKEN)
    place.site(mqtt(1, f'user = "lab"\npassword_file = "{secret}"\n'))
    place.labctl("status", "--broker", f"127.0.0.1:{place.broker.port}")
    assert place.broker.received and not any(
        SITE_TOKEN.encode() in it for it in place.broker.received
    )
