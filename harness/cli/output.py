"""Rows for people and for programs: ``--format table|json|csv|md``."""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.store.result import Status

FORMATS = ("table", "json", "csv", "md")


def add_format(parser: argparse.ArgumentParser) -> None:
    """Declare ``--format``."""
    parser.add_argument("--format", choices=FORMATS, default="table", help="default: table")


def add_retry(parser: argparse.ArgumentParser, what: str) -> None:
    """Declare ``--retry``, a list of statuses; the value is a frozenset of them."""
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
        "--retry", type=statuses, default=frozenset(), metavar="A,B",
        help=f"{what}: {','.join(known)}",
    )  # fmt: skip


def print_records(
    records: Sequence[Mapping[str, Any]], format_: str, columns: Sequence[str] = ()
) -> None:
    """Print records that share their keys; null is an empty cell.

    ``columns`` are the header where there may be no record.
    """
    if format_ == "json":
        print(json.dumps(list(records), indent=1))
        return
    columns = list(records[0]) if records else columns
    rows = [[_cell(record[column]) for column in columns] for record in records]
    if format_ == "csv":
        csv.writer(sys.stdout, lineterminator="\n").writerows([columns, *rows])
    elif format_ == "md":
        for row in [columns, ["---"] * len(columns), *rows]:
            print("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")
    else:
        print_table(columns, rows)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print left-aligned columns, two spaces between them."""
    widths = [max(len(row[i]) for row in [columns, *rows]) for i in range(len(columns))]
    for row in [columns, *rows]:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def portable(argv: Sequence[str], folder: Path) -> list[str]:
    """Return a command line as it would be typed in ``folder``: a campaign travels."""
    command = [Path(argv[0]).name]
    for argument in argv[1:]:
        parts = [
            os.path.normpath(part) if part[:1] == "/" else part for part in argument.split("=")
        ]
        command.append("=".join(part.removeprefix(f"{folder}/") for part in parts))
    return command
