"""``zonelab layout``: plan the namespaces of a drive and create them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.cli.output import (
    add_erase,
    add_format,
    add_state_dir,
    print_contents,
    print_records,
    say_on_stderr,
)
from harness.drive import apply, layout, survey
from harness.drive.apply import Execution, LayoutProgress
from harness.drive.layout import REST, Layout, Wanted
from harness.drive.survey import Drive
from harness.errors import ConfigError, ExitCode, GuardRefused
from harness.machine import lock
from harness.machine.guard import Guard
from harness.machine.host import Host
from harness.machine.journal import Journal
from harness.machine.paths import RUNTIME, Paths
from harness.machine.signals import Stop
from harness.quantities import format_size, parse_size
from harness.store.files import dumps
from harness.store.spec import Bytes, DeviceContents

SUMMARY = "plan the namespaces of a drive and create them"
GROUP = "playbooks"
SHIPPED = True
HELP = """\
Plan the namespaces of an NVMe drive: a conventional slice, the experiment's zoned namespace, and a
cold remainder. Sizes count writable bytes (zone capacity). Without --apply nothing is written.

examples:
  zonelab layout nvme2 --conventional-size 4GiB --experiment-size 128GiB --cold-size rest
  zonelab layout nvme2 --experiment-size rest --block-size 512 --format json
  zonelab layout nvme2 --experiment-size rest --apply --recreate SERIAL

--apply DELETES ALL NAMESPACES OF THE DRIVE unless the layout is already the wanted one. It refuses
while a namespace is in use or holds data that zonelab did not write. Without --apply the output
contains the text to type for such data (--erase).
--format json prints {drive, layout, commands, contents, unfinished}.

exit: 0 done or nothing to do, 2 does not fit, 3 refused, 4 the drive's firmware refused a step
(repeat the command to continue)"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare options."""
    parser.add_argument(
        "device", metavar="DEVICE", help="nvme2, /dev/nvme2, or one of its namespaces"
    )
    parser.add_argument(
        "--conventional-size",
        type=_size,
        metavar="SIZE",
        help="conventional namespace (default: none)",
    )
    parser.add_argument(
        "--experiment-size",
        type=_size_or_rest,
        default=REST,
        metavar="SIZE",
        help="zoned namespace under test (default: rest)",
    )
    parser.add_argument(
        "--cold-size",
        type=_size_or_rest,
        metavar="SIZE",
        help="second zoned namespace (default: none)",
    )
    parser.add_argument(
        "--block-size", type=int, default=4096, metavar="B", help="logical block (default: 4096 B)"
    )
    parser.add_argument(
        "--zone-capacity",
        type=_size,
        metavar="SIZE",
        help="writable bytes of a zone; needed if the drive has no zoned namespace",
    )
    parser.add_argument(
        "--cold-active",
        type=int,
        default=layout.COLD_ACTIVE,
        metavar="N",
        help="active zones of the cold namespace, if the drive divides them (default: %(default)s)",
    )
    parser.add_argument("--apply", action="store_true", help="delete and create namespaces")
    parser.add_argument(
        "--recreate",
        metavar="SERIAL",
        help="serial number of the drive whose namespaces may be deleted",
    )
    add_erase(parser)
    add_state_dir(parser, "journal, lock and progress")
    add_format(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Show the layout, or create it."""
    host, paths = Host(), Paths(arguments.state_dir, RUNTIME)
    wanted = Wanted(
        conventional=arguments.conventional_size,
        experiment=arguments.experiment_size,
        cold=arguments.cold_size,
        block=arguments.block_size,
        zone_capacity=arguments.zone_capacity,
        cold_active=arguments.cold_active,
    )
    device = survey.controller_of(host, arguments.device)
    journal = Journal(paths.journal)
    guard = Guard(host, journal, arguments.erase, say_on_stderr)
    if arguments.apply:
        with lock.exclusive(paths.lock, f"namespaces of {device}"):
            return _apply(arguments, host, guard, journal=journal, device=device, wanted=wanted)
    drive = survey.read(host, device)
    progress = _progress(arguments.state_dir, drive, wanted)
    contents = apply.contents(host, guard, drive, progress.layout)
    begun = any(step.begun for step in progress.steps)
    _show(drive, progress.layout, contents, arguments.format, unfinished=begun)
    return ExitCode.OK


def _apply(
    arguments: argparse.Namespace,
    host: Host,
    guard: Guard,
    *,
    journal: Journal,
    device: str,
    wanted: Wanted,
) -> int:
    drive = survey.read(host, device)
    progress = _progress(arguments.state_dir, drive, wanted)
    if progress.steps:
        serial = drive.controller.serial
        if arguments.recreate != serial:
            raise GuardRefused(
                f"the namespaces of {device} ({drive.controller.model}, {serial}) would be deleted"
                " and created anew",
                hint=f"-e recreate_namespaces={serial} if nothing on that drive is needed",
                code="recreate-not-named",
            )
        if not any(step.begun for step in progress.steps):
            apply.require_unused(host, guard, drive, progress.layout)
        stop = Stop()
        execution = Execution(
            host,
            guard,
            journal,
            device=device,
            state=arguments.state_dir,
            say=say_on_stderr,
            stop=stop,
        )
        with stop.installed():
            drive = execution.run(progress)
    done = Layout(drive.controller.serial, (), (), progress.layout.notes)
    _show(drive, done, (), arguments.format, unfinished=False)
    print("changed" if progress.steps else "unchanged", file=sys.stderr)
    return ExitCode.OK


def _progress(state: Path, drive: Drive, wanted: Wanted) -> LayoutProgress:
    """Return the rest of an interrupted change, or a new plan.

    Raises:
        GuardRefused: a drive without a serial number would be changed. Nothing would distinguish it
            from another one.
    """
    serial = drive.controller.serial
    left = apply.unfinished(state, serial) if serial else None
    if left is None:
        planned = layout.plan(drive, wanted)
        if not serial and (planned.delete or planned.create):
            raise GuardRefused(
                f"{drive.device} ({drive.controller.model}) reports no serial number",
                hint="use its existing namespaces: leave namespaces_experiment out",
                code="no-serial-number",
            )
        return LayoutProgress(wanted, planned, apply.steps_of(planned, drive))
    if left.wanted != wanted:
        record = apply.progress_file(state, serial)
        raise ConfigError(
            "an earlier change of this drive's namespaces, to another layout, is not finished",
            hint=f"repeat that command, or remove {record} to plan from the current namespaces",
            code="layout-unfinished",
        )
    return left


def _show(
    drive: Drive,
    planned: Layout,
    contents: Sequence[DeviceContents],
    format_: str,
    *,
    unfinished: bool,
) -> None:
    commands = [f"delete namespace {nsid}" for nsid in planned.delete]
    commands += [" ".join(apply.create_argv(drive.device, one)) for one in planned.create]
    if format_ == "json":
        record = {"drive": drive, "layout": planned, "commands": commands, "contents": contents}
        print(dumps(record | {"unfinished": unfinished}), end="")
        return
    rows = [
        {
            "namespace": str(one.nsid),
            "now": "deleted" if one.nsid in planned.delete else "stays",
            "kind": "zoned" if one.zone_size else "conventional",
            "size": format_size(one.size),
            "capacity": format_size((one.zones or 0) * one.zone_capacity)
            if one.zone_capacity
            else format_size(one.size if not one.zone_size else 0),
            "zones": str(one.zones or ""),
            "active zones": str(one.active or ""),
            "block": one.block,
            "node": one.node or "not attached",
        }
        for one in drive.namespaces
    ]
    rows += [
        {
            "namespace": one.role.value,
            "now": "created",
            "kind": "zoned" if one.zoned else "conventional",
            "size": format_size(one.size),
            "capacity": format_size(one.capacity),
            "zones": str(one.zones or ""),
            "active zones": str(one.active or ""),
            "block": one.block,
            "node": "",
        }
        for one in planned.create
    ]
    print_records(rows, format_)
    if format_ != "csv":
        print_contents(contents)
    for note in planned.notes:
        print(f"note: {note}", file=sys.stderr)
    if unfinished:
        print("continuing an interrupted change", file=sys.stderr)


def _size(text: str) -> Bytes:
    return Bytes(parse_size(text))


def _size_or_rest(text: str) -> Bytes | str:
    return REST if text == REST else _size(text)
