"""Where runs go: the rig's section, the site file, an address; mistakes; no secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from labctl.config.site import SITE_VARIABLE, site_file
from labctl.errors import ConfigurationError
from labctl.sinks.influxdb.settings import (
    TOKEN_VARIABLE,
    InfluxSettings,
    cursor_name,
    influx_settings,
)

SITE = '[sinks.influxdb]\nurl = "http://site:8086/"\norg = "lab"\nbucket = "runs"\n'


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "site.toml"
    file.write_text(SITE)
    monkeypatch.setenv(SITE_VARIABLE, str(file))
    return file


def test_the_site_file_holds_for_every_rig(site: Path) -> None:
    settings = influx_settings("", "bench")
    assert settings == InfluxSettings(url="http://site:8086", org="lab", bucket="runs")


def test_a_rig_replaces_key_by_key(site: Path) -> None:
    settings = influx_settings('[sinks.influxdb]\nbucket = "mine"\nbin_s = 0.5', "bench")
    assert settings is not None
    assert (settings.url, settings.bucket, settings.bin_ns) == (
        "http://site:8086",
        "mine",
        500_000_000,
    )


def test_an_address_replaces_both(site: Path) -> None:
    settings = influx_settings("", "bench", "https://other:1/influx?bucket=b%20c")
    assert settings is not None
    assert (settings.url, settings.org, settings.bucket) == ("https://other:1/influx", "lab", "b c")


FILES = 'token_file = "t"\nca_file = "c"\n'


@pytest.mark.parametrize(
    ("url", "same"),
    [
        ("http://site:8086", True),
        ("HTTP://SITE:8086/influx/", True),
        ("http://site", False),
        ("http://site:8087", False),
        ("https://site:8086", False),
        ("http://site.example:8086", False),
        ("http://other:8086", False),
        ("http://site:8086@other", False),
        ("http://site:99999", False),
    ],
)
def test_files_of_the_site_are_for_its_own_server(site: Path, url: str, same: bool) -> None:
    """Whether another one is named by the rig or at the command line."""
    site.write_text(SITE + FILES)
    for rig, to in ((f'[sinks.influxdb]\nurl = "{url}"', None), ("", url)):
        try:
            settings = influx_settings(rig, "bench", to)
        except ConfigurationError:
            assert not same
            continue
        assert settings is not None and settings.org == "lab"
        assert (settings.token_file, settings.ca_file) == (("t", "c") if same else (None, None))


def test_a_port_left_out_is_that_of_the_scheme(site: Path) -> None:
    for there, here in (("http://x", "http://x:80"), ("https://x:443", "https://x")):
        site.write_text(f'[sinks.influxdb]\nurl = "{there}"\nbucket = "b"\ntoken_file = "t"')
        settings = influx_settings("", "bench", here)
        assert settings is not None and settings.token_file == "t"


def test_a_typed_address_gets_the_files_of_whoever_named_it(site: Path) -> None:
    site.write_text(SITE + 'token_file = "of-site"\n')
    rig = '[sinks.influxdb]\nurl = "http://rig:8086"\ntoken_file = "of-rig"'
    for to, file in (
        (None, "of-rig"),
        ("http://rig:8086", "of-rig"),
        ("http://site:8086", "of-site"),
        ("http://third:8086", None),
    ):
        settings = influx_settings(rig, "bench", to)
        assert settings is not None and settings.token_file == file


def test_files_without_an_address_are_for_none(site: Path) -> None:
    site.write_text(f"[sinks.influxdb]\n{FILES}")
    settings = influx_settings('[sinks.influxdb]\nurl = "http://x"\nbucket = "b"', "bench")
    assert settings is not None and (settings.token_file, settings.ca_file) == (None, None)


def test_nothing_is_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(SITE_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert site_file() == tmp_path / "labctl" / "site.toml"
    assert influx_settings("name = 'bench'", "bench") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[sinks.influxdb]\nurl = "http://x"', "sinks.influxdb.bucket: is missing"),
        ('[sinks.influxdb]\nurl = "x:8086"\nbucket = "b"', "must be an address"),
        ('[sinks.influxdb]\nurl = "http://u:p@x"\nbucket = "b"', "must not hold a password"),
        ('[sinks.influxdb]\nurl = "http://x/?a=b"\nbucket = "b"', "address alone"),
        ('[sinks.influxdb]\nurl = "http://x"\nbucket = "b"\ntoken = "t"', "no such key"),
        ('[sinks.influxdb]\nurl = "http://x"\nbucket = "b"\nbin_s = 0', "greater than or equal"),
        ('[sinks]\ninfluxdb = "http://x"', "must be a table"),
        ("[sinks", "TOML"),
    ],
)
def test_mistakes_are_named(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SITE_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(ConfigurationError) as caught:
        influx_settings(text, "bench.toml")
    assert message in str(caught.value)
    assert "bench.toml" in str(caught.value)


def test_a_site_file_that_is_not_there_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SITE_VARIABLE, "nowhere.toml")
    with pytest.raises(ConfigurationError, match="no such file"):
        influx_settings("", "bench")


def test_an_address_with_more_than_org_and_bucket_is_a_mistake(site: Path) -> None:
    with pytest.raises(ConfigurationError, match="only org and bucket"):
        influx_settings("", "bench", "http://x?bucket=b&token=secret2")


def test_the_token_comes_from_the_environment_or_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, " of-environment ")
    settings = InfluxSettings(url="http://x", bucket="b")
    assert settings.token() == "of-environment"
    file = tmp_path / "token"
    file.write_text("of-file\n")
    assert settings.model_copy(update={"token_file": str(file)}).token() == "of-file"
    assert "of-" not in settings.destination


def test_every_server_and_grain_has_its_own_cursor() -> None:
    one = InfluxSettings(url="http://x", bucket="b")
    other = InfluxSettings(url="http://y", bucket="b")
    names = {
        cursor_name(one, None, False),
        cursor_name(one, None, True),
        cursor_name(one, "http://x", False),
        cursor_name(other, "http://y", False),
    }
    assert len(names) == 4
    assert "influxdb" in names
