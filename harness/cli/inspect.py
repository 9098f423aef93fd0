"""``zonelab inspect``: a device, its limits, the guard's verdict, and the levels it can run."""

from __future__ import annotations

import argparse
import csv
import json
import platform
import sys
from pathlib import Path

from harness.cli.output import add_format, print_records, print_table
from harness.errors import ExitCode, GuardRefused
from harness.levels import LEVELS
from harness.run.bench import Paths
from harness.run.guard import Guard
from harness.run.host import Host, facts_of
from harness.run.inspection import inspect
from harness.run.journal import Journal
from harness.store.codec import encode
from harness.store.spec import Inspection

HELP = """Show what a zoned device is, whether the guard would let zonelab use it, and which
integration levels can run on it and why not. Reads only; nothing is written.

  zonelab inspect nvme0n2
  zonelab inspect nvme0n2 nvme0n3    for studies that vary the device
  zonelab inspect /dev/nvme2n2 --conventional sdb1 --format json

--format json prints the record that zonelab plan reads (host.json in docs/architecture.md)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare options."""
    parser.add_argument(
        "device",
        nargs="+",
        help="nvme2n2, /dev/nvme2n2 or /dev/disk/by-id/…; further ones behind it",
    )
    parser.add_argument("--conventional", metavar="DEV", help="conventional companion")
    parser.add_argument("--erase", action="append", default=[], metavar="ID", help="may be wiped")
    parser.add_argument(
        "--state-dir", type=Path, default=Path("/var/lib/zonelab"), metavar="DIR",
        help="journal, lock and runs (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--host-name", default=platform.node(), help="name in the inventory")
    parser.add_argument("--require-allowed", action="store_true", help="exit 3 when refused")
    add_format(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Print the inspection."""
    host = Host()
    journal = Journal(Paths(arguments.state_dir, Path("/run/zonelab")).journal)
    found = inspect(
        host,
        Guard(host, journal, arguments.erase),
        LEVELS,
        path=arguments.device[0],
        others=arguments.device[1:],
        conventional=arguments.conventional,
        host_name=arguments.host_name,
    )
    if arguments.format == "json":
        print(json.dumps(encode(found), indent=1))
    elif arguments.format == "csv":
        rows = [[fact, value] for fact, value in facts_of(found.device).items()]
        rows += [[f"level {p.level}", p.reason.code if p.reason else "ok"] for p in found.levels]
        csv.writer(sys.stdout, lineterminator="\n").writerows([["fact", "value"], *rows])
    else:
        _show(found, arguments.format)
    if arguments.require_allowed and found.refusals:
        first = found.refusals[0]
        raise GuardRefused(first.message, hint=first.hint, code=first.code)
    return ExitCode.OK


def _show(found: Inspection, format_: str) -> None:
    print_table(
        ("device", ""), [(fact, str(value)) for fact, value in facts_of(found.device).items()]
    )
    print()
    if found.conventional is not None:
        print(f"conventional device: {found.conventional.path} ({found.conventional.size} B)")
    elif found.conventional_reason is not None:
        print(f"conventional device: none - {found.conventional_reason.message}")
        print(f"  {found.conventional_reason.hint}")
    if found.refusals:
        for reason in found.refusals:
            print(f"guard: REFUSED ({reason.code}) - {reason.message}")
            if reason.hint:
                print(f"  {reason.hint}")
    else:
        print("guard: allowed; a run destroys everything on it")
    print()
    rows = [
        {
            "level": level.level,
            "can run": level.available,
            "code": level.reason.code if level.reason else "",
            "reason": level.reason.message if level.reason else "",
            "what would help": level.reason.hint if level.reason else "",
        }
        for level in found.levels
    ]
    print_records(rows, format_)
    for other in found.others:
        print()
        facts = [(fact, str(value)) for fact, value in facts_of(other.device).items()]
        print_table(("further device", ""), facts)
        for reason in other.refusals:
            print(f"guard: REFUSED ({reason.code}) - {reason.message}")
