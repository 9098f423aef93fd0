"""``zonelab inspect``: show a device, its limits, the guard's verdict and the levels it can run."""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Sequence

from harness.cli.output import (
    add_erase,
    add_format,
    add_state_dir,
    print_contents,
    print_notices,
    print_records,
    print_table,
    say_on_stderr,
)
from harness.errors import ExitCode
from harness.levels import LEVELS
from harness.machine.device_facts import facts_of
from harness.machine.guard import Guard, refuse
from harness.machine.host import Host
from harness.machine.journal import Journal
from harness.machine.paths import RUNTIME, Paths
from harness.run.inspection import inspect
from harness.store.files import dumps
from harness.store.spec import Device, Inspection, Reason
from harness.tables import csv_text

SUMMARY = "show a device, the guard's verdict, and the levels that can run on it"
GROUP = "users"
SHIPPED = True
HELP = """\
Show a zoned device, the guard's verdict, and the integration levels that can run on it, with a
reason for each other level. Show the data that runs destroy, and the consent (--erase) that is
needed for data that zonelab did not write. Nothing is written.

examples:
  zonelab inspect nvme0n2
  zonelab inspect nvme0n2 nvme0n3    for studies that vary the device
  zonelab inspect /dev/nvme2n2 --conventional sdb1 --format json

--format json prints the record that zonelab plan reads (host.json in docs/architecture.md)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare options."""
    parser.add_argument(
        "device",
        metavar="DEVICE",
        nargs="+",
        help="nvme2n2, /dev/nvme2n2 or /dev/disk/by-id/…; repeatable",
    )
    parser.add_argument(
        "--conventional",
        metavar="DEV[,DEV]",
        help="conventional device for levels that need one; raw-conventional measures each",
    )
    parser.add_argument(
        "--remainder", metavar="DEV", help="other namespace or partition, filled or purged first"
    )
    add_erase(parser)
    add_state_dir(parser, "journal, lock and runs")
    parser.add_argument(
        "--host-name", default=platform.node(), help="name of this host in the inventory"
    )
    parser.add_argument(
        "--require-allowed", action="store_true", help="exit 3 when the guard refuses"
    )
    add_format(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Print the inspection."""
    host = Host()
    journal = Journal(Paths(arguments.state_dir, RUNTIME).journal)
    # A role shows stderr as the reason of a failure, so it has no other lines.
    say = (lambda _: None) if arguments.format == "json" else say_on_stderr
    conventional = (arguments.conventional or "").split(",")
    inspection = inspect(
        host,
        Guard(host, journal, arguments.erase, say),
        LEVELS,
        path=arguments.device[0],
        others=arguments.device[1:],
        conventional=conventional[0] or None,
        more_conventional=conventional[1:],
        remainder=arguments.remainder,
        host_name=arguments.host_name,
    )
    if arguments.format == "json":
        print(dumps(inspection), end="")
    elif arguments.format == "csv":
        rows = [[fact, value] for fact, value in facts_of(inspection.device).items()]
        rows += [
            [f"level {p.level}", p.reason.code if p.reason else "ok"] for p in inspection.levels
        ]
        sys.stdout.write(csv_text(("fact", "value"), rows))
    else:
        _show(inspection, arguments.format)
    if arguments.require_allowed:
        refuse(inspection.refusals)
    return ExitCode.OK


def _show(inspection: Inspection, format_: str) -> None:
    _show_facts("device", inspection.device)
    print()
    companion, reason = inspection.conventional, inspection.conventional_reason
    if companion is not None:
        print(f"conventional device: {companion.path} ({companion.size} B)")
    elif reason is not None:
        print(f"conventional device: none - {reason.message}")
        print(f"  {reason.hint}")
    _show_refusals(inspection.refusals)
    if not inspection.refusals:
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
        for level in inspection.levels
    ]
    print_records(rows, format_)
    if inspection.remainder is not None:
        print()
        _show_facts("remainder", inspection.remainder)
    for other in (*inspection.others, *inspection.more_conventional):
        print()
        _show_facts("further device", other.device)
        _show_refusals(other.refusals)
    print_contents(inspection.contents)
    print_notices(inspection.notices)


def _show_facts(title: str, device: Device) -> None:
    print_table((title, ""), [(fact, str(value)) for fact, value in facts_of(device).items()])


def _show_refusals(refusals: Sequence[Reason]) -> None:
    for reason in refusals:
        print(f"guard: REFUSED ({reason.code}) - {reason.message}")
        if reason.hint:
            print(f"  {reason.hint}")
