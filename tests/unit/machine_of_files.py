"""A machine as data: its files lie in a directory, its programs print what was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from labctl.capture.host.machine import Completed

BLOCK_DEVICE, CHARACTER_DEVICE, REGULAR, DIRECTORY = 0o060660, 0o020660, 0o100644, 0o040755


class MachineOfFiles:
    """Answers from ``root``; ``programs`` by the beginning of their command line."""

    def __init__(self, root: Path) -> None:
        self.root = root
        nothing = Completed(0, "", "")
        self.programs = {"sh -c stat": nothing, "sh -c find": nothing}
        self.links: dict[str, str] = {}
        self.nodes: dict[str, tuple[int, str]] = {}
        self.asked: list[str] = []

    def run(self, argv: Sequence[str], timeout_s: float = 15.0) -> Completed:
        command = " ".join(argv)
        self.asked.append(command)
        if argv[0] == "stat":
            lines = [self._stat(path) for path in argv[argv.index("--") + 1 :]]
            found = "".join(filter(None, lines))
            return Completed(0 if all(lines) else 1, found, "")
        begin = max((key for key in self.programs if command.startswith(key)), key=len, default="")
        return self.programs[begin] if begin else Completed(127, "", f"{argv[0]}: not found")

    def _stat(self, path: str) -> str:
        found = self.nodes.get(self.links.get(path, path))
        if found is None:
            return ""
        mode, number = found
        major, minor = (int(part) for part in number.split(":"))
        return f"{mode:x} {major:x} {minor:x} 5 0 7 {path}\n"

    def read_texts(self, paths_or_globs: Sequence[str]) -> dict[str, str]:
        found = {}
        for pattern in paths_or_globs:
            for file in self.root.glob(pattern.lstrip("/")):
                if file.is_file():
                    name = f"/{file.relative_to(self.root)}"
                    found[name] = file.read_bytes().decode("utf-8", "replace")
        return found

    def resolve(self, path: str) -> str | None:
        return self.links.get(path, path if path in self.nodes else None)

    def write(self, path: str, text: str | bytes) -> None:
        """Put a file where the machine has it."""
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())

    def add_disk(self, name: str, number: str, size_bytes: int = 1 << 30, **files: str) -> None:
        """A disk; ``files`` below its directory, ``__`` for ``/``."""
        self.nodes[f"/dev/{name}"] = (BLOCK_DEVICE, number)
        folder = f"/sys/class/block/{name}"
        self.write(f"{folder}/dev", f"{number}\n")
        self.write(f"{folder}/size", f"{size_bytes // 512}\n")
        for path, text in files.items():
            self.write(f"{folder}/{path.replace('__', '/')}", text + "\n")

    def add_partition(self, disk: str, name: str, number: str) -> None:
        """A partition of a disk."""
        self.add_disk(name, number)
        for folder in (f"/sys/class/block/{name}", f"/sys/class/block/{disk}/{name}"):
            self.write(f"{folder}/partition", "1\n")

    def stack(self, upper: str, *lower: str) -> None:
        """``upper`` stands on ``lower``: dm, md or bcache, as sysfs links them."""
        for name in lower:
            for path, other in (
                (f"{name}/holders/{upper}", upper),
                (f"{upper}/slaves/{name}", name),
            ):
                number = self.nodes[f"/dev/{other}"][1]
                self.write(f"/sys/class/block/{path}/dev", f"{number}\n")

    def mount(
        self,
        point: str,
        number: str,
        source: str,
        kind: str = "ext4",
        options: str = "rw",
        process: int = 1,
    ) -> None:
        """A mount that ``process`` has in its namespace."""
        path = f"/proc/{process}/mountinfo"
        before = self.read_texts([path]).get(path, "")
        line = f"30 1 {number} / {point} rw,relatime shared:1 - {kind} {source} {options}\n"
        self.write(path, before + line)
        if process == 1:
            self.write("/proc/self/mountinfo", before + line)
        else:
            listed = f"4026531840 /proc/1/ns/mnt\n40265318{process} /proc/{process}/ns/mnt\n"
            self.programs["sh -c stat"] = Completed(0, listed, "")
