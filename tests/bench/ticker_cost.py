"""``make bench-statistics``: what RocksDB's statistics cost db_bench.

Pairs of the same db_bench with and without ``--statistics``, on a copy of one database on tmpfs.
Compared are CPU time per operation, which other work on the machine moves little, and
throughput, which it moves a lot. Writes build/bench/statistics.json.
"""

from __future__ import annotations

import json
import math
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from figures import store
from paired import interval

PAIRS = int(os.environ.get("PAIRS", "10"))
# Benchmark, bytes of a value, keys, operations: the default study's size, and where operations
# are so small that counters weigh most ([S3]).
CASES = {
    "overwrite-8000": ("overwrite", 8000, 8000, 30_000),
    "overwrite-100": ("overwrite", 100, 400_000, 400_000),
    "readrandom-8000": ("readrandom", 8000, 8000, 60_000),
    "readrandom-100": ("readrandom", 100, 400_000, 300_000),
}
LINE = re.compile(r"^\w+\s*:.* (\d+\.\d+) seconds (\d+) operations;", re.M)


def argv(folder: Path, benchmark: str, value: int, num: int, *more: str) -> list[str]:
    """Return the command line (no direct I/O: tmpfs has none)."""
    return [
        "db_bench",
        f"--benchmarks={benchmark}",
        f"--db={folder}",
        f"--num={num}",
        "--key_size=16",
        f"--value_size={value}",
        "--compression_type=none",
        "--threads=1",
        "--cache_size=33554432",
        "--open_files=-1",
        "--max_background_jobs=2",
        "--write_buffer_size=8388608",
        "--target_file_size_base=4194304",
        *more,
    ]


def run(command: list[str]) -> tuple[float, float]:
    """Run db_bench; operations per second and seconds of CPU time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = LINE.search(done.stdout)
    if found is None:
        sys.exit(f"statistics: db_bench printed no summary: {done.stdout[-500:]}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return int(found[2]) / float(found[1]), cpu


def measure(work: Path, case: str) -> dict[str, dict[str, float]]:
    """Run the pairs of one case; ratios on / off with their intervals."""
    benchmark, value, num, operations = CASES[case]
    seed = work / "seed"
    run(argv(seed, "fillseq", value, num, "--seed=1"))
    count = "writes" if benchmark == "overwrite" else "reads"
    cpu, throughput = [], []
    for pair in range(PAIRS):
        found = {}
        # Which side goes first alternates, so that a drift of the machine cancels out.
        for statistics in (True, False) if pair % 2 else (False, True):
            database = work / "database"
            shutil.copytree(seed, database)
            found[statistics] = run(
                argv(
                    database,
                    benchmark,
                    value,
                    num,
                    "--use_existing_db",
                    "--histogram",
                    f"--{count}={operations}",
                    f"--seed={pair + 2}",
                    f"--statistics={str(statistics).lower()}",
                )
            )
            shutil.rmtree(database)
        throughput.append(math.log(found[True][0] / found[False][0]))
        cpu.append(math.log(found[True][1] / found[False][1]))
    shutil.rmtree(seed)
    return {
        name: dict(zip(("ratio", "low", "high"), interval(logs), strict=True))
        for name, logs in (("cpu", cpu), ("throughput", throughput))
    }


def main() -> int:
    """Measure and write the figures; there is no target to miss."""
    cases = {}
    with tempfile.TemporaryDirectory(prefix="zonelab-bench-", dir="/dev/shm") as folder:
        for case in CASES:
            cases[case] = measure(Path(folder), case)
            print(case, json.dumps(cases[case]), flush=True)  # noqa: T201
    worst = max(cases.values(), key=lambda found: found["cpu"]["ratio"])["cpu"]
    report = {
        **worst,
        "n": PAIRS,
        "cases": cases,
        "load_average_after": os.getloadavg()[0],
        "how": "CPU time of db_bench with --statistics / without, per case in alternating"
        " pairs on one database on tmpfs; paired t on log ratios; the worst case on top",
    }
    store("statistics", report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
