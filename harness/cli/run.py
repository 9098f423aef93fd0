"""``zonelab run``: execute a plan on the machine under test."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from harness.cli.output import add_format, add_retry, print_records
from harness.errors import ExitCode
from harness.levels import LEVELS
from harness.run import numa, unit
from harness.run.bench import Paths
from harness.run.execute import Request, execute_plan, selected
from harness.run.host import Host
from harness.store.campaign import load_plan
from harness.store.codec import encode
from harness.store.result import Status
from harness.tools import db_bench

HELP = """Execute the runs of a plan that are not complete yet, one after the other.

Every run formats the devices of the plan: ALL DATA ON THEM IS LOST. The guard refuses devices that
are in use or carry data which zonelab did not write.

  zonelab run --plan plan.json --host rig0 --detach     as a systemd unit: survives a lost ssh
  zonelab run --plan plan.json --host rig0 --retry failed,invalid

--format json prints a list of {run, level, status, reason, issues, seconds, new}, one per run.

exit: 0 all ok or skipped, 2 cannot start, 3 the guard refused, 4 a run failed or is invalid,
130 interrupted (everything was put back; run again to resume)"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare options."""
    parser.add_argument("--plan", type=Path, required=True, help="plan.json of the campaign")
    parser.add_argument("--host", required=True, help="which of the plan's hosts this machine is")
    parser.add_argument(
        "--state-dir", type=Path, default=Path("/var/lib/zonelab"), metavar="DIR",
        help="journal, lock and runs (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--runtime-dir", type=Path, default=Path("/run/zonelab"), metavar="DIR",
        help="mount points (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--program-path", type=Path, metavar="FILE",
        help="db_bench (default: $ZONELAB_DB_BENCH, else the one that was built, else on $PATH)",
    )  # fmt: skip
    add_retry(parser, "statuses to repeat")
    parser.add_argument("--only", action="append", default=[], metavar="RUN", help="this run only")
    parser.add_argument(
        "--erase", action="append", default=[], metavar="ID", help="identity that may be wiped"
    )
    parser.add_argument("--conventional", metavar="DEV", help="the companion the user named")
    parser.add_argument(
        "--numa", choices=("drive", "none"), default="none",
        help="drive: only on the processors of the drive's node (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--detach", action="store_true", help="run as a systemd unit, return")
    add_format(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Run the plan; exit 4 when a run failed or is invalid."""
    plan = load_plan(arguments.plan)
    paths = Paths(arguments.state_dir.resolve(), arguments.runtime_dir.resolve())
    program = db_bench.find(arguments.program_path)
    if arguments.detach:
        selected(plan, arguments.host, arguments.only, LEVELS)
        print(unit.detach(sys.argv[1:], paths, plan.campaign))
        return ExitCode.OK
    request = Request(
        host_name=arguments.host,
        program=program,
        paths=paths,
        retry=arguments.retry,
        only=tuple(arguments.only),
        erase=tuple(arguments.erase),
        conventional=arguments.conventional,
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
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )
    print_records([encode(outcome) for outcome in outcomes], arguments.format)
    bad = {Status.FAILED.value, Status.INVALID.value}
    return ExitCode.RUNS_FAILED if any(o.status in bad for o in outcomes) else ExitCode.OK
