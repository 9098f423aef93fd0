"""``zonelab model up | down | devices | export``: modelled drives for programs of this machine."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.cli.output import add_action, add_format, add_repeatable, print_records
from harness.errors import ConfigError, ExitCode, GuardRefused, UsageError
from harness.machine import scopes
from harness.observe import zoneblk as observed
from harness.observe.sysfs import Sysfs
from harness.plan import drive_files, model_verdicts
from harness.plan.drive_files import load_model
from harness.plan.drive_models import DriveModel
from harness.plan.drive_values import size
from harness.plan.fields import FieldError
from harness.store.files import dumps, write_atomic
from harness.tools import zoneblk

_FIELDS = ("device", "model", "dilation", "size", "process", "uuid")
_MODEL = "name, or path of a .yml file"


def add_arguments(actions: Any) -> None:
    """Declare the actions and their options."""
    up = add_action(actions, "up", "serve a model as a block device (root, Linux >= 6.6)")
    up.add_argument("model", metavar="MODEL", help=_MODEL)
    up.add_argument(
        "--dilation", type=int, default=1, metavar="K", help="K times slower (default: 1)"
    )
    up.add_argument("--contents", metavar="FOLDER", help="store data here (default: in memory)")
    up.add_argument(
        "--unvalidated",
        action="store_true",
        help="accept a model that is not validated, or whose core curves fail",
    )
    export = add_action(actions, "export", "write a model as JSON, for zlfs://model:FILE.json")
    export.add_argument("model", metavar="MODEL", help=_MODEL)
    export.add_argument("--output", type=Path, metavar="FILE.json", help="default: print it")
    for action in (up, export):
        action.add_argument(
            "--capacity", metavar="SIZE", help="of all zones together, e.g. 8GiB (default: MODEL's)"
        )
        add_repeatable(action, "--set", "FIELD=VALUE", "replace a number, e.g. zones.size=8MiB")
    down = add_action(actions, "down", "remove a modelled device and its data")
    down.add_argument("device", metavar="DEVICE", help="for example ublkb0")
    devices = add_action(actions, "devices", "list the modelled devices that are up")
    for action in (up, devices):
        add_format(action)
    for action, do in ((up, _up), (export, _export), (down, _down), (devices, _devices)):
        action.set_defaults(do=do)


def _up(arguments: argparse.Namespace) -> int:
    model = load_model(arguments.model)
    passes = model_verdicts.passes(model) and not arguments.set
    if not passes and not arguments.unvalidated:
        core = "not validated" if arguments.set else model_verdicts.core(model)
        raise ConfigError(
            f"model {model.name} with these numbers: core {core}",
            hint="add --unvalidated to serve it; its times then describe no drive",
            code="model",
        )
    options = [f"--dilation={arguments.dilation}"]
    if model.zones is None:
        options.append("--conventional")
    if arguments.contents:
        options.append(f"--contents={arguments.contents}")
    served = drive_files.program_input(_sized(model, arguments))
    device = zoneblk.start(served, options, _launcher())
    _print([device], arguments.format)
    return ExitCode.OK


def _launcher() -> Sequence[str]:
    """Return the command that puts a server into its own systemd scope: it survives a log-out."""
    if os.geteuid() != 0 or not scopes.booted():
        return ()
    return (*scopes.start(f"zonelab-model-{os.getpid()}.scope"), "--")


def _export(arguments: argparse.Namespace) -> int:
    model = _sized(load_model(arguments.model), arguments)
    text = dumps(drive_files.program_input(model))
    if arguments.output is None:
        print(text, end="")
    else:
        write_atomic(arguments.output, text)
    return ExitCode.OK


def _sized(model: DriveModel, arguments: argparse.Namespace) -> DriveModel:
    """Return the model with ``--set`` and ``--capacity``."""
    if arguments.set:
        model = drive_files.changed(model, arguments.set)
    if arguments.capacity is not None:
        model = drive_files.resized(model, capacity(arguments.capacity))
    return model


def capacity(text: str) -> int:
    """Return ``--capacity`` in bytes."""
    try:
        return size(text)
    except FieldError as error:
        raise UsageError(f"--capacity {error}", hint=error.hint) from None


def _down(arguments: argparse.Namespace) -> int:
    device = arguments.device.removeprefix("/dev/")
    report = observed.report(device, observed.FOLDER)
    if report is None or observed.served(device, observed.FOLDER) is None:
        raise UsageError(f"no zoneblk serves {device}", hint="zonelab model devices lists them")
    if f"/dev/{device}" in Sysfs().nvme_targets():
        raise GuardRefused(
            f"{device} is exported by the NVMe target",
            hint="nvmetcli clear removes all exports",
            code="exported",
        )
    zoneblk.stop(device, int(report["process"]))
    return ExitCode.OK


def _devices(arguments: argparse.Namespace) -> int:
    sockets = observed.FOLDER.iterdir() if observed.FOLDER.is_dir() else ()
    _print(sorted(path.name for path in sockets), arguments.format)
    return ExitCode.OK


def _print(devices: Sequence[str], format_: str) -> None:
    rows = []
    for device in devices:
        report = observed.report(device, observed.FOLDER)
        if report is not None:
            done = report["lateness"]
            own = {"requests": done["count"], "on_time": done["on_time_share"]}
            rows.append({name: report.get(name) for name in _FIELDS} | own)
    print_records(rows, format_, [*_FIELDS, "requests", "on_time"])
