"""``zonelab age``: bring a device to a stated condition before a campaign."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from harness.cli.output import add_format, print_table
from harness.drive.precondition import Condition, Preconditioning, last
from harness.errors import ExitCode, UsageError
from harness.observe import zones
from harness.quantities import format_size
from harness.run import lock
from harness.run.bench import Paths
from harness.run.guard import Guard
from harness.run.host import Host
from harness.run.journal import Journal
from harness.store.codec import encode

HELP = """\
Precondition a device: purge it, write all of it a number of times with data that no drive
compresses, purge it again. ALL DATA ON IT IS LOST. The guard is asked as for a run.

  zonelab age nvme2n2                     purge only: every zone reset
  zonelab age nvme2n2 --passes 2          write the capacity twice, the second time zones shuffled
  zonelab age nvme2n3 --passes 1 --keep   fill what is left of a drive, and leave it full
  zonelab age nvme2n2 --show              what was done last

The drive's health is asked before, its temperature every 32 GiB. What was done is kept in the state
folder and goes into the manifest of every later run. A kill leaves zones that are not empty: the
next call needs --erase IDENTITY.

exit: 0 done, 2 unhealthy or hot drive, 3 the guard refused"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare options."""
    parser.add_argument("device", help="nvme2n2, /dev/nvme2n2 or /dev/disk/by-id/…")
    parser.add_argument("--passes", type=int, default=0, metavar="N", help="default: 0")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="default: 1")
    parser.add_argument("--keep", action="store_true", help="leave what the last pass wrote")
    parser.add_argument("--show", action="store_true", help="write nothing")
    parser.add_argument(
        "--unless-done", action="store_true", help="nothing when the last one was the same"
    )
    parser.add_argument(
        "--erase", action="append", default=[], metavar="ID", help="identity that may be wiped"
    )
    parser.add_argument(
        "--state-dir", type=Path, default=Path("/var/lib/zonelab"), metavar="DIR",
        help="journal, lock and record (default: %(default)s)",
    )  # fmt: skip
    add_format(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Precondition, or show what was done."""
    if arguments.passes < 0:
        raise UsageError(f"--passes {arguments.passes}", hint="0 or more")
    if arguments.keep and not arguments.passes:
        raise UsageError("--keep without --passes keeps nothing", hint="--passes 1")
    host, paths = Host(), Paths(arguments.state_dir, Path("/run/zonelab"))
    device = host.device(arguments.device)
    if arguments.keep and not device.zoned:
        raise UsageError(f"{device.path} has no zones", hint="--keep is for zoned namespaces")
    done = last(paths.state, device)
    if not arguments.show and not (arguments.unless_done and _stands(done, arguments, host)):
        with lock.exclusive(paths.lock, f"preconditioning of {device.path}"):
            guard = Guard(host, Journal(paths.journal), arguments.erase)
            size = format_size(arguments.passes * device.capacity)
            print(f"{device.path}: {size} will be written", file=sys.stderr)
            work = Preconditioning(
                host, paths, guard, device, lambda line: print(line, file=sys.stderr, flush=True)
            )
            done = work.run(arguments.passes, arguments.seed, keep=arguments.keep)
        print("changed", file=sys.stderr)
    if arguments.format == "json":
        print(json.dumps(encode(done), indent=1))
    elif done is None:
        print("never preconditioned by zonelab", file=sys.stderr)
    else:
        rows = [(name, str(value)) for name, value in encode(done).items()]
        print_table(("preconditioning", ""), rows)
    return ExitCode.OK


def _stands(done: Condition | None, arguments: argparse.Namespace, host: Host) -> bool:
    """Whether the device is as asked: what was kept may have been overwritten by a run since."""
    asked = (arguments.passes, arguments.seed, arguments.keep)
    if done is None or (done.passes, done.seed, done.kept) != asked:
        return False
    if not arguments.keep:
        return True
    device = host.device(arguments.device)
    return zones.count(host.zones(device.path)).full == device.zones
