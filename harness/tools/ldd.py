"""ldd: the shared objects that a program or library is linked with, and their paths."""

from __future__ import annotations

import re
from pathlib import Path

from harness.errors import ToolFailed
from harness.tools import proc

PROGRAM = "ldd"
_TIMEOUT_SECONDS = 60.0
# "	librocksdb.so.7.8 => /lib/x86_64-linux-gnu/librocksdb.so.7.8 (0x00007fba55600000)"
_FOUND = re.compile(r"^\s+(\S+) => (/.+) \(0x[0-9a-f]+\)$")
_LOST = re.compile(r"^\s+(\S+) => not found$")
# The kernel's own object and the loader have no arrow.
_OTHER = re.compile(r"^\s+\S+ \(0x[0-9a-f]+\)$")
_ROCKSDB = "librocksdb.so"
_STATIC = ("not a dynamic executable", "statically linked")


def rocksdb(file: Path) -> Path | None:
    """Return the resolved RocksDB library that a program or plug-in is linked with, or None.

    Raises:
        ToolFailed: ldd failed or printed unexpected output.
    """
    done = proc.run([PROGRAM, file], timeout=_TIMEOUT_SECONDS, check=False)
    if any(text in done.stdout + done.stderr for text in _STATIC):
        return None
    if not done.ok:
        raise proc.failure(done)
    for name, path in parse(done.stdout).items():
        if name.startswith(_ROCKSDB) and path is not None:
            return path.resolve()
    return None


def parse(stdout: str) -> dict[str, Path | None]:
    """Return the path of each library of a dynamic object by its soname; None: not found.

    Raises:
        ToolFailed: a line has another form.
    """
    paths: dict[str, Path | None] = {}
    for line in stdout.splitlines():
        if match := _FOUND.match(line):
            paths[match[1]] = Path(match[2])
        elif match := _LOST.match(line):
            paths[match[1]] = None
        elif not _OTHER.match(line):
            raise ToolFailed(f"ldd printed {line!r}", code="output-malformed")
    return paths
