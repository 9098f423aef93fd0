"""``make example-bundles``: records the campaigns under ``results/`` again, on rigs.

The example is the first study in small, so that its bundle stays below 1 MB: RocksDB logs every
file, and so there are fewer and larger ones. It has no warm-up and two levels, and zlfs has no
garbage to collect.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
ZONELAB = ROOT / ".venv/bin/zonelab"
RESULTS = Path("results")

_PHASES = (
    "[{name: fillrandom, benchmark: fillrandom, role: fill, operations: {keys: 1}},"
    " {name: overwrite, benchmark: overwrite, role: measured, operations: {free_space: 0.9}}]"
)


@dataclass(frozen=True)
class Example:
    """A study as it is recorded for ``results/``."""

    study: str
    repetitions: int
    levels: tuple[str, ...]
    settings: dict[str, str]

    def command(self, campaign: str) -> list[str]:
        """Return the words of ``zonelab study``."""
        changes = " ".join(f"{name}={value}" for name, value in self.settings.items())
        words = ["study", self.study, "--yes", "--bytes-only", "--campaign", campaign]
        words += ["--repetitions", str(self.repetitions), "--levels", ",".join(self.levels)]
        return [*words, "--set", changes]


STUDIES = {
    "example": Example(
        study="integration-levels",
        repetitions=4,
        levels=("conventional-ext4", "conventional-ext4-twin", "zlfs"),
        settings={
            "question": "Which level writes fewest bytes to the medium in a short overwrite?",
            "target_utilisation": "75%",
            "turnover": "0.6",  # of the capacity
            "workload.database_share": "6%",
            "workload.fill_share": "0.85",
            "workload.files_per_zone": "1",
            "workload.write_buffers_per_file": "2",
            "workload.phases": _PHASES,
        },
    ),
    "thresholds": Example(
        study="finish-thresholds-small",
        repetitions=1,
        levels=("zlfs",),
        settings={
            "factors": "{finish_occupancy_pct: [50], zone_size: [4MiB, 2MiB]}",
            "baseline": '"50"',
            "twin": "false",  # one run of each cell, for a replay
        },
    ),
}
_RUNS = "results/thresholds/hosts/rig-finish-small/runs"
REPLAYS = {
    "example-thresholds": [
        *("replay", f"{_RUNS}/zlfs_finish_occupancy_pct-50_zone_size-4mib--r01"),
        *("--finish-occupancy-pct", "0,10,20,30,40,50,60,70,80,90,100"),
        *("--zone-capacity", "8MiB,4MiB,2MiB", "--campaign", "example-thresholds"),
    ]
}
# `thresholds` is only the source of a replay.
BUNDLES = ("example", "example-thresholds")


def zonelab(*words: str) -> None:
    """Run a command of zonelab in the checkout; raise CalledProcessError if it fails."""
    subprocess.run([ZONELAB, *words], cwd=ROOT, check=True)


def main() -> int:
    """Record all campaigns, and replace the bundles. The campaigns' folders stay."""
    commands = {name: study.command(name) for name, study in STUDIES.items()} | REPLAYS
    for name, command in commands.items():
        shutil.rmtree(ROOT / RESULTS / name, ignore_errors=True)
        zonelab(*command)
    for name in BUNDLES:
        (ROOT / RESULTS / f"{name}.tar.xz").unlink(missing_ok=True)
        archive = f"{RESULTS / name}.tar.xz"
        zonelab("bundle", str(RESULTS / name), "--no-report", "--output", archive)
    return 0


if __name__ == "__main__":
    sys.exit(main())
