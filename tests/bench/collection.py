"""``make bench-collection``: what early garbage collection in zlfs costs, in bytes.

db_bench fills and overwrites a database beside cold data in a drive's image in memory, then
overwrites with a sync of each write. Each seed runs once with every ``gc_start_pct`` of STARTS.
Printed are bytes written to the zones and bytes copied by the collector, both per user byte, as
means over SEEDS; and the ratio of bytes to the first start's, paired by seed, with a 95 % interval.
Bytes depend on the scheduling of threads, and not on the speed of the machine.
Writes build/bench/collection.json.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from figures import store
from paired import interval

ROOT = Path(__file__).parents[2]
NATIVE = Path(os.environ.get("NATIVE", ROOT / "build/native-installed"))
ZONES = int(os.environ.get("ZONES", "900"))
SEEDS = range(1, 1 + int(os.environ.get("SEEDS", "3")))
STARTS = os.environ.get("STARTS", "1,5,10").split(",")
# Shares of the capacity: live data fills 94 % of the drive in the end.
COLD = float(os.environ.get("COLD", "0.795"))
DATABASE = 0.145
DEBT = 0.03
OVERWRITES = 1.4  # times the keys; a tenth of that with syncs
ZONE = 4 << 20
BLOCK = 4096
ENTRY = 16 + 8000  # key and value
MEMTABLE = 2 << 20
CAPACITY = ZONES * ZONE
KEYS = int(CAPACITY * DATABASE / ENTRY)
PHASES = ("overwrite", "synced")


def database(device: str, aux: Path, seed: int, phase: str, writes: int) -> tuple[float, float]:
    """Run one phase of db_bench; return bytes written and copied per user byte."""
    ledger = aux / f"{phase}.jsonl"
    command = [
        "db_bench",
        f"--fs_uri=zlfs://{device}&aux={aux}&ledger={ledger}",
        "--db=/bench",
        f"--benchmarks={'fillrandom' if phase == 'fill' else 'overwrite'}",
        f"--use_existing_db={int(phase != 'fill')}",
        f"--num={KEYS}",
        f"--writes={writes}",
        f"--seed={seed}",
        f"--disable_wal={int(phase != 'synced')}",
        f"--sync={int(phase == 'synced')}",
        "--key_size=16",
        "--value_size=8000",
        "--compression_type=none",
        f"--write_buffer_size={MEMTABLE}",
        f"--target_file_size_base={MEMTABLE // 4}",
        f"--max_bytes_for_level_base={4 * MEMTABLE}",
        # Without these limits, tables that wait for compaction fill the drive.
        f"--soft_pending_compaction_bytes_limit={int(DEBT / 2 * CAPACITY)}",
        f"--hard_pending_compaction_bytes_limit={int(DEBT * CAPACITY)}",
        "--level0_slowdown_writes_trigger=5",
        "--level0_stop_writes_trigger=6",
        "--max_background_jobs=2",
        "--level_compaction_dynamic_level_bytes=true",
        "--use_direct_io_for_flush_and_compaction=true",
        "--open_files=-1",
    ]
    library = {"LD_PRELOAD": str(NATIVE / "lib/libzlfs.so")}
    subprocess.run(command, check=True, capture_output=True, env=os.environ | library)
    written = json.loads(ledger.read_text().splitlines()[-1])["written"]
    sums = {cause: row["payload"] + row["pad"] for cause, row in written.items()}
    return sum(sums.values()) / (writes * ENTRY), sums["gc"] / (writes * ENTRY)


def run(start: str, seed: int) -> dict[str, tuple[float, float]]:
    """Fill a new image and overwrite it; bytes written and copied per user byte, by phase."""
    with tempfile.TemporaryDirectory(prefix="zonelab-bench-", dir="/dev/shm") as folder:
        device = f"file:{folder}/image?zones={ZONES}&zone_size={ZONE}&max_active=14"
        aux = Path(folder) / "aux"
        zlfs = str(NATIVE / "bin/zlfs")
        make = [zlfs, "mkfs", f"--device={device}", f"--aux={aux}", f"--gc-start-pct={start}"]
        subprocess.run(make, check=True, capture_output=True)
        cold = int(CAPACITY * COLD) // BLOCK * BLOCK
        fill = [zlfs, "import", f"--device={device}", "--name=/cold", f"--size={cold}", "--seed=1"]
        subprocess.run(fill, check=True, capture_output=True)
        database(device, aux, seed, "fill", KEYS)
        overwrites = int(OVERWRITES * KEYS)
        writes = dict(zip(PHASES, (overwrites, overwrites // 10), strict=True))
        return {phase: database(device, aux, seed, phase, writes[phase]) for phase in PHASES}


def main() -> int:
    """Measure, print and store."""
    found: dict[str, list[dict[str, tuple[float, float]]]] = {start: [] for start in STARTS}
    for seed in SEEDS:
        for start in STARTS:
            found[start].append(run(start, seed))
            print(f"seed {seed}, start {start} %: {found[start][-1]}", flush=True)  # noqa: T201
    report = {}
    for start in STARTS:
        for phase in PHASES:
            ours = [one[phase] for one in found[start]]
            firsts = [one[phase] for one in found[STARTS[0]]]
            pairs = [math.log(a[0] / b[0]) for a, b in zip(ours, firsts, strict=True)]
            row = {
                "written": statistics.mean(one[0] for one in ours),
                "copied": statistics.mean(one[1] for one in ours),
                "ratio": interval(pairs),
            }
            report[f"gc_start_pct {start}, {phase}"] = row
            print(f"gc_start_pct {start}, {phase}: {json.dumps(row)}")  # noqa: T201
    store("collection", report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
