"""Identify the RocksDB build of a db_bench: runs of different builds are not compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.errors import ConfigError
from harness.store import checksums
from harness.store.codec import encode
from harness.store.files import load_record
from harness.tools import ldd, proc
from harness.tools.rocksdb_source import Build

PACKAGE = "rocksdb-tools"
RECORD = "build.json"
_ID_DIGITS = 12
_TIMEOUT_SECONDS = 60.0


def of_program(program: Path) -> dict[str, Any]:
    """Return ``id``, ``kind`` and further fields of the build of a db_bench.

    ``kind`` is ``source`` (built by roles/rocksdb; its record is in ``build``), ``package`` (of the
    distribution) or ``program`` (anything else; the id is a digest of it and its librocksdb).

    Raises:
        ToolFailed: ldd or dpkg-query failed.
    """
    program = program.resolve()
    recorded = _recorded(program.parent.parent / RECORD)
    if recorded is not None:
        return {"id": recorded.id, "kind": "source", "build": encode(recorded)}
    package = _package(program)
    if package is not None:
        return {"id": package, "kind": "package"}
    library = ldd.rocksdb(program)
    files = [program] if library is None else [program, library]
    digests = {file.name: checksums.digest(file) for file in files}
    digest = checksums.of_text("".join(digests.values()))
    return {"id": f"{program.name}-{digest[:_ID_DIGITS]}", "kind": "program", "sha256": digests}


def _recorded(path: Path) -> Build | None:
    """Return the record of roles/rocksdb, or None if there is no such record."""
    try:
        return load_record(Build, path)
    except ConfigError:
        return None


def _package(program: Path) -> str | None:
    """Return ``name_version_architecture`` if the program belongs to the package, else None."""
    if proc.which("dpkg-query") is None:
        return None
    files = proc.run(["dpkg-query", "-L", PACKAGE], timeout=_TIMEOUT_SECONDS, check=False)
    if not files.ok or str(program) not in files.stdout.splitlines():
        return None
    argv = ["dpkg-query", "-W", "-f", "${Package}_${Version}_${Architecture}", PACKAGE]
    return proc.run(argv, timeout=_TIMEOUT_SECONDS).stdout
