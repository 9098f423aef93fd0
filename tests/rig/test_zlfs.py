"""zlfs on zones of a real kernel: its ledger, its device layer, and power loss."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.rig.talk import Talk

from . import zlfs_resets, zone_commands
from .conftest import RigHandle

MIB = 1 << 20
NATIVE = "/usr/local/lib/zonelab/native"
ZLFS = f"{NATIVE}/bin/zlfs"
AUX = "/var/tmp/zlfs-test"
COLD = 198 * MIB  # ends in the middle of a zone, which is finished then
# mkfs rolls the metadata log over for the first time, and keeps no ledger of it: a superblock and
# a frame of a block each, and a flush, for each of the two copies.
MKFS_BLOCKS = 4
MKFS_COMMANDS = {"flush": 2}
# Files of a sixth of a zone share zones; each is overwritten several times.
DB_BENCH = (
    "db_bench --benchmarks=fillrandom,overwrite --db=/bench --seed=1 --num=8000 --key_size=16"
    " --value_size=4000 --compression_type=none --threads=1 --write_buffer_size=1048576"
    " --target_file_size_base=716800 --max_bytes_for_level_base=4194304 --open_files=-1"
    " --max_background_jobs=2 --use_direct_reads --use_direct_io_for_flush_and_compaction"
)
# Always short of space, so that garbage is collected although most zones are empty.
POLICY = "--finish-remaining-pct=30 --gc-start-pct=90"


@dataclass(frozen=True)
class Scratch:
    """The tenants' namespace with all zones empty."""

    rig: RigHandle
    node: str

    def zlfs(self, command: str, *, timeout: float = 300.0) -> str:
        """Run the program on the device; return its output."""
        name, _, arguments = command.partition(" ")
        argv = f"{ZLFS} {name} --device=/dev/{self.node} {arguments}"
        return self.rig.ssh(argv, timeout=timeout).stdout

    def ledgers(self) -> list[dict[str, Any]]:
        """Return the last line of each mount so far, in order."""
        lines = self.rig.ssh(f'grep \'"event":"close"\' {AUX}/ledger.jsonl').stdout
        return [json.loads(line) for line in lines.splitlines()]


@pytest.fixture
def scratch(rig: RigHandle) -> Iterator[Scratch]:
    node = rig.node(rig.tenants)
    # Kernels before 6.10 order writes to zones with this scheduler only; later ones ignore it.
    rig.ssh(f"echo mq-deadline > /sys/block/{node}/queue/scheduler")
    rig.ssh(f"zbd reset /dev/{node}; rm -rf {AUX}")
    yield Scratch(rig, node)
    node = rig.node(rig.tenants)  # the test may have reset the machine
    rig.ssh(f"zbd reset /dev/{node}; rm -rf {AUX}")


def total(ledgers: list[dict[str, Any]]) -> dict[str, int]:
    """Sum the commands of all mounts."""
    bytes_written = [part for one in ledgers for part in one["written"].values()]
    return {
        "written": sum(part["payload"] + part["pad"] for part in bytes_written),
        "flush": sum(one["flushes"] for one in ledgers),
        "finish": sum(part["count"] for one in ledgers for part in one["finishes"].values()),
        "reset": sum(count for one in ledgers for count in one["resets"].values()),
    }


def test_the_ledger_matches_the_device(rig: RigHandle, scratch: Scratch) -> None:
    before = rig.counters(rig.tenants).wr_bytes
    with zone_commands.counted(rig, rig.tenants) as formatted:
        scratch.zlfs(f"mkfs --aux={AUX} {POLICY}")
    block = int(rig.ssh(f"cat /sys/block/{scratch.node}/queue/logical_block_size").stdout)
    mkfs = rig.counters(rig.tenants).wr_bytes - before
    assert mkfs == MKFS_BLOCKS * block
    assert {name: count for name, count in formatted.items() if count} == MKFS_COMMANDS

    with zone_commands.counted(rig, rig.tenants) as commands:
        scratch.zlfs(f"import --aux={AUX} --name=/cold --size={COLD} --seed=7")
        rig.ssh(
            f"LD_PRELOAD={NATIVE}/lib/libzlfs.so {DB_BENCH}"
            f" --fs_uri='zlfs://dev:/dev/{scratch.node}?aux={AUX}'",
            timeout=600,
        )
        used = json.loads(scratch.zlfs("df --format=json"))
        assert json.loads(scratch.zlfs("fsck --format=json"))["violations"] == []
    written = rig.counters(rig.tenants).wr_bytes - before - mkfs

    ledgers = scratch.ledgers()
    assert len(ledgers) == 2, "import and db_bench mount it once each"
    counted = total(ledgers)
    # Everything that is counted took place, or equality would say little.
    assert ledgers[0]["written"]["import"]["payload"] == COLD
    assert ledgers[0]["finishes"]["import"]["count"] == 1
    database = ledgers[1]
    for cause in ("wal", "flush", "compaction", "other", "gc", "metadata"):
        assert database["written"][cause]["payload"] > 0, cause
    assert database["finishes"]["threshold"]["count"] > 0
    assert database["resets"]["data"] > 0

    assert written == counted["written"]
    assert {name: commands[name] for name in ("flush", "finish", "reset")} == {
        name: counted[name] for name in ("flush", "finish", "reset")
    }
    assert commands["open"] == commands["close"] == 0, "zones are opened by writing to them"
    # Counts since mkfs, which nobody kept of mkfs itself.
    assert used["finishes"] == counted["finish"]
    assert used["resets"] == counted["reset"]


def test_the_distributions_tools_read_it(rig: RigHandle, scratch: Scratch) -> None:
    """``ldb`` counts the keys, ``sst_dump`` checks each table, both with the plug-in preloaded."""
    keys = 2000
    scratch.zlfs(f"mkfs --aux={AUX}")

    def run(command: str) -> str:
        uri = f"--fs_uri='zlfs://dev:/dev/{scratch.node}?aux={AUX}'"
        preload = f"LD_PRELOAD={NATIVE}/lib/libzlfs.so"
        return rig.ssh(f"{preload} {command} {uri} 2>&1", timeout=300).stdout

    fill = f"db_bench --benchmarks=fillseq,flush --num={keys} --value_size=1000"
    run(f"{fill} --db=/bench --compression_type=none --write_buffer_size=524288")
    counted = run("ldb --db=/bench dump --count_only")
    assert f"Keys in range: {keys}\n" in counted, counted
    names = re.findall(r'"(/bench/\d+\.sst)"', scratch.zlfs("list --format=json"))
    table, *more = names
    assert more, "more than one table"
    checked = run(f"sst_dump --file={table} --command=verify")
    assert "The file is ok" in checked, checked
    assert json.loads(scratch.zlfs("fsck --format=json"))["violations"] == []


def test_the_device_layer_on_zones_of_the_kernel(rig: RigHandle, scratch: Scratch) -> None:
    done = rig.ssh(
        f"ZLFS_TEST_DEVICE={scratch.node} {NATIVE}/test/zlfs_zoned_test --gtest_filter='*/kernel'",
        timeout=900,
        check=False,
    )
    assert done.ok, done.stdout[-4000:] + done.stderr[-2000:]
    passed = re.search(r"^\[  PASSED  \] (\d+) tests?\.$", done.stdout, re.MULTILINE)
    assert passed, done.stdout[-2000:]
    assert int(passed[1]) >= 16  # of the suite, one subject
    assert "SKIPPED" not in done.stdout


def test_synced_data_survives_a_reset(rig: RigHandle, scratch: Scratch, tmp_path: Path) -> None:
    """The campaign of ``make test-crash-long``, in short: two resets, one during recovery."""
    campaign = zlfs_resets.Campaign(
        zlfs_resets.Setup(points=2, seed=1, recovery_every=2, points_per_volume=2),
        zlfs_resets.Guest(rig.name, Talk(quiet=True)),
    )
    report = campaign.run(tmp_path / "zlfs-resets.json")
    assert report["ok"], report["failure"]
    assert report["points"] == 2
    assert report["in_recovery"] == 1
    assert report["synced_operations"] > 0
