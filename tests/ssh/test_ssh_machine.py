"""The questions to a machine, over a real sshd: the same answers as from this machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from labctl.capture.host.drive_host import LocalHost
from labctl.capture.host.machine import LocalMachine
from labctl.capture.host.remote_host import RemoteHost
from labctl.capture.host.ssh import HostRefused, HostUnreachable, SshMachine
from labctl.capture.identity.node import stat_path
from labctl.errors import NOT_NOW, RunFailed
from labctl.record.timebase import Timebase
from tests.ssh.sshd import HOST, Sshd


def test_programs_files_and_paths_are_those_of_the_local_machine(
    sshd: Sshd, tmp_path: Path
) -> None:
    """Over one connection for each question; quotes, spaces and bytes that are no text survive."""
    folder = tmp_path / "a 'strange' folder"
    folder.mkdir()
    (folder / "temp1_input").write_text("41850\n")
    (folder / "temp2_input").write_bytes(b"\x00\xffno newline")
    (folder / "empty").write_text("")
    lines = ("one\\n\n", " \tindented  \n", "-n\n", "two\nlines\n", "blank\n\n", "begun\nno end")
    for number, text in enumerate(lines):
        (folder / f"line{number}").write_text(text)
    (tmp_path / "link").symlink_to(folder / "temp1_input")
    remote, local = SshMachine(HOST), LocalMachine()
    patterns = [
        f"{folder}/temp*_input",
        f"{folder}/empty",
        f"{folder}/line*",
        f"{tmp_path}/link",
        "/no/such",
        "/",
    ]
    texts = remote.read_texts(patterns)
    assert texts == local.read_texts(patterns)
    assert len(texts) == 4 + len(lines)
    for path in (f"{tmp_path}/link", "/no/such", "/dev/null"):
        assert remote.resolve(path) == local.resolve(path)
    for argv in (
        ["printf", "%s|", "two words", "$HOME", "it's", "*", ""],
        ["sh", "-c", "echo out; echo err >&2; exit 3"],
        ["sh", "-c", "exit 255"],
        ["printf", r"\377\000\200\n\r\n"],
    ):
        assert remote.run(argv) == local.run(argv)
    assert remote.run(["printf", r"\377\000\200\n\r\n"]).raw == b"\xff\x00\x80\n\r\n"
    assert remote.run(["no-such-program"]).exit_code == 127
    assert remote.run(["sleep", "20"], timeout_s=1.0).exit_code == 124


NOISY = (
    "echo Welcome; echo 'ready 12 /tmp'; echo 'clock 1 2 3'; echo noise >&2; "
    'exec sh -c "$SSH_ORIGINAL_COMMAND"'
)


async def assert_it_connects() -> None:
    host = RemoteHost(HOST, Timebase().now_ns)
    try:
        await host.connect()
        assert len(host.boot_id) == 36
        before, load = await LocalHost(Timebase()).sample_load(), await host.sample_load()
        after = await LocalHost(Timebase()).sample_load()
        assert load is not None and load.has_counter == before.has_counter
        # within seconds of processors' time: iowait may count backwards (proc_stat(5))
        assert load.all_ticks == pytest.approx(after.all_ticks, abs=100 * 60)
        assert (before.waiting_us or 0) <= (load.waiting_us or 0) <= (after.waiting_us or 0)
    finally:
        await host.close()


async def test_what_a_login_prints_is_not_taken_for_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a .bashrc does that greets everybody."""
    with Sshd(tmp_path / "sshd", login=NOISY) as server:
        monkeypatch.setenv("LABCTL_SSH_CONFIG", str(server.config))
        machine, local = SshMachine(HOST, tools=str(tmp_path)), LocalMachine(str(tmp_path))
        argv = ["sh", "-c", 'echo out; echo err >&2; echo "${PATH%%:*}"; exit 3']
        assert machine.run(argv) == local.run(argv)
        assert machine.read_texts(["/proc/sys/kernel/ostype"]) == local.read_texts(
            ["/proc/sys/kernel/ostype"]
        )
        await assert_it_connects()


@pytest.mark.parametrize("shell", ["dash -c", "busybox sh -c", "fish -c"])
async def test_the_login_shell_may_be_another_than_bash(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which(shell.split()[0]) is None:
        pytest.skip(f"no {shell.split()[0]} here")
    with Sshd(tmp_path / "sshd", login=f'exec {shell} "$SSH_ORIGINAL_COMMAND"') as server:
        monkeypatch.setenv("LABCTL_SSH_CONFIG", str(server.config))
        machine, local = SshMachine(HOST), LocalMachine()
        words = ["a b", "'q'", '"d"', "$HOME", "\\n", "!x", "*", "é", "", "a\nb"]
        argv = ["sh", "-c", 'printf "%s|" "$@"; exit 3', "sh", *words]
        assert machine.run(argv) == local.run(argv)
        paths = ["/proc/sys/kernel/ostype", "/sys/class/block/*/size"]
        assert machine.read_texts(paths) == local.read_texts(paths)
        assert stat_path("/dev/null", machine) == stat_path("/dev/null", local)
        await assert_it_connects()


async def test_an_account_that_is_closed_says_so_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = "echo This account is currently not available.; exit 1"
    with Sshd(tmp_path / "sshd", login=closed) as server:
        monkeypatch.setenv("LABCTL_SSH_CONFIG", str(server.config))
        host = RemoteHost(HOST, Timebase().now_ns)
        with pytest.raises(RunFailed, match="account is currently not available") as refused:
            await host.connect()
        await host.close()
        assert len(str(refused.value).splitlines()) == 1


def test_files_that_cannot_be_read_are_absent(sshd: Sshd) -> None:
    unreadable = "/proc/self/mem"  # there, and reading it from its begin fails
    assert SshMachine(HOST).read_texts([unreadable, "/proc/self/comm"]).keys() == {
        "/proc/self/comm"
    }


async def test_a_host_key_that_changed_is_never_called_one_to_be_accepted(sshd: Sshd) -> None:
    sshd.trust_host_key((sshd.directory / "user_key.pub").read_text())
    host = RemoteHost(HOST, Timebase().now_ns)
    try:
        with pytest.raises(HostRefused, match=r"host key has changed.*ssh-keygen -R"):
            await host.connect()
    finally:
        await host.close()


def test_what_is_wrong_is_one_message_that_says_what_to_do(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = SshMachine(HOST)
    other = (sshd.directory / "user_key.pub").read_text()
    sshd.trust_host_key(other)
    with pytest.raises(HostRefused, match=r"host key has changed.*ssh-keygen -R"):
        machine.run(["true"])
    (sshd.directory / "known_hosts").write_text("")
    with pytest.raises(HostRefused, match="host key is not known here"):
        machine.run(["true"])
    sshd.trust_host_key()
    (sshd.directory / "authorized_keys").write_text("")
    with pytest.raises(HostRefused, match=r"refuses the login.*ssh-copy-id"):
        machine.run(["true"])
    with pytest.raises(HostRefused, match="no such host name"):
        SshMachine("no-such-host.invalid").run(["true"])
    sshd.stop()
    with pytest.raises(HostUnreachable, match="is sshd running there") as caught:
        machine.read_texts(["/proc/version"])
    assert caught.value.exit_code == NOT_NOW
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostRefused, match="install the OpenSSH client"):
        machine.run(["true"])
    assert os.environ["PATH"] == str(tmp_path)
