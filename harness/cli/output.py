"""Options that commands share, and output as ``--format table|json|csv|md``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.machine import consent
from harness.machine.paths import STATE
from harness.store.result import Status
from harness.store.spec import DeviceContents
from harness.tables import aligned, csv_text, markdown

FORMATS = ("table", "json", "csv", "md")


def say_on_stderr(line: str) -> None:
    """Print a line of progress."""
    print(line, file=sys.stderr, flush=True)


def add_repeatable(
    parser: argparse.ArgumentParser, option: str, metavar: str, text: str, **more: Any
) -> None:
    """Declare an option that can be repeated; its value is the list of all given values."""
    parser.add_argument(option, action="append", default=[], metavar=metavar, help=text, **more)


def add_slower(parser: argparse.ArgumentParser) -> None:
    """Declare ``--slower``."""
    add_repeatable(
        parser,
        "--slower",
        "CAMPAIGN",
        "campaign of the same study on modelled drives with twice the dilation: times get verdicts "
        "where both campaigns agree; repeatable",
    )


def add_different_code(parser: argparse.ArgumentParser) -> None:
    """Declare ``--different-code``."""
    parser.add_argument(
        "--different-code",
        action="store_true",
        help="give verdicts although different builds of zonelab produced the runs",
    )


def add_action(actions: Any, name: str, summary: str) -> argparse.ArgumentParser:
    """Declare an action of a command; the list of actions and its own help show the summary."""
    parser: argparse.ArgumentParser = actions.add_parser(name, help=summary, description=summary)
    return parser


def add_format(parser: argparse.ArgumentParser) -> None:
    """Declare ``--format``."""
    parser.add_argument(
        "--format", choices=FORMATS, default="table", help="form of the output (default: table)"
    )


def add_erase(parser: argparse.ArgumentParser) -> None:
    """Declare ``--erase``; its value is a list of consents."""
    parser.add_argument(
        "--erase",
        action="extend",
        type=consent.parse,
        default=[],
        metavar="ID@DIGEST,…",
        help="consent to one erasure; the refusal and `inspect` print the text",
    )


def print_contents(contents: Sequence[DeviceContents]) -> None:
    """Print what a wipe of each device destroys, and the consent that it needs."""
    for seen in contents:
        rows = [
            ("identity", seen.identity),
            ("model", seen.model),
            ("serial", seen.serial),
            ("size", f"{seen.size} B"),
            ("signatures", ", ".join(seen.signatures) or "none"),
            ("first 4 KiB", f"sha256 {seen.first_block}" if seen.first_block else "unknown"),
        ]
        if seen.zones_not_empty is not None:
            rows.append(("zones not empty", str(seen.zones_not_empty)))
        needed = f"-e erase={seen.consent}" if seen.consent else "none needed"
        print()
        print_table(
            (f"destroyed on {seen.path or seen.identity}", ""), [*rows, ("consent", needed)]
        )


def print_notices(lines: Sequence[str]) -> None:
    """Print lines about consents without effect to stderr."""
    for line in lines:
        print(f"note: {line}", file=sys.stderr)


def add_state_dir(parser: argparse.ArgumentParser, content: str) -> None:
    """Declare ``--state-dir``."""
    parser.add_argument(
        "--state-dir",
        type=Path,
        default=STATE,
        metavar="DIR",
        help=f"folder of {content} (default: %(default)s)",
    )


_RETRIED = [status.value for status in Status if status is not Status.OK]


def statuses(text: str) -> frozenset[str]:
    """Return the value of ``--retry``. Raises UsageError: it has an unknown status."""
    named = frozenset(filter(None, text.split(",")))
    unknown = sorted(named.difference(_RETRIED))
    if unknown:
        raise UsageError(
            f"--retry {unknown[0]}: no such status", hint=f"one of {', '.join(_RETRIED)}"
        )
    return named


def add_retry(parser: argparse.ArgumentParser, what: str) -> None:
    """Declare ``--retry``; its value is a frozenset of statuses."""
    parser.add_argument(
        "--retry",
        type=statuses,
        default=frozenset(),
        metavar="A,B",
        help=f"{what}: {','.join(_RETRIED)}",
    )


def print_records(
    records: Sequence[Mapping[str, Any]], format_: str, columns: Sequence[str] = ()
) -> None:
    """Print records with the same keys; null is an empty cell.

    ``columns`` is the header when there is no record.
    """
    if format_ == "json":
        print(json.dumps(list(records), indent=1))
        return
    columns = list(records[0]) if records else columns
    rows = [[_cell(record[column]) for column in columns] for record in records]
    if format_ == "csv":
        sys.stdout.write(csv_text(columns, rows))
    elif format_ == "md":
        print(markdown(columns, rows))
    else:
        print_table(columns, rows)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print left-aligned columns, two spaces between them."""
    for line in aligned(columns, rows):
        print(line)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def portable(argv: Sequence[str], folder: Path) -> list[str]:
    """Return a command line with paths relative to ``folder``: a campaign can be moved."""
    command = [Path(argv[0]).name]
    for argument in argv[1:]:
        parts = [
            os.path.normpath(part) if part[:1] == "/" else part for part in argument.split("=")
        ]
        command.append("=".join(part.removeprefix(f"{folder}/") for part in parts))
    return command
