"""``zonelab verify``: is a campaign whole and unchanged?"""

from __future__ import annotations

import argparse

from harness.cli.output import add_format, print_records
from harness.errors import ExitCode
from harness.run import recompute
from harness.store import overview
from harness.store.campaign import find_campaign

HELP = """Check a campaign: every checksum, every schema, every planned run there, and every number
computed again from raw/. One line per problem; exit 4 when there is any.

  zonelab verify results/example

--format json prints a list of {problem}, empty when the campaign is whole."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare options."""
    parser.add_argument("campaign", metavar="CAMPAIGN", help="folder, or name under ./results")
    add_format(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Print the problems."""
    campaign = find_campaign(arguments.campaign)
    found = [*overview.problems(campaign), *recompute.problems(campaign)]
    if arguments.format == "table":
        print("\n".join(found) if found else f"{arguments.campaign}: whole")
    else:
        print_records([{"problem": line} for line in found], arguments.format, ["problem"])
    return ExitCode.RUNS_FAILED if found else ExitCode.OK
