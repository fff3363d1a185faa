"""What the texts of a drive may be: they reach fio's job, command lines and the names of files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labctl.config.rig import parse_rig
from labctl.config.rig_file import Drive
from labctl.errors import ConfigurationError
from labctl.printable import ALLOWED
from tests.unit.config.test_rig import RIG, mistakes


def rig_with(**keys: object) -> str:
    """The rig, its drive's keys by their TOML values (of which JSON's are some)."""
    host = f"host = {json.dumps(keys.pop('host'))}\n" if "host" in keys else ""
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in keys.items())
    table = RIG.replace('target = "/dev/nvme9n9"\nengine = "libaio"', lines)
    assert table != RIG
    return host + table


OF_FIO = [
    "/tmp/x/link;x",
    "/tmp/x/link ;x",
    "/tmp/../dev/loop0;x",
    "//dev/loop0;x",
    "/dev/loop0;x",
    "/tmp/x/file#",
    "/tmp/x/file #x",
    "/tmp/x/${NAME}",
    "${NAME}",
    "/tmp/x/$pagesize",
    "/tmp/x/$jobnum.$filenum",
    "/tmp/x/$",
    '"/tmp/x/file "',
    '/tmp/x/"file"',
    "/tmp/x/file\\:y",
    "/tmp/x/file\\",
]
BLANKS = [
    " /tmp/x/file",
    "/tmp/x/file ",
    "\t/tmp/x/file",
    "/tmp/x/file\t",
    "/tmp/x/file\r",
    "\u00a0/tmp/x/file",
    "/tmp/x/file\u00a0",
    "/tmp/x/file\u3000",
]
CONTROLS = [
    "/tmp/x/fresh\nfilename=${DEV}",
    "/tmp/x/fresh\nfilename=/dev/loop0",
    "/tmp/x/fresh\rfilename=/dev/loop0",
    "/tmp/x/fresh\nexec_prerun=touch EXECUTED && echo labctl-held >&2 && read _",
    "/tmp/x/fresh\n[other]\nfilename=/dev/loop0",
    "/tmp/x/fresh\ninclude /tmp/x/job",
    "/tmp/x/a\tb",
    "/tmp/x/a\x0bb",
    "/tmp/x/a\x0cb",
    "/tmp/x/a\x1bb",
    "/tmp/x/a\x7fb",
    "/tmp/x/a\x85b",
    "/tmp/x/a\u2028b",
    "/tmp/x/a\u2029b",
    "/tmp/x/a\u00a0b",
    "/tmp/x/a\u202eb",
]


@pytest.mark.parametrize("target", [*OF_FIO, *BLANKS, *CONTROLS])
@pytest.mark.parametrize("key", ["target", "smart_device", "tools"])
def test_a_path_that_fio_or_a_person_may_read_otherwise_is_refused(key: str, target: str) -> None:
    """Each was once opened by fio as another file or device, or is of that kind."""
    others = {"target": "/dev/nvme9n9"} if key != "target" else {}
    found = mistakes(rig_with(**others, **{key: target}))
    assert list(found) == [f"drive.{key}"]
    message = found[f"drive.{key}"]
    assert ("an absolute path" in message or ALLOWED in message) and repr(target) in message


@pytest.mark.parametrize(
    "target",
    [
        "/dev/nvme0n1",
        "/dev/disk/by-path/pci-0000:01:00.0-nvme-1",
        "/mnt/my ssd/scratch file",
        "/mnt/été/スクラッチ",
        "/mnt/ssd/a,b=c+d@e~f%g'h(i)[j]{k}!l&m|n*o?p<q>r",
        "/tmp/../dev/loop0",
    ],
)
def test_a_path_may_be_anything_else(target: str) -> None:
    assert parse_rig(rig_with(target=target), "rig.toml").drive.target == target


@pytest.mark.parametrize("target", ["scratch", "./scratch", "../scratch", "-", "dev/sdb", "~/x"])
def test_a_relative_target_is_refused_with_the_absolute_form(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = mistakes(rig_with(target=target))["drive.target"]
    assert repr(str(Path(target).resolve())) in found
    there = mistakes(rig_with(target=target, host="bench"))["drive.target"]
    assert "an absolute path" in there and str(tmp_path) not in there


@pytest.mark.parametrize("key", ["smart_device", "tools"])
@pytest.mark.parametrize("value", ["nvme0", "-d", "--dev=/dev/sda", "../bin"])
def test_what_a_command_line_would_take_for_an_option_is_refused(key: str, value: str) -> None:
    found = mistakes(rig_with(target="/dev/nvme9n9", **{key: value}))
    assert "an absolute path" in found[f"drive.{key}"]


def test_a_folder_of_tools_is_one_folder() -> None:
    found = mistakes(rig_with(target="/dev/nvme9n9", tools="/opt/bin:/tmp/bin"))
    assert "':'" in found["drive.tools"]


@pytest.mark.parametrize("key", ["model", "serial"])
@pytest.mark.parametrize("value", ["S1\nx", "S1\x1b[31m", "S\x00", "S\u2028", "a\u202eb"])
def test_names_of_a_drive_are_one_line_of_text(key: str, value: str) -> None:
    found = mistakes(rig_with(target="/dev/nvme9n9", **{key: value}))
    assert ALLOWED in found[f"drive.{key}"]


@pytest.mark.parametrize(
    "target",
    [
        "nbd://box",
        "nbd://box:10809",
        "nbd://192.0.2.7:10810/export-1",
        "nbd://[2001:db8::7]:10809/a/b",
        "nbd+unix:///?socket=/run/drive.sock",
        "nbd+unix:///export?socket=/tmp/pytest-of-me/test_x0/drive.sock",
    ],
)
def test_nbd_addresses(target: str) -> None:
    assert parse_rig(rig_with(target=target, engine="nbd"), "rig.toml").drive.target == target


@pytest.mark.parametrize(
    "target",
    [
        "nonsense",
        "/dev/nbd0",
        "nbd://",
        "nbd://box:0",
        "nbd://box:65536",
        "nbd://box:10809 ",
        " nbd://box:10809",
        "nbd://box:10809;x",
        "nbd://box/${NAME}",
        "nbd://box/$ncpus",
        "nbd://box\nfilename=/dev/loop0",
        "nbd://box/e#f",
        "nbd://-box/",
        "nbd://user@box/",
        "nbd+unix://",
        "nbd+unix:///",
        "nbd+unix:///?socket=drive.sock",
        "nbd+unix:///?socket=/run/a b.sock",
        "nbd+unix:///?socket=/run/a+b.sock",
        "nbd+unix:///?socket=/run/a%20b.sock",
        "nbd+unix:///?socket=/run/a.sock&socket=/run/b.sock",
        "nbd+unix://box/?socket=/run/a.sock",
        "nbd+unix:///?socket=/run/a.sock\n",
        "nbd+unix:///?socket=/run/é.sock",
    ],
)
def test_what_is_no_nbd_address_is_refused(target: str) -> None:
    found = mistakes(rig_with(target=target, engine="nbd"))["drive.target"]
    assert "must look like nbd://HOST:PORT" in found or ALLOWED in found


def test_a_huge_value_is_reported_shortened() -> None:
    found = mistakes(rig_with(target="/" + "x" * 100_000))["drive.target"]
    assert len(found) < 600 and "4095 bytes" in found


def test_the_same_holds_for_each_of_several_drives() -> None:
    lines = '[drives.left]\ntarget = "/dev/loop0;x"\n[drives.right]\ntarget = "scratch"'
    text = RIG.replace('[drive]\ntarget = "/dev/nvme9n9"\nengine = "libaio"', lines)
    assert list(mistakes(text)) == ["drives.left.target"]
    found = mistakes(text.replace(";x", ""))
    assert list(found) == ["drives.right.target"]


def test_a_drive_is_never_made_of_another_text() -> None:
    with pytest.raises(ValueError, match="an absolute path"):
        Drive(target="/tmp/x/file;x")
    with pytest.raises(ConfigurationError):
        parse_rig(rig_with(target=""), "rig.toml")
