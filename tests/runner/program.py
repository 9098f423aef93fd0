"""``python -m tests.runner.program ROOT PLAN [--retry …]``: ``zonelab run`` on the fake machine."""

from __future__ import annotations

import sys
from pathlib import Path

import harness.cli.run as command
from harness.cli import main as entry
from harness.levels.zlfs import Zlfs
from harness.tools import zone_reset
from tests.runner.fakes import FakeBaseline, FakeHost, FakeLevel

if __name__ == "__main__":
    root = Path(sys.argv[1])
    levels = {level.name: level for level in (FakeLevel(root), FakeBaseline(root), Zlfs())}
    vars(command).update(Host=lambda: FakeHost(root), LEVELS=levels)
    # The real one asks the kernel, which knows no zones in a file.
    device = FakeHost(root).device("nvme0n2")
    vars(zone_reset).update(reset_all=lambda *_: FakeHost(root).reset_zones(device))
    options = ["--state-dir", str(root / "state"), "--runtime-dir", str(root / "run")]
    options += ["--program-path", str(Path(__file__).parent / "fake_db_bench.py")]
    sys.exit(
        entry.main(
            [
                "run",
                "--plan",
                sys.argv[2],
                "--host",
                "h",
                "--format",
                "json",
                *options,
                *sys.argv[3:],
            ]
        )
    )
