"""``zonelab run``: execute a plan on the machine under test."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from harness.cli.output import (
    add_erase,
    add_format,
    add_repeatable,
    add_retry,
    add_state_dir,
    print_records,
    say_on_stderr,
)
from harness.errors import ExitCode
from harness.levels import LEVELS
from harness.machine import numa
from harness.machine.host import Host
from harness.machine.paths import RUNTIME, Paths
from harness.run import service
from harness.run.execute import Request, execute_plan, selected
from harness.store.campaign import load_plan
from harness.store.codec import encode
from harness.store.result import BAD
from harness.tools import db_bench

SUMMARY = "execute a plan on this machine (as root, on the machine under test)"
GROUP = "users"
SHIPPED = True
HELP = """Execute the runs of a plan that are not complete yet, one after the other.

Each run formats the plan's devices: ALL DATA ON THEM IS LOST. The guard refuses a device that is in
use or holds data that zonelab did not write.

examples:
  zonelab run --plan plan.json --host rig0 --detach     as a systemd unit: survives a lost ssh
  zonelab run --plan plan.json --host rig0 --retry failed,invalid

--format json prints a list of {run, level, status, reason, issues, seconds, new}, one per run.

exit: 0 all ok or skipped, 2 cannot start, 3 the guard refused, 4 a run failed or is invalid,
130 interrupted (settings are restored; repeat the command to resume)"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare options."""
    parser.add_argument("--plan", type=Path, required=True, help="plan.json of the campaign")
    parser.add_argument("--host", required=True, help="name of this machine in the plan")
    add_state_dir(parser, "journal, lock and runs")
    parser.add_argument(
        "--runtime-dir",
        type=Path,
        default=RUNTIME,
        metavar="DIR",
        help="folder of mount points (default: %(default)s)",
    )
    parser.add_argument(
        "--program-path",
        type=Path,
        metavar="FILE",
        help="path of db_bench (default: $ZONELAB_DB_BENCH, zonelab's build, or from $PATH)",
    )
    add_retry(parser, "statuses to repeat")
    add_repeatable(parser, "--only", "RUN", "execute only this run")
    add_erase(parser)
    parser.add_argument(
        "--numa",
        choices=("drive", "none"),
        default="none",
        help="drive: use only processors of the drive's NUMA node (default: %(default)s)",
    )
    parser.add_argument("--detach", action="store_true", help="start a systemd unit and return")
    add_format(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Run the plan; exit 4 when a run failed or is invalid."""
    plan = load_plan(arguments.plan)
    paths = Paths(arguments.state_dir.resolve(), arguments.runtime_dir.resolve())
    program = db_bench.find(arguments.program_path)
    if arguments.detach:
        selected(plan, arguments.host, arguments.only, LEVELS)
        print(service.detach(sys.argv[1:], paths, plan.campaign))
        return ExitCode.OK
    request = Request(
        host_name=arguments.host,
        program=program,
        paths=paths,
        retry=arguments.retry,
        only=tuple(arguments.only),
        erase=tuple(arguments.erase),
    )
    host = Host()
    if arguments.numa == "drive":
        runs = selected(plan, arguments.host, arguments.only, LEVELS)
        for planned in runs[:1]:
            print(numa.bind(host, host.find(planned.device)), file=sys.stderr)
    outcomes = execute_plan(
        plan,
        request,
        host=host,
        levels=LEVELS,
        say=say_on_stderr,
    )
    print_records([encode(outcome) for outcome in outcomes], arguments.format)
    return ExitCode.RUNS_FAILED if any(o.status in BAD for o in outcomes) else ExitCode.OK
