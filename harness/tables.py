"""Tables of text, written as CSV, as Markdown or aligned for a terminal."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

R = TypeVar("R")


class Table(NamedTuple):
    """A header and rows of the same length."""

    header: tuple[str, ...]
    rows: list[tuple[str, ...]]

    def column(self, title: str) -> list[str]:
        """Return the cells of one column."""
        index = self.header.index(title)
        return [row[index] for row in self.rows]


def tabulate(columns: Mapping[str, Callable[[R], str]], records: Iterable[R]) -> Table:
    """Return one row per record; ``columns`` maps a title to the function that returns its cell."""
    cells = columns.values()
    return Table(tuple(columns), [tuple(cell(record) for cell in cells) for record in records])


def csv_text(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return CSV with Unix line ends; None is an empty cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue()


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table without a final newline."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )


def aligned(
    header: Sequence[str], rows: Iterable[Sequence[str]], right: Collection[int] = ()
) -> list[str]:
    """Return lines with two spaces between columns; ``right`` are right-aligned column indexes."""
    lines = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
