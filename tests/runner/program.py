"""``python -m tests.runner.program ROOT PLAN [--retry …]``: ``zonelab run`` on the fake machine."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import harness.cli.run as command
from harness import levels as room
from harness import rules, workloads
from harness.cli import main as entry
from harness.machine import paths
from harness.run import barrier, judging, load_process, recording
from harness.tools import discard, dmsetup, proc, zone_reset
from harness.tools.kernel import Kernel
from tests.runner.fakes import FakeBaseline, FakeHost, FakeLevel

if __name__ == "__main__":
    root = Path(sys.argv[1])
    # Modules that a test puts beside ours are found as ours are.
    for package in (room, rules, workloads):
        package.__path__.append(str(root / package.__name__.rpartition(".")[2]))
    workloads.PROGRAMS.update(workloads.discover())
    vars(rules)["RULES"] = rules.discover()
    own = (FakeLevel(root), FakeBaseline(root))
    levels = room.discover() | {level.name: level for level in own}
    for level in levels.values():
        vars(level).update({"kernel": Kernel(root)} if hasattr(level, "kernel") else {})
    vars(command).update(Host=lambda: FakeHost(root), LEVELS=levels)
    vars(paths).update(LOCK=root / "lock" / "machine")
    vars(dmsetup).update(node=lambda name: root / "dev" / "mapper" / name)
    # The real one asks the kernel, which knows no zones in a file.
    device = FakeHost(root).device("nvme0n2")
    vars(zone_reset).update(reset_all=lambda *_: FakeHost(root).reset_zones(device))
    vars(discard).update(discard=FakeHost(root).discard)
    # A fake device has nothing to settle: what is waited for changes at once, or not at all.
    assert "_SETTLE_SECONDS" in vars(barrier)
    vars(barrier)["_SETTLE_SECONDS"] = 0.01
    if (root / "no-judge").exists():

        def no_judge(*_: object) -> None:
            raise RuntimeError("no judge")

        assert "judge" in vars(judging)
        vars(judging).update(judge=no_judge)
    if (root / "no-room-to-unpack").exists():

        def no_room(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        assert "unpacked" in vars(recording)
        vars(recording).update(unpacked=no_room)
    if (root / "unkillable").exists():
        vars(os).update(killpg=lambda *_: None)
        for module, name in ((proc, "_END_SECONDS"), (load_process, "_GRACE_SECONDS")):
            assert name in vars(module), name
            vars(module)[name] = 0.2
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
