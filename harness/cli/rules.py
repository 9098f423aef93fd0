"""``zonelab rules``: what makes a run invalid, and what is warned of."""

from __future__ import annotations

import argparse

from harness.cli.output import add_format, print_records
from harness.errors import ExitCode
from harness.rules import page

HELP = """List the validity rules: each issue that a run can have, with its severity, what makes it
fire, and why. --format md prints docs/rules.md.

  zonelab rules
  zonelab rules --format md > docs/rules.md"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare options."""
    add_format(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Print the rules."""
    if arguments.format == "md":
        print(page.text(), end="")
    elif arguments.format == "table":
        print_records([_short(one) for one in page.records()], "table")
    else:
        print_records(page.records(), arguments.format)
    return ExitCode.OK


def _short(record: dict[str, str]) -> dict[str, str]:
    return {name: record[name] for name in page.COLUMNS[:3]}
