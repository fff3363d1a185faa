"""What is asked of a machine never raises for what it finds."""

from __future__ import annotations

import os
from pathlib import Path

from labctl.capture.host.machine import NOT_EXECUTABLE, NOT_FOUND, TIMED_OUT, LocalMachine, run_tool

MACHINE = LocalMachine()


def test_a_program_that_ends_gives_its_code_and_what_it_printed() -> None:
    done = MACHINE.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (done.exit_code, done.stdout, done.stderr) == (3, "out\n", "err\n")


def test_a_missing_program_a_folder_and_one_that_hangs_are_exit_codes(tmp_path: Path) -> None:
    assert MACHINE.run(["no-such-program-anywhere"]).exit_code == NOT_FOUND
    assert run_tool(MACHINE, ["no-such-program-anywhere"]).exit_code == NOT_FOUND
    assert MACHINE.run([str(tmp_path)]).exit_code == NOT_EXECUTABLE
    assert MACHINE.run(["sleep", "60"], timeout_s=0.1).exit_code == TIMED_OUT


def test_output_that_is_no_text_is_no_exception() -> None:
    assert "x" in MACHINE.run(["printf", r"\377x"]).stdout


def test_files_are_read_by_pattern_and_the_unreadable_are_absent(tmp_path: Path) -> None:
    (tmp_path / "a1").write_text("one")
    (tmp_path / "a2").write_bytes(b"\xfftwo")
    (tmp_path / "a3").mkdir()
    os.mkfifo(tmp_path / "a4")
    (tmp_path / "a5").symlink_to(tmp_path / "gone")
    found = MACHINE.read_texts([f"{tmp_path}/a*", f"{tmp_path}/missing"])
    assert found == {f"{tmp_path}/a1": "one", f"{tmp_path}/a2": "\ufffdtwo"}


def test_settings_of_the_kernel_are_read() -> None:
    boot = "/proc/sys/kernel/random/boot_id"
    assert len(MACHINE.read_texts([boot])[boot]) == 37


def test_links_are_resolved_and_what_is_not_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "round").symlink_to("round")
    assert MACHINE.resolve(f"{tmp_path}/link") == str((tmp_path / "file").resolve())
    assert MACHINE.resolve(f"{tmp_path}/gone") is None
    assert MACHINE.resolve(f"{tmp_path}/round") is None
