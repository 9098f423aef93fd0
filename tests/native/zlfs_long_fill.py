"""``make test-zlfs-long``: fill zlfs with ten million keys, then verify everything from new mounts.

The distribution's db_bench fills a device in a shared file. Other processes check every block's
checksum, read all keys with db_bench, count them with ldb, and check every invariant.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD = Path(os.environ.get("BUILD", ROOT / "build/native-release"))
KEYS = int(os.environ.get("KEYS", "10000000"))
SHAPE = "zones=160&zone_size=32M&zone_capacity=24M&max_active=14"


def run(what: str, *argv: str) -> str:
    """Run one step with the plug-in; its stdout. Exits when it fails."""
    begin = time.monotonic()
    done = subprocess.run(
        argv,
        env={**os.environ, "LD_PRELOAD": str(BUILD / "zlfs/libzlfs.so")},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"{what}: {argv[0]} ended with {done.returncode}: {done.stderr}{done.stdout}")
    print(f"{what}: {time.monotonic() - begin:.0f} s", flush=True)  # noqa: T201
    return done.stdout


def expect(what: str, found: str, wanted: int) -> None:
    """Exit when a figure is not the wanted one."""
    if int(found) != wanted:
        sys.exit(f"{what}: {found}, {wanted} were written")


def number(pattern: str, text: str) -> str:
    """Return the group of a pattern that has to be there."""
    match = re.search(pattern, text, re.M)
    if match is None:
        sys.exit(f"no line like {pattern} in: {text}")
    return match[1]


def main() -> int:
    """Fill, verify, count, check."""
    # In memory: what is tested is the file system, and a disk would take an hour.
    with tempfile.TemporaryDirectory(prefix="zlfs-long-", dir="/dev/shm") as folder:
        device = f"file:{folder}/device"
        uri = f"--fs_uri=zlfs://{device}?aux={folder}/aux"
        common = ["--db=/bench", f"--num={KEYS}", "--compression_type=none", "--seed=1"]
        run(
            "fill",
            "db_bench",
            "--benchmarks=filluniquerandom",
            f"{uri}&{SHAPE}",
            *common,
            "--value_size=100",
        )
        out = run(
            "verify",
            "db_bench",
            "--benchmarks=verifychecksum,readseq",
            "--use_existing_db",
            "--verify_checksum",
            uri,
            *common,
        )
        # db_bench prints how many operations it did: readseq ends early when keys are missing.
        expect("readseq", number(r"^readseq .* seconds (\d+) operations", out), KEYS)
        out = run("count", "ldb", uri, "--db=/bench", "dump", "--count_only")
        expect("ldb", number(r"^Keys in range: (\d+)", out), KEYS)
        run("fsck", str(BUILD / "zlfs/tool/zlfs"), "fsck", f"--device={device}")
    print(f"zlfs-long: {KEYS} keys written, read, counted; every invariant holds")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
