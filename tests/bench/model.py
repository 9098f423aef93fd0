"""``make bench-model``: how fast the model of a drive is.

- ``reads``, ``mixed``: commands of 4 KiB per second of one core's time (``zonemodel run``). Wanted
  are 10 and 5 million. Reads at depth 1 and 32; mixed: half reads, half writes.
- ``validate``: seconds of ``zonelab model validate zn540-1tb`` on two processors, at most 60.
- ``replay``: seconds of ``zonelab replay`` with times, 33 settings of the trace of
  ``make bench-replay``, on two processors, at most 120. TRACE names a trace recorded before.

Writes build/bench/model.json.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import replay
from figures import store
from replay import NATIVE, ROOT

ROUNDS = int(os.environ.get("ROUNDS", "5"))
COMMANDS = 8_000_000
ZONES = 64
READS_WANTED, MIXED_WANTED = 10_000_000, 5_000_000
VALIDATE_SECONDS, REPLAY_SECONDS = 60, 120


def job(name: str, *clients: dict[str, Any]) -> dict[str, Any]:
    """Return a job on full and on empty zones of zn540-1tb."""
    return {
        "schema_version": 1,
        "name": name,
        "prepare": [{"zones": [0, ZONES], "fill_pct": 100}],
        "clients": list(clients),
    }


def client(command: str, depth: int, first: int, commands: int) -> dict[str, Any]:
    """Return a client that sends as many commands of 4 KiB."""
    return {
        "name": command,
        "mix": {command: 1},
        "size": "4KiB",
        "depth": depth,
        "zones": [first, first + ZONES],
        "commands": commands,
    }


JOBS = {
    "reads": job("reads", client("read", 1, 0, COMMANDS)),
    "reads_qd32": job("reads_qd32", client("read", 32, 0, COMMANDS)),
    "mixed": job(
        "mixed",
        client("read", 32, 0, COMMANDS // 2),
        client("write", 4, ZONES, COMMANDS // 2),
    ),
}


def cpu_seconds() -> float:
    """Return the processor time of all programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def rate(model: Path, path: Path) -> float:
    """Play a job once; commands per second of a core."""
    before = cpu_seconds()
    command = [str(NATIVE / "bin/zonemodel"), "run", "--model", str(model), "--job", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (played,) = json.loads(done.stdout)["results"]
    return float(played["commands"] / (cpu_seconds() - before))


def rates(work: Path) -> dict[str, list[float]]:
    """Return the rates of each job."""
    model = work / "model.json"
    code = (
        "import json; from harness.plan import drive_files as f;"
        "print(json.dumps(f.program_input(f.load_model('zn540-1tb'))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    model.write_text(done.stdout)
    found = {}
    for name, one in JOBS.items():
        path = work / f"{name}.json"
        path.write_text(json.dumps(one))
        found[name] = [rate(model, path) for _ in range(ROUNDS)]
    return found


def validate_seconds() -> float:
    """Validate zn540-1tb once; seconds."""
    environment = {**os.environ, "ZONELAB_NATIVE": str(NATIVE / "bin")}
    begin = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "harness", "model", "validate", "zn540-1tb", "--threads", "2"],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        check=False,  # 4 where a core curve fails: not the matter here
    )
    return time.monotonic() - begin


def replay_seconds(work: Path) -> dict[str, float]:
    """Play the grid with times once; seconds, processor time and settings."""
    uri = f"mem:large?{replay.DEVICE}&finish_occupancy_pct=70"
    trace = replay.TRACE or replay.load(work / "large", uri, replay.OPERATIONS, 24 << 20)
    axes = ("--finish-occupancy-pct", replay.THRESHOLDS, "--zone-capacity", replay.SIZES)
    begin, used = time.monotonic(), cpu_seconds()
    rows = replay.replay(trace, *axes, "--jobs", "2", "--model", "zn540-1tb")
    return {
        "replay_seconds": time.monotonic() - begin,
        "replay_cpu_seconds": cpu_seconds() - used,
        "replay_settings": len(rows),
    }


def main() -> int:
    """Measure; exit status 1 when something is slower than wanted."""
    work = Path(tempfile.mkdtemp(prefix="bench-model-"))
    try:
        found = rates(work)
        validate = validate_seconds()
        grid = replay_seconds(work)
    finally:
        shutil.rmtree(work)
    median = {name: statistics.median(values) for name, values in found.items()}
    result = {
        "commands_per_second": found,
        "how": f"zonemodel run, {COMMANDS} commands of 4 KiB; rates per second of processor time",
        "n": ROUNDS,
        "validate_seconds": validate,
        **grid,
    }
    store("model", result)
    print(json.dumps({**result, "commands_per_second": median}))  # noqa: T201
    fast = median["reads"] >= READS_WANTED and median["mixed"] >= MIXED_WANTED
    soon = validate <= VALIDATE_SECONDS and grid["replay_seconds"] <= REPLAY_SECONDS
    return int(not (fast and soon))


if __name__ == "__main__":
    sys.exit(main())
