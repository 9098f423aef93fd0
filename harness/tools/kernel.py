"""Read /proc and /sys: kernel version, configuration, modules, mounts, counters; set values."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ToolFailed
from harness.store.spec import Scalar
from harness.tools import proc

_NOTE_HEADER = 16


@dataclass(frozen=True, slots=True)
class Mount:
    """A line of /proc/self/mountinfo."""

    target: Path
    device: str  # major:minor
    source: str
    options: str  # of the mount and of the superblock


@dataclass(frozen=True, slots=True)
class Kernel:
    """The trees /proc and /sys below ``root``; tests use a captured tree."""

    root: Path = Path("/")

    def sys(self, *parts: str) -> Path:
        """Return a path below /sys."""
        return self.root.joinpath("sys", *parts)

    def version(self) -> tuple[int, int]:
        """Return the running kernel's version, as ``version_of`` does."""
        return version_of((self.root / "proc/sys/kernel/osrelease").read_text(encoding="ascii"))

    def configured(self, option: str) -> bool | None:
        """Whether the running kernel was built with an option such as ``CONFIG_XFS_RT``.

        None if the configuration is neither in /proc/config.gz nor in /boot.
        """
        text = self._configuration()
        if text is None or "\nCONFIG_" not in f"\n{text}":
            return None
        return re.search(rf"^{option}=[ym]$", text, re.MULTILINE) is not None

    def _configuration(self) -> str | None:
        try:
            with gzip.open(self.root / "proc/config.gz", "rt", encoding="utf-8") as file:
                return file.read()
        except (OSError, EOFError, zlib.error):
            pass  # /proc/config.gz is usually absent
        release = (self.root / "proc/sys/kernel/osrelease").read_text(encoding="ascii").strip()
        try:
            return (self.root / f"boot/config-{release}").read_text(encoding="utf-8")
        except OSError:
            return None

    def filesystem_available(self, name: str) -> bool:
        """Whether the file system is built in, loaded, or a module that modprobe can find.

        Nothing is loaded (modprobe -n).
        """
        listed = (self.root / "proc/filesystems").read_text(encoding="ascii").split()
        return name in listed or self.module_available(name)

    def module_available(self, name: str) -> bool:
        """Whether modprobe can find a module (or an alias); nothing is loaded."""
        if proc.which("modprobe") is None:
            return False
        return proc.run(["modprobe", "-n", "-q", name], timeout=30, check=False).ok

    def module_build_id(self, name: str) -> str | None:
        """Return the linker's hash of a loaded module (hexadecimal), or None if it has none.

        The file is an ELF note: three lengths and types of 4 bytes, "GNU", then the hash.
        """
        try:
            note = self.sys("module", name, "notes", ".note.gnu.build-id").read_bytes()
        except OSError:
            return None
        return note[_NOTE_HEADER:].hex() or None

    def mount_at(self, target: Path) -> Mount | None:
        """Return the topmost mount exactly at ``target``, or None."""
        wanted = Path(os.path.realpath(target))
        text = (self.root / "proc/self/mountinfo").read_text(encoding="utf-8")
        mounts = [mount for mount in parse_mounts(text) if mount.target == wanted]
        return mounts[-1] if mounts else None

    def block_name(self, path: Path) -> str:
        """Return the kernel's name of a block device, such as dm-0 for /dev/mapper/x."""
        return Path(os.path.realpath(self.root / path.relative_to("/"))).name

    def mapped(self) -> dict[str, str]:
        """Return the UUID of each mapped device, by its name in device mapper."""
        folders = [file.parent for file in self.sys("class", "block").glob("*/dm/name")]
        return {_line(folder / "name"): _line(folder / "uuid") for folder in folders}

    def counter(self, *parts: str) -> int | None:
        """Return the number in a sysfs file, or None if this kernel has no such file."""
        try:
            return int(self.sys(*parts).read_text(encoding="ascii").split()[0])
        except FileNotFoundError:
            return None

    def counters(self, *folder: str, names: Iterable[str]) -> dict[str, int]:
        """Return the numbers in files of a folder of sysfs, without those this kernel lacks."""
        values = {name: self.counter(*folder, name) for name in names}
        return {name: value for name, value in values.items() if value is not None}

    def set(self, *parts: str, value: Scalar, hint: str) -> None:
        """Write a value to a sysfs file.

        Raises:
            ToolFailed: the kernel has no such file, or refuses the value.
        """
        file = self.sys(*parts)
        try:
            file.write_text(f"{value}\n", encoding="ascii")
        except OSError as error:
            raise ToolFailed(
                f"cannot set {file.name} to {value}: {error.strerror}", hint=hint
            ) from None


def _line(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""


def version_of(release: str) -> tuple[int, int]:
    """Return a kernel's version from what uname prints: (7, 2) for ``7.2.12+deb13-amd64``."""
    major, minor = re.match(r"(\d+)\.(\d+)", release).groups()  # type: ignore[union-attr]
    return int(major), int(minor)


def parse_mounts(mountinfo: str) -> list[Mount]:
    """Return the mounts of a /proc/self/mountinfo, oldest first.

    A line has ids, device, root, target, options, tags, " - ", type, source, options. A line that
    is cut off counts if it has its target.
    """
    found = []
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split()
        if len(fields) > 4:  # noqa: PLR2004
            _, source, of_superblock = [*right.split(" "), "", "", ""][:3]
            options = unescape(",".join([*fields[5:6], of_superblock])).split(",")
            found.append(
                Mount(
                    target=Path(unescape(fields[4])),
                    device=fields[2],
                    source=unescape(source),
                    options=",".join(dict.fromkeys(options)),
                )
            )
    return found


def unescape(text: str) -> str:
    """Return a path of /proc, where white space and backslashes are written in octal."""
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), text)
