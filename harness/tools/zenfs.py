"""Upstream's tool zenfs, and the paths of ZenFS's files, which the user supplies."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import HostError, ToolFailed
from harness.tools import proc

PROGRAM = "zenfs"
# roles/zenfs links the user's files into this folder under these names.
INSTALLED = Path("/usr/local/lib/zonelab/zenfs")
PLUGIN = "libzenfs.so"
DB_BENCH = "db_bench"

# The scheduler that ZenFS requires on every kernel.
SCHEDULER = "mq-deadline"
MIN_ZONES = 32
METADATA_ZONES = 3

_MKFS_TIMEOUT_SECONDS = 600.0
_READ_TIMEOUT_SECONDS = 300.0
_PROBE_TIMEOUT_SECONDS = 60.0
_MIB = 1 << 20

_DF = re.compile(
    r"Free: (\d+) MB\s+Used: (\d+) MB\s+Reclaimable: (\d+) MB\s+Space amplification: (\d+)%\s*"
)
_INFO = re.compile(r"^(?P<name>[A-Z][^:\[]*?)(?: \[[^\]]*\])?:\t+(?P<value>.*)$", re.MULTILINE)
# A malformed URI, which ZenFS refuses before it opens a device.
PROBE_URI = "zenfs://probe:x"
# RocksDB's registry prints "Invalid argument" when the plug-in refuses the URI, and "Not
# implemented" when no plug-in has the scheme.
_REFUSED_BY_PLUGIN = re.compile(rf"\bInvalid argument: .*{re.escape(PROBE_URI)}")
_NO_SUCH_COMMAND = "Subcommand not recognized"


@dataclass(frozen=True, slots=True)
class ZenfsZone:
    """A zone in the output of ``dump``; all in bytes."""

    capacity: int
    left: int  # still writable
    live: int  # used by files


@dataclass(frozen=True, slots=True)
class Dump:
    """Output of ``zenfs dump``."""

    zones: tuple[ZenfsZone, ...]  # data zones, without the three metadata zones
    files: dict[str, int]  # size by name

    @property
    def empty(self) -> int:
        """Number of empty data zones."""
        return sum(zone.left == zone.capacity for zone in self.zones)

    @property
    def full(self) -> int:
        """Number of data zones that were filled or finished."""
        return sum(zone.left == 0 for zone in self.zones)

    @property
    def live_bytes(self) -> int:
        """Bytes used by files."""
        return sum(zone.live for zone in self.zones)

    @property
    def free_bytes(self) -> int:
        """Bytes that new files can use without garbage collection."""
        return sum(zone.left for zone in self.zones)

    @property
    def garbage_bytes(self) -> int:
        """Bytes neither live nor writable; includes the pad of finished zones."""
        return sum(zone.capacity - zone.left - zone.live for zone in self.zones)


def find(name: str) -> Path | None:
    """Return a file of ZenFS in $ZONELAB_ZENFS (a folder) or INSTALLED, or None."""
    named = os.environ.get("ZONELAB_ZENFS")
    folder = Path(named).absolute() if named else INSTALLED
    return folder / name if (folder / name).is_file() else None


def tool() -> Path:
    """Return the zenfs program that ``find`` returns, else the one on PATH.

    Raises:
        HostError: there is none.
    """
    program = find(PROGRAM) or proc.which(PROGRAM)
    if program is None:
        raise HostError(
            "the tool zenfs is not installed",
            hint="build it: -e zenfs_source=FOLDER, or name yours: -e zenfs_tool=FILE",
            code="program-missing",
        )
    return program


def mkfs_argv(
    program: Path, device: str, *, aux: Path, finish_threshold: int, gc: bool
) -> list[str]:
    """Return the argument list of ``mkfs``; ``device`` is the kernel's name.

    Zones with less than ``finish_threshold`` percent left are finished. Only the main branch knows
    ``--enable_gc``, so it is passed only if wanted.
    """
    flags = [f"--zbd={device}", f"--aux_path={aux}", f"--finish_threshold={finish_threshold}"]
    return [str(program), "mkfs", *flags, *(["--enable_gc"] if gc else [])]


def mkfs(device: str, *, aux: Path, finish_threshold: int, gc: bool) -> None:
    """Make a file system on a device with empty zones; ``aux`` must not exist.

    Raises:
        HostError: zenfs is not installed.
        ToolFailed: zenfs failed.
    """
    argv = mkfs_argv(tool(), device, aux=aux, finish_threshold=finish_threshold, gc=gc)
    proc.run(argv, timeout=_MKFS_TIMEOUT_SECONDS)


def read_argv(program: Path, command: str, device: str) -> list[str]:
    """Return the argument list of a command that opens the device for reading only."""
    return [str(program), command, f"--zbd={device}"]


def df(device: str) -> dict[str, int]:
    """Return the output of ``df`` in bytes, rounded down to MiB. Raises the errors of ``mkfs``."""
    return parse_df(_read("df", device).stdout)


def dump(device: str) -> Dump:
    """Return zones and files. Raises the errors of ``mkfs``."""
    return parse_dump(_read("dump", device).stdout)


def fs_info(device: str) -> dict[str, str]:
    """Return the superblock by field, or {} if this version has no such command."""
    done = _read("fs-info", device, check=False)
    if _NO_SUCH_COMMAND in done.stderr:
        return {}
    if not done.ok:
        raise proc.failure(done)
    return parse_info(done.stdout)


def probe(program: Path, plugin: Path | None) -> proc.Completed | None:
    """Run db_bench on PROBE_URI; None if ZenFS refused the URI, else how db_bench ended.

    Most releases of db_bench crash on an unknown scheme.

    Raises:
        TimedOut: db_bench did not end; it was killed.
    """
    env = {"LD_PRELOAD": str(plugin)} if plugin else None
    with tempfile.TemporaryDirectory(prefix="zonelab-probe-") as folder:  # for a core file
        argv = [str(program), "--benchmarks=fillseq", "--num=1"]
        argv += [f"--fs_uri={PROBE_URI}", f"--db={folder}/db"]
        done = proc.run(
            argv, timeout=_PROBE_TIMEOUT_SECONDS, env=env, cwd=Path(folder), check=False
        )
    refused = done.exit_code == 1 and _REFUSED_BY_PLUGIN.search(done.stdout + done.stderr)
    return None if refused else done


def parse_df(stdout: str) -> dict[str, int]:
    """Parse ``df`` or raise ToolFailed. Amplification is skipped: it covers full zones only."""
    match = _DF.fullmatch(stdout)
    if match is None:
        raise _malformed("df", stdout)
    free, used, reclaimable = (int(match[n]) * _MIB for n in (1, 2, 3))
    return {"df.free": free, "df.used": used, "df.reclaimable": reclaimable}


def parse_dump(stdout: str) -> Dump:
    """Parse ``dump`` (JSON) or raise ToolFailed."""
    try:
        record = json.loads(stdout)
        zones = tuple(_zone(zone) for zone in record["zones"]["io"])
        files = {name: int(file["size"]) for file in record["files"] for name in _names(file)}
        if not zones:
            raise ValueError
    except (ValueError, KeyError, TypeError):
        raise _malformed("dump", stdout) from None
    return Dump(zones, files)


def parse_info(stdout: str) -> dict[str, str]:
    """Parse ``fs-info`` (``ZenFS Version:<TAB>v2.1.0``); ToolFailed without magic or version."""
    fields = {match["name"]: match["value"].strip() for match in _INFO.finditer(stdout)}
    if not {"Magic", "ZenFS Version"} <= fields.keys():
        raise _malformed("fs-info", stdout)
    return fields


def _names(file: Any) -> Sequence[str]:
    names = file["filename"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TypeError
    return names


def _zone(record: Any) -> ZenfsZone:
    capacity, left, live = (record[key] for key in ("max_capacity", "capacity", "used_capacity"))
    if not all(isinstance(value, int) for value in (capacity, left, live)):
        raise TypeError
    return ZenfsZone(capacity, left, live)


def _read(command: str, device: str, *, check: bool = True) -> proc.Completed:
    argv = read_argv(tool(), command, device)
    return proc.run(argv, timeout=_READ_TIMEOUT_SECONDS, check=check)


def _malformed(command: str, text: str) -> ToolFailed:
    return ToolFailed(
        f"zenfs {command} printed {text.strip()[:120]!r}",
        hint="docs/levels.md lists the supported versions",
        code="output-malformed",
    )
