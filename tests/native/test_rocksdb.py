"""``make test-rocksdb ROCKSDB=FOLDER``: zlfs and kvmix with your release of RocksDB.

The folder holds ``include/rocksdb`` and, anywhere below, ``librocksdb.so``, ``db_stress``, ``ldb``
and ``sst_dump``. RocksDB must be built with ``USE_RTTI=1``, as distributions build it.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROCKSDB = os.environ.get("ROCKSDB", "")
KILLS = int(os.environ.get("KILLS") or 12)
BUILD = ROOT / "build/native-rocksdb"
SHAPE = "zones=128&zone_size=8M&zone_capacity=6M&max_active=14"
LAST_CHARACTERS = 5_000

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(7200),
    pytest.mark.skipif(not ROCKSDB, reason="ROCKSDB=FOLDER is not given"),
]

# For every release from 7.8: ``--undefok`` lists flags of later ones. A release build of RocksDB
# injects no faults. There are no backups: db_stress opens restored databases with the default Env.
LATER = {
    "metadata_read_fault_one_in": "0",
    "metadata_write_fault_one_in": "0",
    "remote_compaction_worker_threads": "0",  # blobs exclude it
    "compression_manager": "none",
}
STRESS = [
    "--db=/stress",
    "--column_families=3",
    "--max_key=20000",
    "--value_size_mult=32",
    "--write_buffer_size=1048576",
    "--target_file_size_base=1048576",
    "--max_bytes_for_level_base=4194304",
    "--reopen=0",
    "--nooverwritepercent=0",  # otherwise each round needs the same seed
    "--clear_column_family_one_in=0",
    "--enable_blob_files=1",
    "--min_blob_size=64",
    "--enable_blob_garbage_collection=1",
    "--use_multiget=1",
    "--flush_one_in=2000",
    "--compact_range_one_in=5000",
    "--compact_files_one_in=5000",
    "--checkpoint_one_in=2000",
    "--ingest_external_file_one_in=2000",
    "--verify_checksum_one_in=20000",
    "--acquire_snapshot_one_in=1000",
    "--max_background_compactions=2",
    "--threads=8",
    "--compression_type=none",
    "--read_fault_one_in=0",
    *(f"--{flag}={value}" for flag, value in LATER.items()),
    f"--undefok={','.join(LATER)}",
]


def tool(name: str) -> Path:
    """Return a program or library below the user's folder."""
    found = sorted(path for path in Path(ROCKSDB).rglob(name) if path.is_file())
    if not found:
        pytest.skip(f"no {name} below {ROCKSDB}")
    return found[0].resolve()


def passes(*argv: str | Path, env: dict[str, str] | None = None) -> str:
    """Return the output of a command that must succeed."""
    done = subprocess.run(
        argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env=env
    )
    assert done.returncode == 0, done.stdout[-LAST_CHARACTERS:]
    return done.stdout


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    include = Path(ROCKSDB) / "include"
    assert (include / "rocksdb/db.h").is_file(), f"{include} has no rocksdb/db.h"
    library = tool("librocksdb.so")
    passes(
        *("cmake", "-S", ROOT / "harness/native", "-B", BUILD, "--preset", "test"),
        f"-DROCKSDB_INCLUDE_DIR={include.resolve()}",
        f"-DROCKSDB_LIBRARY={library}",
    )
    passes("cmake", "--build", BUILD, "-j2")


class Device:
    """An emulated device in a shared file, and the programs that use it."""

    def __init__(self, folder: Path) -> None:
        self.spec = f"file:{folder}/device"
        self.uri = f"--fs_uri=zlfs://{self.spec}?aux={folder}/aux"
        self.expected = folder / "expected"
        self.expected.mkdir(parents=True)
        self.env = {
            **os.environ,
            "LD_PRELOAD": str(BUILD / "zlfs/libzlfs.so"),
            "LD_LIBRARY_PATH": str(tool("librocksdb.so").parent),
        }

    def stress(self, seed: int, *, sync: bool, seconds: float | None) -> None:
        """Verify what the last round acknowledged, and go on; kill it after some seconds."""
        command = [
            str(tool("db_stress")),
            f"{self.uri}&{SHAPE}",
            *STRESS,
            f"--sync={int(sync)}",
            f"--async_io={seed % 2}",
            f"--seed={seed}",
            f"--ops_per_thread={1000 if seconds is None else 10_000_000}",
            f"--destroy_db_initially={int(seed == 0)}",
            f"--expected_values_dir={self.expected}",
        ]
        log = self.expected.parent / "stress.log"
        with (
            log.open("w") as out,
            subprocess.Popen(command, env=self.env, stdout=out, stderr=out) as process,
        ):
            try:
                code = process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                code = process.wait()
        expected = 0 if seconds is None else -signal.SIGKILL
        assert code == expected, f"round {seed}: {code}: {log.read_text()[-LAST_CHARACTERS:]}"

    def check(self) -> None:
        """Check every invariant of the volume."""
        passes(BUILD / "zlfs/tool/zlfs", "fsck", f"--device={self.spec}", env=self.env)


@pytest.fixture
def device() -> Iterator[Device]:
    # In memory: a kill loses nothing there, and a disk would make each round slower.
    with tempfile.TemporaryDirectory(prefix="zonelab-", dir="/dev/shm") as folder:
        yield Device(Path(folder))


def test_native_tests() -> None:
    passes("ctest", "--test-dir", str(BUILD), "--output-on-failure", "-j2")


@pytest.mark.parametrize("sync", [False, True], ids=["unsynced", "synced"])
def test_kills_of_db_stress(device: Device, sync: bool) -> None:
    """``db_stress`` finds each acknowledged write after ``kill -9``, also without ``sync``."""
    length = random.Random(int(sync))  # noqa: S311
    for seed in range(KILLS):
        device.stress(seed, sync=sync, seconds=length.uniform(4, 12))
        device.check()
    device.stress(KILLS, sync=sync, seconds=None)
    device.check()


def test_tools(device: Device) -> None:
    """``ldb`` checks the database of ``db_stress``, ``sst_dump`` a table."""
    device.stress(0, sync=False, seconds=None)
    ldb = str(tool("ldb"))
    where = (device.uri, "--db=/stress")
    assert "OK" in passes(ldb, *where, "checkconsistency", env=device.env)
    files = passes(ldb, *where, "list_live_files_metadata", env=device.env)
    tables = re.findall(r"/?(\d+\.sst)", files)
    assert tables, files
    checked = passes(
        tool("sst_dump"),
        device.uri,
        f"--file=/stress/{tables[0]}",
        "--command=verify",
        env=device.env,
    )
    assert "corruption" not in checked.lower(), checked
