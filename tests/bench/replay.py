"""``make bench-replay``: the time of a whole grid of replays, and their accuracy.

kvmix applies the mix of [S4] by four threads to zlfs in memory until the device took more than
10 GB, recorded. Then ``zonelab replay`` plays 11 thresholds x 3 zone sizes on two processors,
ROUNDS times; ``ratio`` is seconds over the 60 that it may take. Beside it:

- ``exact``: the recorded setting, replayed, is the recorded ledger;
- ``own_rules``: the same by the rules of all other settings, over what was recorded;
- ``live``: a smaller load, recorded at one setting; others replayed from it and, with the same
  seed, run. Replayed over run by metric: smallest, median, largest of the seeds. Threads differ
  from run to run, so the recorded setting, run twice, shows how much: ``run_over_run``.

Writes build/bench/replay.json.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from figures import store

ROOT = Path(__file__).parents[2]
NATIVE = Path(os.environ.get("NATIVE", ROOT / "build/native-release"))
ROUNDS = int(os.environ.get("ROUNDS", "5"))
LIMIT_SECONDS = 60
LEAST_BYTES = 10_000_000_000
THRESHOLDS = ",".join(str(pct) for pct in range(0, 101, 10))
# As the grid of [S4]; 4 GiB, so that 32 zones of 128 MiB hold the data.
SIZES = "128MiB,64MiB,32MiB"
DEVICE = "zones=64&zone_size=64M&max_active=14"
OPERATIONS = int(os.environ.get("OPERATIONS", "2000000"))
# One that an earlier call recorded: recording takes minutes, and is not what is measured.
TRACE = Path(os.environ["TRACE"]) if "TRACE" in os.environ else None
# A sixteenth of it, in zones of a sixteenth, to be run at several settings.
SMALL_DEVICE = {4: "zones=64&zone_size=4M&max_active=14", 2: "zones=128&zone_size=2M&max_active=14"}
SEEDS = (7, 8, 9)
SMALL_SETTINGS = ((4, 0), (4, 50), (4, 100), (2, 50))
COMPARED = (
    "pad_bytes",
    "zone_finishes",
    "zone_resets",
    "gc_bytes",
    "device_written",
    "wa_pad",
    "sa_host",
    "space_amplification",
)


def load(folder: Path, uri: str, operations: int, table: int, seed: int = 7) -> Path:
    """Apply the mix to a new device; return the trace."""
    folder.mkdir()
    trace = folder / "trace"
    command = [
        str(NATIVE / "kvmix/kvmix"),
        "run",
        f"--fs_uri=zlfs://{uri}&aux={folder}/aux&trace={trace}",
        "--db=/bench",
        "--insert=50",
        "--update=25",
        "--delete=10",
        "--query=15",
        "--absent_share=1",
        f"--operations={operations}",
        "--value_size=2000",
        "--compression_ratio=1",
        "--threads=4",
        f"--seed={seed}",
        f"--write_buffer_size={table}",
        f"--target_file_size_base={table}",
        f"--max_bytes_for_level_base={4 * table}",
        "--max_background_jobs=3",
        "--open_files=-1",
    ]
    environment = {**os.environ, "LD_PRELOAD": str(NATIVE / "zlfs/libzlfs.so")}
    subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return trace


def replay(trace: Path, *options: str) -> list[dict[str, Any]]:
    """Play a trace; the rows that zonelab prints."""
    command = [sys.executable, "-m", "harness", "replay", str(trace), *options, "--format", "json"]
    environment = {**os.environ, "ZONELAB_NATIVE": str(NATIVE / "replay")}
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True
    )
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def over(value: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, float | None]:
    """Return value / base by metric; null where the base is 0 and the value is not."""
    found: dict[str, float | None] = {}
    for name in COMPARED:
        if base[name]:
            found[name] = value[name] / base[name]
        else:
            found[name] = 1.0 if value[name] == base[name] else None
    return found


def spread(ratios: list[dict[str, float | None]]) -> dict[str, list[float] | None]:
    """Return the smallest, the median and the largest ratio by metric; null where one is null."""
    found: dict[str, list[float] | None] = {}
    for name in COMPARED:
        values = [value for one in ratios if (value := one[name]) is not None]
        whole = len(values) == len(ratios)
        found[name] = [min(values), statistics.median(values), max(values)] if whole else None
    return found


def against_live(work: Path) -> dict[str, Any]:
    """Replay other settings from one recording, and run them; once for each seed."""
    base = SMALL_SETTINGS[1]
    replayed: dict[tuple[int, int], list[dict[str, float | None]]] = {}
    again = []
    for seed in SEEDS:
        rows: dict[tuple[int, int], dict[str, Any]] = {}
        for number, (size, threshold) in enumerate((*SMALL_SETTINGS, base)):
            folder = work / f"small{seed}-{number}"
            uri = f"mem:{folder.name}?{SMALL_DEVICE[size]}&finish_occupancy_pct={threshold}"
            trace = load(folder, uri, OPERATIONS // 18, 3 << 20, seed)
            (row,) = replay(trace)
            if (size, threshold) in rows:
                again.append(over(row, rows[size, threshold]))
            else:
                rows[size, threshold] = row
        recorded = work / f"small{seed}-1" / "trace"
        for size, threshold in SMALL_SETTINGS:
            options = (f"--zone-capacity={size}MiB", f"--finish-occupancy-pct={threshold}")
            (row,) = replay(recorded, *options, "--own-rules")
            ratio = over(row, rows[size, threshold])
            replayed.setdefault((size, threshold), []).append(ratio)
    return {
        "recorded_at": f"{base[0]} MiB, {base[1]} %",
        "replayed_over_run": {
            f"{size} MiB, {threshold} %": spread(ratios)
            for (size, threshold), ratios in replayed.items()
        },
        "run_over_run": spread(again),
        "n": len(SEEDS),
    }


def main() -> int:
    """Measure; exit status 1 when a grid takes too long or a replay is not exact."""
    work = Path(tempfile.mkdtemp(prefix="bench-replay-"))
    try:
        uri = f"mem:large?{DEVICE}&finish_occupancy_pct=70"
        trace = TRACE or load(work / "large", uri, OPERATIONS, 24 << 20)
        done = subprocess.run(
            [str(NATIVE / "replay/zlfs-replay"), str(trace), "--info"],
            capture_output=True,
            text=True,
            check=True,
        )
        (mount,) = json.loads(done.stdout)["mounts"]
        written = sum(
            part["payload"] + part["pad"] for part in mount["recorded"]["written"].values()
        )
        seconds, grid = [], []
        for _ in range(ROUNDS):
            begin = time.monotonic()
            grid = replay(
                trace, "--finish-occupancy-pct", THRESHOLDS, "--zone-capacity", SIZES, "--jobs", "2"
            )
            seconds.append(time.monotonic() - begin)
        (exact,) = replay(trace)  # fails unless it is the ledger
        (own,) = replay(trace, "--own-rules")
        live = against_live(work)
        size = trace.stat().st_size
    finally:
        shutil.rmtree(work)
    result = {
        "ratio": statistics.median(seconds) / LIMIT_SECONDS,
        "low": min(seconds) / LIMIT_SECONDS,
        "high": max(seconds) / LIMIT_SECONDS,
        "n": ROUNDS,
        "how": f"zonelab replay, {len(grid)} settings, --jobs 2; ratio: median seconds / "
        f"{LIMIT_SECONDS}, low and high: fewest and most",
        "seconds": seconds,
        "trace": {"device_bytes": written, "events": mount["events"], "bytes": size},
        "infeasible": sum(row["status"] == "infeasible" for row in grid),
        "exact": exact["label"] == "recorded",
        "own_rules": over(own, exact),
        "live": live,
    }
    store("replay", result)
    print(json.dumps({key: result[key] for key in ("ratio", "seconds", "trace", "own_rules")}))  # noqa: T201
    enough = written >= LEAST_BYTES and math.isfinite(result["ratio"])
    return int(not enough or result["high"] > 1)


if __name__ == "__main__":
    sys.exit(main())
