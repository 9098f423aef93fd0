"""``make bench-zlfs``: db_bench on zlfs in memory versus the stock file system on tmpfs.

Alternating pairs of the same db_bench on ``zlfs://mem:`` and on a folder of /dev/shm. Both have no
direct I/O (tmpfs cannot) and use memory that has been used before. Each row is a setting: with the
WAL, without it, against tmpfs that is mapped into memory, and with a sync of each write. The last
one is shown and not judged, because a sync of tmpfs does nothing. The row ``model`` compares zlfs
on a modelled drive that never waits with zlfs in memory: the cost of the model itself.

A row ends when the 95 % interval of each phase's ratio is at most HALF_WIDTH to either side, or
after PAIRS. ROWS selects rows. Reads follow a compaction: otherwise they would depend on how far
the compactions of the overwrites are. Beside it the cost of the ledger: CPU time of its thread /
CPU time of the process. Writes build/bench/zlfs.json.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from figures import store
from paired import interval

ROOT = Path(__file__).parents[2]
PAIRS = int(os.environ.get("PAIRS", "20"))
FEWEST_PAIRS = 5
HALF_WIDTH = 0.02
LEDGER_TARGET = 0.01
PHASES = ("fillrandom", "overwrite", "readrandom")


@dataclass(frozen=True, slots=True)
class Row:
    """A setting of both sides."""

    name: str
    options: tuple[str, ...] = ()  # of both sides
    tmpfs: tuple[str, ...] = ()  # of the other side alone
    share: float = 1.0  # of NUM
    judged: bool = True
    model: bool = False  # a modelled drive / memory, both with zlfs
    target: float = 0.95  # the least ratio


ROWS = (
    Row("wal"),
    Row("no-wal", options=("--disable_wal=1",)),
    Row("mmap", tmpfs=("--mmap_read=1",)),
    Row("sync", options=("--sync=1",), share=0.5, judged=False),
    Row("model", options=("--disable_wal=1",), model=True, target=0.90),
)
NUM = int(os.environ.get("NUM", "1000000"))
REFUSED = 3
LIBRARY = Path(os.environ.get("ZLFS", ROOT / "build/native-release/zlfs/libzlfs.so"))
# In zones of 64 MiB, with the active limit of a common drive. The database takes a sixth: what is
# compared is the way to the device, not garbage collection.
ZONE_MIB = 64
ZONES_PER_MILLION = 48
FEWEST_ZONES = 20
# Once through all of the device before anything counts: tmpfs takes pages again that deleted files
# left, while a zone's first bytes wait for the kernel to find and clear memory. A larger device
# would not be written through.
WARM_UP = ("fillrandom", "overwrite")
BENCHMARKS = (*WARM_UP, "fillrandom", "overwrite", "compact", "readrandom")
# A statistics line is "fillrandom   :       2.712 micros/op 368667 ops/sec 2.712 seconds …".
LINE = re.compile(r"^(\w+)\s*:\s*[\d.]+ micros/op (\d+) ops/sec", re.M)


def operations(row: Row) -> int:
    """Return the operations of each phase."""
    return int(NUM * row.share)


def zones(row: Row) -> int:
    """Return the zones of a device whose sixth is the row's database."""
    return max(FEWEST_ZONES, ZONES_PER_MILLION * operations(row) // 1_000_000)


def device(row: Row, side: str, work: Path) -> str:
    """Return zlfs's device, without ``aux``: on a model, or in memory."""
    if row.model and side == "ours":
        return f"model:{never_waiting(work, zones(row))}?"
    return f"mem:bench?zones={zones(row)}&zone_size={ZONE_MIB}M&max_active=14&"


def argv(target: list[str], seed: int, row: Row) -> list[str]:
    """Return the command line; both sides differ in ``target`` only."""
    return [
        "db_bench",
        f"--benchmarks={','.join(BENCHMARKS)}",
        *target,
        f"--seed={seed}",
        f"--num={operations(row)}",
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
        *row.options,
    ]


def never_waiting(work: Path, zone_count: int) -> Path:
    """Return a file with a model whose commands take no time. Makes it if it is missing."""
    file = work / "never-waiting.json"
    if not file.exists():
        capacity = f"--capacity={zone_count * ZONE_MIB}MiB"
        export = (sys.executable, "-m", "harness", "model", "export", "p8-s64", capacity)
        exported = subprocess.run(export, cwd=ROOT, capture_output=True, text=True, check=True)
        file.write_text(json.dumps(without_times(json.loads(exported.stdout))))
    return file


def without_times(model: Any) -> Any:
    """Return the fields with every duration zero and every rate higher than memory's."""
    if isinstance(model, dict):
        return {name: without_times(value) for name, value in model.items()}
    if isinstance(model, list):
        return [without_times(value) for value in model]
    if isinstance(model, str) and re.fullmatch(r"[\d.]+[num]?s", model):
        return "0us"
    if isinstance(model, str) and re.fullmatch(r"[\d.]+[KMGT]?i?B/s", model):
        return "100000GiB/s"
    return model


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


def run(work: Path, side: str, seed: int, row: Row) -> tuple[dict[str, float], float]:
    """Run db_bench once; operations per second by phase, and the ledger's share of CPU time."""
    environment = dict(os.environ)
    folder = work / side
    folder.mkdir()
    if side == "ours" or row.model:
        environment["LD_PRELOAD"] = str(LIBRARY)
        target = [f"--fs_uri=zlfs://{device(row, side, work)}aux={folder}", "--db=/bench"]
    else:
        target = [f"--db={folder}", *row.tmpfs]
    before = os.times()
    process = subprocess.Popen(
        argv(target, seed, row),
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
    if tuple(name for name, _ in lines) != BENCHMARKS:
        sys.exit(f"zlfs: db_bench on {side} printed {[name for name, _ in lines]}: {out}")
    cpu = (after.children_user + after.children_system) - (
        before.children_user + before.children_system
    )
    shutil.rmtree(folder)
    return found, ledger / cpu


@dataclass(slots=True)
class Measured:
    """The pairs of one row."""

    row: Row
    logs: dict[str, list[float]]
    rates: dict[str, list[list[float]]]
    shares: list[float]  # of the ledger

    def ratios(self) -> dict[str, tuple[float, float, float]]:
        """Return ratio, low and high of each phase."""
        return {phase: interval(logs) for phase, logs in self.logs.items()}

    def resolved(self) -> bool:
        """Return whether every interval is narrow enough."""
        return max((high - low) / 2 for _, low, high in self.ratios().values()) <= HALF_WIDTH

    def report(self) -> dict[str, Any]:
        """Return the row's figures; the worst phase first."""
        ratios = self.ratios()
        worst = min(ratios, key=lambda phase: ratios[phase][0])
        return {
            "ratio": ratios[worst][0],
            "low": ratios[worst][1],
            "high": ratios[worst][2],
            "n": len(self.shares),
            "worst": worst,
            "phases": {
                phase: {"ratio": r, "low": lo, "high": hi, "ops_per_second": self.rates[phase]}
                for phase, (r, lo, hi) in ratios.items()
            },
            "resolved": self.resolved(),
            "judged": self.row.judged,
            "ledger_cpu_share_max": max(self.shares),
        }


def measure(row: Row) -> Measured:
    """Run the pairs of a row."""
    measured = Measured(row, {p: [] for p in PHASES}, {p: [] for p in PHASES}, [])
    with tempfile.TemporaryDirectory(prefix="zonelab-bench-", dir="/dev/shm") as folder:
        run(Path(folder), "ours", 1, row)  # warms up CPU and memory, counts for nothing
        run(Path(folder), "theirs", 1, row)
        for pair in range(PAIRS):
            # Which side goes first alternates, so that a drift of the machine cancels out.
            sides = ("ours", "theirs") if pair % 2 else ("theirs", "ours")
            results = {side: run(Path(folder), side, pair + 2, row) for side in sides}
            measured.shares.append(results["ours"][1])
            for phase in PHASES:
                ours, theirs = results["ours"][0][phase], results["theirs"][0][phase]
                measured.logs[phase].append(math.log(ours / theirs))
                measured.rates[phase].append([ours, theirs])
            line = ", ".join(
                f"{p} {r:.3f} [{lo:.3f}, {hi:.3f}]" for p, (r, lo, hi) in measured.ratios().items()
            )
            print(  # noqa: T201
                f"{row.name}, pair {pair + 1}: {line}, ledger {measured.shares[-1]:.3%}",
                flush=True,
            )
            if pair + 1 >= FEWEST_PAIRS and measured.resolved():
                break
    return measured


def main() -> int:
    """Measure, write the figures, judge them."""
    if not LIBRARY.exists():
        sys.exit(f"zlfs: {LIBRARY} is missing; hint: make bench-zlfs builds it")
    names = os.environ.get("ROWS", ",".join(row.name for row in ROWS)).split(",")
    rows = [measure(row) for row in ROWS if row.name in names]
    if not rows:
        sys.exit(f"zlfs: ROWS names none of {', '.join(row.name for row in ROWS)}")
    report = {
        "rows": {measured.row.name: measured.report() for measured in rows},
        "load_average_after": os.getloadavg()[0],
        "how": f"db_bench {','.join(BENCHMARKS)}, {NUM} keys of 16 B with 400 B (a tenth with"
        " sync), on zlfs over memory / on tmpfs (model: on zlfs over a model without times / over"
        " memory); alternating pairs with the same seed; paired t on log ratios; the ledger's share"
        " is CPU time of its thread / CPU time of the process",
    }
    store("zlfs", report)
    for measured in rows:
        shown = {k: v for k, v in measured.report().items() if k != "phases"}
        print(measured.row.name, json.dumps(shown))  # noqa: T201
    if max(share for measured in rows for share in measured.shares) > LEDGER_TARGET:
        return REFUSED
    # Slow only where the measurement shows it, not where it is merely unsure.
    slow = any(
        high < m.row.target for m in rows if m.row.judged for _, _, high in m.ratios().values()
    )
    return REFUSED if slow else 0


if __name__ == "__main__":
    sys.exit(main())
