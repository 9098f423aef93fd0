"""``zonelab age``: precondition a device before a campaign."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from harness.cli.output import (
    add_erase,
    add_format,
    add_state_dir,
    print_notices,
    print_table,
    say_on_stderr,
)
from harness.drive.precondition import Condition, Preconditioning, is_kept, last
from harness.errors import ExitCode, UsageError
from harness.machine import lock
from harness.machine.guard import Guard
from harness.machine.host import Host
from harness.machine.journal import Journal
from harness.machine.paths import RUNTIME, Paths
from harness.observe import zone_reports
from harness.quantities import format_size
from harness.store.codec import encode
from harness.store.files import dumps
from harness.store.spec import Device

SUMMARY = "precondition devices: purge them, write all of them, purge them again"
GROUP = "playbooks"
SHIPPED = True
HELP = """\
Precondition devices, one after the other: purge each, write its whole capacity a number of times
with incompressible data, purge it again. ALL DATA IS LOST. The guard checks all devices, as for a
run, before the first is written.

examples:
  zonelab age nvme2n2                     purge only: reset every zone
  zonelab age nvme2n1                     conventional: discard or zero all of it, and read it back
  zonelab age nvme2n2 --passes 2          write it all twice, the second time with shuffled zones
  zonelab age nvme2n3 --passes 1 --keep   fill the rest of a drive and leave it full
  zonelab age nvme2n1p2 --passes 1 --keep the same for a partition
  zonelab age nvme2n2 nvme2n3 --passes 1  one after the other; all are checked first
  zonelab age nvme2n2 --show              show the last preconditioning

zonelab checks the drive's health before the first write, and its temperature every 32 GiB. The
state folder keeps a record, which becomes part of the manifest of each later run. A killed command
leaves zones that are not empty: zonelab refuses the next command, and the hint contains the consent
to type (--erase).

exit: 0 done, 2 the drive is unhealthy or too hot, 3 the guard refused"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare options."""
    parser.add_argument(
        "device",
        nargs="+",
        metavar="DEVICE",
        help="nvme2n2, /dev/nvme2n2 or /dev/disk/by-id/…; repeatable",
    )
    parser.add_argument(
        "--passes", type=int, default=0, metavar="N", help="times to write all of it (default: 0)"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        metavar="N",
        help="seed of the data and of the order of zones (default: 1)",
    )
    parser.add_argument("--keep", action="store_true", help="do not purge after the last pass")
    parser.add_argument(
        "--show", action="store_true", help="show the last preconditioning, write nothing"
    )
    parser.add_argument(
        "--unless-done",
        action="store_true",
        help="do nothing if the last one was the same, and its purge or fill still holds",
    )
    add_erase(parser)
    add_state_dir(parser, "journal, lock and record")
    add_format(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Precondition the device, or show its last preconditioning."""
    if arguments.passes < 0:
        raise UsageError(
            f"--passes {arguments.passes} is less than 0", hint="for example --passes 2"
        )
    if arguments.keep and not arguments.passes:
        raise UsageError("--keep needs a pass that writes", hint="for example --keep --passes 1")
    host, paths = Host(), Paths(arguments.state_dir, RUNTIME)
    devices = [host.device(name) for name in arguments.device]
    if len({device.identity.key for device in devices}) < len(devices):
        raise UsageError("a device is named twice", hint="name each device once")
    if not arguments.show:
        _precondition(arguments, host, paths, devices)
    _print([last(paths.state, device) for device in devices], arguments.format)
    return ExitCode.OK


def _precondition(
    arguments: argparse.Namespace, host: Host, paths: Paths, devices: Sequence[Device]
) -> None:
    """Precondition the devices that need it."""
    due = [
        device
        for device in devices
        if not arguments.unless_done or not _still_holds(arguments, host, paths, device)
    ]
    if not due:
        return
    names = ", ".join(device.path for device in due)
    with lock.exclusive(paths.lock, f"preconditioning of {names}"):
        guard = Guard(host, Journal(paths.journal), arguments.erase, say_on_stderr)
        for device in due:  # all of them first: if one is refused, no other is purged
            guard.require(device)
        for device in due:
            size = format_size(arguments.passes * device.capacity)
            print(f"{device.path}: {size} will be written", file=sys.stderr)
            work = Preconditioning(host, paths, guard, device, say_on_stderr)
            work.run(arguments.passes, arguments.seed, keep=arguments.keep)
    print_notices(guard.notices([device.identity.key for device in devices]))
    print("changed", file=sys.stderr)


def _print(records: Sequence[Condition | None], format_: str) -> None:
    """Print the last preconditioning of each device; JSON is a list."""
    if format_ == "json":
        print(dumps(records), end="")
        return
    for done in records:
        if done is None:
            print("never preconditioned by zonelab", file=sys.stderr)
            continue
        rows = [(name, str(value)) for name, value in encode(done).items()]
        print_table(("preconditioning", ""), rows)


def _still_holds(arguments: argparse.Namespace, host: Host, paths: Paths, device: Device) -> bool:
    """Whether the last preconditioning still holds; later writes can end a purge or a fill."""
    done = last(paths.state, device)
    asked = (arguments.passes, arguments.seed, arguments.keep)
    if done is None or (done.passes, done.seed, done.kept) != asked:
        return False
    if not arguments.passes:
        return _is_purged(host, paths, device)
    if not arguments.keep:
        return True
    if not device.zoned:
        return is_kept(paths, device)
    return zone_reports.count(host.zones(device.path)).full == device.zones


def _is_purged(host: Host, paths: Paths, device: Device) -> bool:
    """Whether all zones are empty, and nothing was written in place since the last purge."""
    if device.zoned and zone_reports.count(host.zones(device.path)).allocated:
        return False
    if not host.writable_in_place(device):
        return True
    # The journal shows zonelab's own use only. The fingerprint also shows writes of others.
    contents = Guard(host, Journal(paths.journal)).contents
    return is_kept(paths, device) and contents.are_ours(device, None)
