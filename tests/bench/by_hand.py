"""Runs on the guest: one run's phases, started by a plain shell.

usage: by_hand.py ZIPAPP PLAN RUN     prints JSON {phase: ops/s}

The level is brought up by the same code, the argument lists are the same; there is no sampler, no
progress file, no cgroup, and this process sleeps in wait() while db_bench works.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, sys.argv[1])

from harness.levels import LEVELS
from harness.levels.level import LevelContext
from harness.run.phase import seed
from harness.store.campaign import load_plan
from harness.tools import proc
from harness.workloads import load_program
from harness.workloads.db_bench import DbBench


def main() -> None:
    plan = load_plan(Path(sys.argv[2]))
    spec = next(run for host in plan.hosts for run in host.runs if run.run == sys.argv[3])
    level = LEVELS[spec.level]
    scratch = Path(tempfile.mkdtemp(prefix="zonelab-by-hand-"))
    context = LevelContext(
        spec.device, spec.conventional, spec.level_options, scratch, "byhand", lambda: None
    )
    up = level.up(context)
    speeds = {}
    try:
        for index, phase in enumerate(spec.phases):
            call = load_program.Invocation(
                phase,
                up,
                seed(spec.seed, spec.phases, phase),
                first=index == 0,
                program=proc.which("db_bench"),
                report=DbBench().report(up, scratch / "report.csv", scratch / "stderr"),
            )
            level.sync(up)
            done = subprocess.run(DbBench().argv(call), capture_output=True, text=True, check=True)
            parsed = DbBench().parse(phase, done.stdout, done.stderr)
            speeds[phase.name] = load_program.metrics(phase, parsed)["throughput"].value
    finally:
        level.down(up)
        # The guard would refuse data that no journal knows.
        blank = ["blkdiscard", "--force", "--zeroout", spec.conventional.path]
        subprocess.run(blank, check=True)
    print(json.dumps(speeds))  # noqa: T201


main()
