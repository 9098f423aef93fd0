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
from harness.store.result import Status
from harness.tables import aligned, csv_text, markdown

FORMATS = ("table", "json", "csv", "md")


def say_on_stderr(line: str) -> None:
    """Print a line of progress."""
    print(line, file=sys.stderr, flush=True)


def add_format(parser: argparse.ArgumentParser) -> None:
    """Declare ``--format``."""
    parser.add_argument("--format", choices=FORMATS, default="table", help="default: table")


def add_erase(parser: argparse.ArgumentParser) -> None:
    """Declare ``--erase``."""
    parser.add_argument(
        "--erase",
        action="append",
        default=[],
        metavar="ID",
        help="identity of a device that may be wiped",
    )


def add_state_dir(parser: argparse.ArgumentParser, content: str) -> None:
    """Declare ``--state-dir``."""
    parser.add_argument(
        "--state-dir",
        type=Path,
        default=Path("/var/lib/zonelab"),
        metavar="DIR",
        help=f"{content} (default: %(default)s)",
    )


def add_retry(parser: argparse.ArgumentParser, what: str) -> None:
    """Declare ``--retry``; its value is a frozenset of statuses."""
    known = [status.value for status in Status if status is not Status.OK]

    def statuses(text: str) -> frozenset[str]:
        named = frozenset(filter(None, text.split(",")))
        unknown = sorted(named.difference(known))
        if unknown:
            raise UsageError(
                f"--retry {unknown[0]}: no such status", hint=f"one of {', '.join(known)}"
            )
        return named

    parser.add_argument(
        "--retry",
        type=statuses,
        default=frozenset(),
        metavar="A,B",
        help=f"{what}: {','.join(known)}",
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
