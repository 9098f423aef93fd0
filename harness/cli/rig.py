"""``zonelab rig``: build, boot, reach and stop the emulated machine."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from harness.cli import rig_replay
from harness.cli.output import add_format, print_records
from harness.errors import ExitCode, UsageError
from harness.rig import box, control, guest, model, state
from harness.rig.recipe import image_of, recipe_of
from harness.rig.state import RigState
from harness.rig.talk import Talk

SUMMARY = "build, boot and stop rigs: virtual machines with zoned drives"
GROUP = "users"
SHIPPED = False
HELP = """Build, boot and stop a rig: a virtual machine (QEMU) with a stock Debian kernel. Its
drives are emulated NVMe ZNS namespaces, or modelled drives.

examples:
  zonelab rig up            boot the NVMe rig (builds its image first) and show how to reach it
  zonelab rig exec nvme -- ansible-playbook site.yml    boot, run, always stop
  zonelab rig replay results/mine/hosts/rig-timed-1/runs/zlfs--r01    run it again, compare files

Rigs are files in configs/rigs; docs/rigs.md explains them."""

_Action = Callable[[argparse.Namespace, Talk], int]
# What `up` and `status` print as JSON beside the access to a rig.
_FACTS = ("port", "pid", "accelerator", "boot_seconds", "started", "lease_seconds", "image")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-commands."""
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    commands = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def command(
        name: str, do: _Action, summary: str, *, data: bool = False
    ) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=summary, description=summary)
        sub.set_defaults(do=do)
        if name != "list":
            sub.add_argument(
                "rig",
                metavar="NAME",
                nargs="?",
                default=model.DEFAULT,
                help=f"rig (default: {model.DEFAULT})",
            )
        if data:
            add_format(sub)
        return sub

    command("list", _list, "list all rigs and whether they are up", data=True)
    command("build", _build, "build a rig's image unless it is in the cache", data=True)
    sub = command("box", _box, "make a Vagrant box of a rig's image (docs/rigs.md)", data=True)
    sub.add_argument("--output", type=Path, help="default: build/boxes/NAME.box")
    sub.add_argument(
        "--remove", action="store_true", help="remove the box from Vagrant and libvirt"
    )
    sub = command("up", _up, "boot a rig and wait until it answers on ssh", data=True)
    sub.add_argument(
        "--lease",
        default="6h",
        metavar="TIME",
        help="the rig stops itself after this time: 90m, 2d (default: 6h)",
    )
    sub.add_argument(
        "--timeout",
        type=float,
        default=control.BOOT_TIMEOUT,
        metavar="SECONDS",
        help=f"seconds that booting may take (default: {control.BOOT_TIMEOUT:.0f})",
    )
    command("status", _status, "show how to reach a rig", data=True)
    sub = command(
        "wait", _wait, "wait until a rig that is up answers on ssh, or its QEMU has ended"
    )
    sub.add_argument(
        "--timeout",
        type=float,
        default=control.RESET_TIMEOUT,
        metavar="SECONDS",
        help=f"seconds to wait (default: {control.RESET_TIMEOUT:.0f})",
    )
    command("counters", _counters, "show QEMU's own counters of each namespace", data=True)
    command("reset", _reset, "reset a rig: the kernel restarts, zones keep their state")
    command("down", _down, "stop a rig")
    rig_replay.add_arguments(commands)
    boots = "boot a rig, run a command on this host with ANSIBLE_INVENTORY set, stop the rig"
    for name, do, summary in (
        ("ssh", _ssh, "log in to a rig, or run a command in it"),
        ("exec", _exec, boots),
    ):
        sub = commands.add_parser(name, help=summary, description=summary)
        sub.set_defaults(do=do)
        sub.add_argument("rig", metavar="NAME", help="rig")
        sub.add_argument(
            "words", metavar="COMMAND", nargs=argparse.REMAINDER, help="command and its arguments"
        )


def execute(arguments: argparse.Namespace) -> int:
    """Run one sub-command."""
    control.end_on_hangup()
    return int(arguments.do(arguments, Talk(quiet=arguments.quiet)))


def _list(arguments: argparse.Namespace, _talk: Talk) -> int:
    rows = []
    for name in model.names():
        rig = model.load(name)
        built = image_of(recipe_of(rig)).complete
        row = {
            "rig": name,
            "state": "up" if state.read(name) else "down",
            "image": "built" if built else "not built",
            "description": rig.description,
        }
        rows.append(row)
        rows += [row | {"rig": one, "state": "up"} for one in _machines(rig) if state.read(one)]
    print_records(rows, arguments.format)
    return ExitCode.OK


def _machines(rig: model.Rig) -> list[str]:
    """Return the names of the machines that follow from a rig's file, without the rig's own."""
    slower = model.slower(rig)
    rigs = [rig] if slower is None else [rig, slower]
    names = [one.name for each in rigs for one in (each, *model.hosts_of(each))]
    return [name for name in dict.fromkeys(names) if name != rig.name]


def _build(arguments: argparse.Namespace, talk: Talk) -> int:
    image, built = control.build(model.load(arguments.rig), talk)
    row = {"rig": arguments.rig, "image": str(image.folder), "built": built}
    print_records([row], arguments.format)
    return ExitCode.OK


def _box(arguments: argparse.Namespace, talk: Talk) -> int:
    rig = model.load(arguments.rig)
    target = arguments.output or model.PROJECT / "build" / "boxes" / f"{rig.name}.box"
    if arguments.remove:
        box.remove(box.name(rig))
        target.unlink(missing_ok=True)
        return ExitCode.OK
    image, _ = control.build(rig, talk)
    box.write(rig, image, target, talk)
    print_records([{"rig": rig.name, "name": box.name(rig), "box": str(target)}], arguments.format)
    return ExitCode.OK


def _up(arguments: argparse.Namespace, talk: Talk) -> int:
    rig = model.load(arguments.rig)
    lease = parse_duration(arguments.lease)
    running, booted = control.up(rig, talk, lease=lease, timeout=arguments.timeout)
    if not booted:
        talk.say(f"rig {rig.name} is up already, since {running.started}")
    _show(running, arguments.format)
    return ExitCode.OK


def _status(arguments: argparse.Namespace, _talk: Talk) -> int:
    model.load(arguments.rig)
    _show(state.require(arguments.rig), arguments.format)
    return ExitCode.OK


def _counters(arguments: argparse.Namespace, _talk: Talk) -> int:
    model.load(arguments.rig)
    stats = control.counters(arguments.rig)
    devices = state.require(arguments.rig).devices
    rows = [
        {"nsid": d.nsid, "eui64": d.eui64, **asdict(stats[d.eui64])}
        for d in devices
        if d.eui64 in stats
    ]
    print_records(rows, arguments.format)
    return ExitCode.OK


def _wait(arguments: argparse.Namespace, talk: Talk) -> int:
    control.wait(arguments.rig, talk, arguments.timeout)
    return ExitCode.OK


def _reset(arguments: argparse.Namespace, talk: Talk) -> int:
    model.load(arguments.rig)
    control.reset(arguments.rig, talk)
    return ExitCode.OK


def _down(arguments: argparse.Namespace, talk: Talk) -> int:
    model.load(arguments.rig)
    was_up = control.down(arguments.rig, talk)
    talk.say(f"rig {arguments.rig} {'stopped' if was_up else 'was down'}")
    return ExitCode.OK


def _ssh(arguments: argparse.Namespace, _talk: Talk) -> int:
    model.load(arguments.rig)
    state.require(arguments.rig)
    argv = guest.ssh_argv(arguments.rig, _words(arguments.words))
    os.execvp(argv[0], argv)  # noqa: S606 - ssh replaces this process


def _exec(arguments: argparse.Namespace, talk: Talk) -> int:
    words = _words(arguments.words)
    if not words:
        raise UsageError("no command to run", hint=f"zonelab rig exec {arguments.rig} -- COMMAND")
    return control.execute(model.load(arguments.rig), words, talk)


def parse_duration(text: str) -> int:
    """Return seconds for ``90m``, ``6h``, ``2d`` or plain seconds.

    Raises:
        UsageError: anything else.
    """
    match = re.fullmatch(r"([1-9]\d{0,8})([smhd]?)", text)
    if match is None:
        raise UsageError(f"{text!r} is not a duration", hint="for example --lease 90m, 6h or 2d")
    return int(match[1]) * _UNITS[match[2] or "s"]


def _words(words: Sequence[str]) -> list[str]:
    return list(words[1:] if words[:1] == ["--"] else words)


def _show(running: RigState, form: str) -> None:
    """Print how to reach a rig: everything as JSON, a row per device otherwise."""
    here = state.folder(running.rig)
    access = {
        "rig": running.rig,
        "host": state.host_name(running.rig),
        "ssh": f"ssh -F {here / 'ssh_config'} {state.host_name(running.rig)}",
        "inventory": str(here / "inventory.yml"),
        "console": str(here / "console.log"),
    }
    devices = [asdict(device) for device in running.devices]
    if form == "json":
        facts = {name: getattr(running, name) for name in _FACTS}
        print(json.dumps({**access, **facts, "devices": devices}, indent=2))
        return
    if form == "table":
        for key, value in access.items():
            print(f"{key + ':':<11}{value}")
        print()
    print_records(devices, form)
