"""``zonelab collect``: move finished runs from a host into a campaign; for roles/collect."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from harness.errors import ExitCode, RunFailed
from harness.store import collected

SUMMARY = "move finished run directories from a host into a campaign"
GROUP = "playbooks"
SHIPPED = True
HELP = """Read complete run directories from a folder or tar archive, check their checksums, and
move them into <host>/runs. A run that exists there is skipped. The host's plan.json, in the archive
or beside the folder, must be of the same study, device and host as the campaign's.

Prints {"collected": […], "already": […]}.

examples:
  zonelab collect --from runs.tar --into results/first/hosts/rig0"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare options."""
    parser.add_argument("--from", dest="source", type=Path, required=True, help="folder or .tar")
    parser.add_argument("--into", type=Path, required=True, help="results/<campaign>/hosts/<host>")


def execute(arguments: argparse.Namespace) -> int:
    """Collect the runs and print their names.

    Raises:
        UsageError: there is no such source.
        ConfigError: the host has runs of another study, or of a machine that has changed.
        RunFailed: a run arrived damaged; the others are stored.
    """
    found = collected.collect(arguments.source, arguments.into)
    print(json.dumps({"collected": found.new, "already": found.already}))
    if found.damaged:
        raise RunFailed(found.damaged[0], hint="collect again", code="damaged")
    return ExitCode.OK
