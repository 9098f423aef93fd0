"""``zonelab running``: print what runs on this machine."""

from __future__ import annotations

import argparse

from harness.cli.output import add_format, print_records
from harness.errors import ExitCode
from harness.machine import lock
from harness.machine import paths as machine_paths

SUMMARY = "print the runs in progress on this machine, with their campaigns"
GROUP = "playbooks"
SHIPPED = True
HELP = """\
Print the holder of this machine's lock: a campaign, a preconditioning or a layout. It reads the
lock only, so it disturbs no measurement.

example:
  zonelab running --format json

--format json prints [{campaign, holder}], or [] when nothing runs. The campaign is empty when
something else runs.

exit: 0"""

_CAMPAIGN = "campaign "


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare options."""
    add_format(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Print the holder."""
    path = machine_paths.LOCK
    records = []
    if lock.is_held(path):
        holder = lock.holder(path)
        words = holder.split() if holder.startswith(_CAMPAIGN) else []
        records.append({"campaign": words[1] if words else "", "holder": holder})
    print_records(records, arguments.format, ("campaign", "holder"))
    return ExitCode.OK
