"""``make bench-zlfs``: db_bench on zlfs in memory versus the stock file system on tmpfs.

Alternating pairs of the same db_bench on ``zlfs://mem:`` and on a folder of /dev/shm. Both are
without direct I/O (tmpfs has none) and in memory that has been used before. Each phase's throughput
is compared until the 95 % interval of every ratio is at most HALF_WIDTH to either side, at most
PAIRS. Beside it the cost of the ledger: CPU time of its thread / CPU time of the process. Writes
build/bench/zlfs.json.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from paired import interval

ROOT = Path(__file__).parents[2]
PAIRS = int(os.environ.get("PAIRS", "20"))
FEWEST_PAIRS = 5
HALF_WIDTH = 0.02
TARGET = 0.95
LEDGER_TARGET = 0.01
PHASES = ("fillrandom", "overwrite", "readrandom")
NUM = int(os.environ.get("NUM", "1000000"))
REFUSED = 3
LIBRARY = Path(os.environ.get("ZLFS", ROOT / "build/native-release/zlfs/libzlfs.so"))
# 3 GiB in zones of 64 MiB, the active limit of a common drive. The database takes a sixth: what
# is compared is the way to the device, not garbage collection.
DEVICE = "mem:bench?zones=48&zone_size=64M&max_active=14"
# Once through all of the device before anything counts: tmpfs takes pages again that deleted files
# left, while a zone's first bytes wait for the kernel to find and clear memory.
WARM_UP = ("fillrandom", "overwrite")

# A statistics line is "fillrandom   :       2.712 micros/op 368667 ops/sec 2.712 seconds …".
LINE = re.compile(r"^(\w+)\s*:\s*[\d.]+ micros/op (\d+) ops/sec", re.M)


def argv(target: list[str], seed: int) -> list[str]:
    """Return the command line; both sides differ in ``target`` only."""
    return [
        "db_bench",
        f"--benchmarks={','.join(WARM_UP + PHASES)}",
        *target,
        f"--seed={seed}",
        f"--num={NUM}",
        "--key_size=16",
        "--value_size=400",
        "--compression_type=none",
        "--write_buffer_size=33554432",
        "--target_file_size_base=33554432",
        "--max_bytes_for_level_base=134217728",
        "--cache_size=8388608",
        "--open_files=-1",
        "--max_background_jobs=2",
        "--use_direct_reads=false",
        "--use_direct_io_for_flush_and_compaction=false",
    ]


class LedgerCost:
    """CPU time of the ledger's thread, sampled while the process runs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.seconds = 0.0
        self._process = process
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        tasks = Path(f"/proc/{self._process.pid}/task")
        while self._process.poll() is None:
            for task in tasks.glob("*"):
                try:
                    if (task / "comm").read_text().strip() == "zlfs-ledger":
                        # First field of schedstat: nanoseconds on a CPU.
                        spent = int((task / "schedstat").read_text().split()[0]) / 1e9
                        self.seconds = max(self.seconds, spent)
                except OSError:
                    continue  # the thread ended
            time.sleep(0.25)

    def stop(self) -> float:
        """Return seconds of CPU time, once the process ended."""
        self._thread.join()
        return self.seconds


def run(work: Path, side: str, seed: int) -> tuple[dict[str, float], float]:
    """Run db_bench once; operations per second by phase, and the ledger's share of CPU time."""
    environment = dict(os.environ)
    folder = work / side
    folder.mkdir()
    if side == "zlfs":
        environment["LD_PRELOAD"] = str(LIBRARY)
        target = [f"--fs_uri=zlfs://{DEVICE}&aux={folder}", "--db=/bench"]
    else:
        target = [f"--db={folder}"]
    before = os.times()
    process = subprocess.Popen(
        argv(target, seed),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    cost = LedgerCost(process)
    out, err = process.communicate()
    ledger = cost.stop()
    after = os.times()
    if process.returncode != 0:
        sys.exit(f"zlfs: db_bench on {side} ended with {process.returncode}: {err}")
    lines = LINE.findall(out)
    found = {name: float(rate) for name, rate in lines[len(WARM_UP) :]}
    if tuple(name for name, _ in lines) != WARM_UP + PHASES:
        sys.exit(f"zlfs: db_bench on {side} printed {[name for name, _ in lines]}: {out}")
    cpu = (after.children_user + after.children_system) - (
        before.children_user + before.children_system
    )
    shutil.rmtree(folder)
    return found, ledger / cpu


def main() -> int:
    """Measure, write the figures, judge them."""
    if not LIBRARY.exists():
        sys.exit(f"zlfs: {LIBRARY} is missing; hint: make bench-zlfs builds it")
    logs: dict[str, list[float]] = {phase: [] for phase in PHASES}
    rates: dict[str, list[list[float]]] = {phase: [] for phase in PHASES}
    shares: list[float] = []
    ratios: dict[str, tuple[float, float, float]] = {}
    with tempfile.TemporaryDirectory(prefix="zonelab-bench-", dir="/dev/shm") as folder:
        run(Path(folder), "zlfs", 1)  # warms up CPU and memory, counts for nothing
        run(Path(folder), "tmpfs", 1)
        for pair in range(PAIRS):
            # Which side goes first alternates, so that a drift of the machine cancels out.
            sides = ("zlfs", "tmpfs") if pair % 2 else ("tmpfs", "zlfs")
            results = {side: run(Path(folder), side, pair + 2) for side in sides}
            shares.append(results["zlfs"][1])
            for phase in PHASES:
                ours, theirs = results["zlfs"][0][phase], results["tmpfs"][0][phase]
                logs[phase].append(math.log(ours / theirs))
                rates[phase].append([ours, theirs])
                ratios[phase] = interval(logs[phase])
            print(  # noqa: T201
                f"pair {pair + 1}: "
                + ", ".join(
                    f"{p} {r:.3f} [{lo:.3f}, {hi:.3f}]" for p, (r, lo, hi) in ratios.items()
                )
                + f", ledger {shares[-1]:.3%}",
                flush=True,
            )
            widest = max((high - low) / 2 for _, low, high in ratios.values())
            if pair + 1 >= FEWEST_PAIRS and widest <= HALF_WIDTH:
                break
    worst = min(ratios, key=lambda phase: ratios[phase][0])
    report = {
        "ratio": ratios[worst][0],
        "low": ratios[worst][1],
        "high": ratios[worst][2],
        "n": len(shares),
        "worst": worst,
        "phases": {
            phase: {"ratio": r, "low": lo, "high": hi, "ops_per_second": rates[phase]}
            for phase, (r, lo, hi) in ratios.items()
        },
        "resolved": widest <= HALF_WIDTH,
        "ledger_cpu_share_max": max(shares),
        "load_average_after": os.getloadavg()[0],
        "how": f"db_bench {','.join(PHASES)}, {NUM} keys of 16 B with 400 B, on zlfs over memory"
        " / on tmpfs; alternating pairs with the same seed; paired t on log ratios; the ledger's"
        " share is CPU time of its thread / CPU time of the process",
    }
    output = ROOT / "build/bench/zlfs.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps({k: v for k, v in report.items() if k != "phases"}, indent=2))  # noqa: T201
    if max(shares) > LEDGER_TARGET:
        return REFUSED
    # Slow only where the measurement shows it, not where it is merely unsure.
    return REFUSED if any(high < TARGET for _, _, high in ratios.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
