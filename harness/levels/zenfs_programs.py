"""The programs of ZenFS that the user supplies: which of them work, and their builds."""

from __future__ import annotations

import os
from pathlib import Path

from harness.errors import ZonelabError
from harness.store import checksums
from harness.store.spec import Reason, Scalar
from harness.tools import ldd, proc, rocksdb_plugin, zenfs


def probe_db_bench(program: Path) -> Reason | None:
    """Check that db_bench knows ZenFS: start it on a URI that ZenFS refuses."""
    plugin, own = zenfs.find(zenfs.PLUGIN), zenfs.find(zenfs.DB_BENCH)
    program = own or program
    try:
        if plugin is not None and ldd.rocksdb(plugin) != ldd.rocksdb(program):
            return Reason(
                "rocksdb-differs",
                f"{plugin} and {program} use different copies of librocksdb.so",
                "build the plug-in again: -e zenfs_source=FOLDER",
            )
        ended = zenfs.probe(program, plugin)
    except ZonelabError as error:
        return Reason.of(error)
    if ended is None:
        return None
    if plugin is None and own is None:
        return Reason(
            "zenfs-missing",
            f"{program} does not recognise zenfs:// ({_ending(ended)})",
            "build it: -e zenfs_source=FOLDER (docs/levels.md)",
        )
    return Reason(
        "zenfs-not-registered",
        f"{program}{f' with {plugin}' if plugin else ''} does not recognise zenfs:// "
        f"({_ending(ended)})",
        "build the plug-in for this db_bench: -e zenfs_source=FOLDER",
    )


def probe_plugin(program: Path) -> Reason | None:
    """Check that there is a plug-in to preload, and that it shares the program's RocksDB."""
    plugin = zenfs.find(zenfs.PLUGIN)
    if plugin is None:
        return Reason(
            "zenfs-built-in",
            f"ZenFS is built into the user's db_bench, so {program} cannot use it",
            "use ZenFS as a plug-in: -e zenfs_plugin=FILE.so",
        )
    try:
        same = ldd.rocksdb(plugin) == ldd.rocksdb(program)
    except ZonelabError as error:
        return Reason.of(error)
    if same:
        return None
    return Reason(
        "rocksdb-differs",
        f"{plugin} and {program} use different copies of librocksdb.so",
        "build plug-in and harness/native against one RocksDB",
    )


def builds() -> dict[str, Scalar]:
    """Return path and SHA-256 of each part that the user supplied, and what it was built from."""
    facts: dict[str, Scalar] = {}
    for key, path in (
        ("zenfs_tool", zenfs.tool()),
        ("zenfs_plugin", zenfs.find(zenfs.PLUGIN)),
        ("zenfs_db_bench", zenfs.find(zenfs.DB_BENCH)),
    ):
        if path is not None:
            facts[key] = os.path.realpath(path)
            facts[f"{key}_sha256"] = checksums.digest(path)
    plugin = zenfs.find(zenfs.PLUGIN)
    build = rocksdb_plugin.recorded(plugin) if plugin else None
    if build is not None:
        facts["zenfs_build"] = build.id
        facts["zenfs_source_sha256"] = build.facts.source.sha256
        facts["zenfs_source_version"] = build.facts.version or "unknown"
        facts["zenfs_flags"] = build.facts.flags
    return facts


def versions(device: str) -> dict[str, Scalar]:
    """Return the versions in the superblock; older tools cannot print them."""
    info = zenfs.fs_info(device)
    wanted = {"ZenFS Version": "zenfs_version", "Superblock Version": "superblock_version"}
    return {key: info[field] for field, key in wanted.items() if field in info}


def _ending(done: proc.Completed) -> str:
    """Return how db_bench ended, and its last line."""
    how = f"signal {done.signal}" if done.signal else f"exit status {done.exit_code}"
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return f"{how}: {lines[-1].strip()}" if lines else how
