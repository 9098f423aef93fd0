"""``make bench-scale``: loads, compares and renders a large SYNTHETIC campaign.

RUNS (10,000) runs of four levels with SAMPLES (600) one-second samples each, packed as the runner
does, in a temporary folder. They have no histograms, ledgers or output of programs. A child process
reads and renders them, so that its time and memory are its own, with those of the processes that it
starts. Writes build/bench/scale.json. Exits 1 above 30 s of wall time or 1 GiB, at the full size.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from analysis.judge.compare import compare
from analysis.read.load import load
from analysis.show.report import write_report
from harness.store import checksums, packed
from harness.store.spec import DeviceKind
from tests.bench.figures import store
from tests.fixtures.campaigns import write_campaign

RUNS = int(os.environ.get("RUNS", "10000"))
SAMPLES = int(os.environ.get("SAMPLES", "600"))
LEVELS = ("conventional-ext4", "conventional-xfs", "f2fs", "btrfs")
MOST_SECONDS, MOST_BYTES = 30.0, 1024**3


def generate(folder: Path) -> None:
    """Write the campaign: RUNS run directories with series of SAMPLES lines."""
    write_campaign(
        folder,
        levels=LEVELS,
        repetitions=RUNS // len(LEVELS),
        kind=DeviceKind.HARDWARE,
        series=False,
    )
    disk = "".join(f"{t}.000,{t * 1000},{t * 900_000}\n" for t in range(SAMPLES))
    for number, run in enumerate(sorted(folder.glob("hosts/*/runs/*"))):
        series = run / "series"
        series.mkdir()
        speed = "".join(f"{t}.000,{7000 + (t * 37 + number) % 2000}\n" for t in range(SAMPLES))
        _keep(series / "diskstats.csv", f"t,nvme0n1.write_bytes,nvme0n2.write_bytes\n{disk}")
        _keep(series / "overwrite.csv", f"t,operations\n{speed}")
        checksums.write(run)


def _keep(path: Path, text: str) -> None:
    """Write a series as a complete run has it: packed when it is large."""
    suffix = ".xz" if len(text) > packed.LARGE else ""
    path.with_name(path.name + suffix).write_bytes(_packed(suffix, text))


@lru_cache(maxsize=4)  # one of the two is the same in each run
def _packed(suffix: str, text: str) -> bytes:
    return packed.pack(suffix, text.encode())


def measure(folder: Path) -> dict[str, float]:
    """Load, compare and render; seconds of each step, peak bytes of all processes, of the page."""
    times = [time.monotonic()]
    campaign = load(folder)
    times.append(time.monotonic())
    comparison = compare(campaign)
    times.append(time.monotonic())
    page, _ = write_report(comparison, folder / "report")
    times.append(time.monotonic())
    load_, compare_, report = (b - a for a, b in pairwise(times))
    processes = (os.getpid(), *(child.pid for child in multiprocessing.active_children()))
    return {
        "load_seconds": load_,
        "compare_seconds": compare_,
        "report_seconds": report,
        "seconds": times[-1] - times[0],
        "page_bytes": page.stat().st_size,
        "peak_bytes": sum(_peak_bytes(process) for process in processes),
    }


def _peak_bytes(process: int | None) -> int:
    """Return a process's peak memory. Peaks of several processes are not at the same moment."""
    status = Path(f"/proc/{process}/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


# Without a main module, as the command zonelab has next to none: its processes would import it.
_CHILD = """
import json, pathlib, sys
from tests.bench.scale import measure
sys.stdout.write(json.dumps(measure(pathlib.Path(sys.argv[1]))))
"""


def main() -> int:
    """Generate the campaign, measure in a separate process, and print the result."""
    with tempfile.TemporaryDirectory(prefix="zonelab-scale-") as folder:
        sys.stderr.write(f"generating {RUNS} runs of {SAMPLES} samples\n")
        generate(Path(folder) / "scale")
        done = subprocess.run(
            [sys.executable, "-c", _CHILD, str(Path(folder) / "scale")],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = json.loads(done.stdout) | {
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "runs": RUNS,
        "samples": SAMPLES,
        "cpus": os.cpu_count(),
    }
    store("scale", found)
    sys.stdout.write(json.dumps(found, indent=1) + "\n")
    fits = found["seconds"] <= MOST_SECONDS and found["peak_bytes"] <= MOST_BYTES
    return 0 if fits else 1


if __name__ == "__main__":
    sys.exit(main())
