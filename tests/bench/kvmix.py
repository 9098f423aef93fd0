"""``make bench-kvmix``: how many operations kvmix makes per second and core, without a database.

The mix of [S4] with values of 100 B, by distribution of keys, with everything but the call to
RocksDB: choice of operation and key, key and value as bytes, both clock readings, histogram. The
``ratio`` is that rate over the million a second that a generator must exceed. The rest of the
core's time is left to the database. Writes build/bench/kvmix.json.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

from figures import store
from paired import interval

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "build" / "native-release" / "kvmix" / "kvmix"
ROUNDS = int(os.environ.get("ROUNDS", "10"))
OPERATIONS = 3_000_000
WANTED = 1_000_000
MIX = (
    "--insert=50",
    "--update=25",
    "--delete=10",
    "--query=15",
    "--absent_share=1",
    "--value_size=100",
)


def rate(distribution: str, seed: int) -> float:
    """Run once; operations per second of one thread."""
    command = [
        str(PROGRAM),
        "run",
        "--dry_run",
        *MIX,
        f"--operations={OPERATIONS}",
        "--existing=1000000",
        "--key_space=4000000",
        f"--distribution={distribution}",
        f"--seed={seed}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    summary = json.loads(done.stdout)
    return float(summary["operations"] / summary["seconds"])


def main() -> int:
    """Measure; exit status 1 when a distribution is slower than wanted."""
    found = {}
    for distribution in ("uniform", "zipfian", "latest"):
        logs = [math.log(rate(distribution, seed) / WANTED) for seed in range(1, ROUNDS + 1)]
        ratio, low, high = interval(logs)
        found[distribution] = {"ratio": ratio, "low": low, "high": high, "n": ROUNDS}
        print(f"kvmix {distribution}: {ratio:.2f} M/s [{low:.2f}, {high:.2f}]", file=sys.stderr)  # noqa: T201
    slowest = min(found.values(), key=lambda one: one["ratio"])
    result = {
        **slowest,
        "how": f"kvmix run --dry_run, {OPERATIONS} operations, one thread; ratio: operations per "
        f"second / {WANTED}, the slowest distribution",
        "by_distribution": found,
    }
    store("kvmix", result)
    return int(slowest["low"] < 1)


if __name__ == "__main__":
    sys.exit(main())
