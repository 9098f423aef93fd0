"""``zonelab rules``: list the validity rules."""

from __future__ import annotations

import argparse

from harness.cli.output import add_format, print_records
from harness.docs import rules_page
from harness.errors import ExitCode

SUMMARY = "list the rules that make a run invalid, and the warnings"
GROUP = "users"
SHIPPED = False
HELP = """List the validity rules: each issue that a run can have, with its severity, its condition
and its reason. --format md prints docs/rules.md.

examples:
  zonelab rules
  zonelab rules --format md > docs/rules.md"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare options."""
    add_format(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Print the rules."""
    if arguments.format == "md":
        print(rules_page.text(), end="")
    elif arguments.format == "table":
        shown = rules_page.COLUMNS[:3]
        records = [{name: record[name] for name in shown} for record in rules_page.records()]
        print_records(records, "table")
    else:
        print_records(rules_page.records(), arguments.format)
    return ExitCode.OK
