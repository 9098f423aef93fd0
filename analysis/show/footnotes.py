"""Notes of rows as numbered footnotes: a note that many rows share is printed once."""

from __future__ import annotations

from collections.abc import Iterable

from analysis.judge.rows import Row
from analysis.show import compare_columns
from analysis.show.compare_columns import Column


class Footnotes:
    """The notes of all rows, numbered in order of first use."""

    def __init__(self, rows: Iterable[Row]) -> None:
        texts = dict.fromkeys(note for row in rows for note in row.notes)
        self._numbers = {text: number for number, text in enumerate(texts, 1)}

    @property
    def texts(self) -> list[str]:
        """All notes; note n is at index n - 1."""
        return list(self._numbers)

    @property
    def lines(self) -> list[str]:
        """One line per note, with its number."""
        return [f"[{number}] {text}" for text, number in self._numbers.items()]

    def numbers(self, row: Row) -> list[int]:
        """Return the numbers of a row's notes."""
        return [self._numbers[note] for note in row.notes]

    def cell(self, column: Column, row: Row) -> str:
        """Return a readable cell, with numbers in place of the row's shared notes."""
        if column.name != "notes":
            return column.cell(row)
        return " ".join(part for part in (compare_columns.own_notes(row), self.marks(row)) if part)

    def marks(self, row: Row) -> str:
        """Return the numbers of a row's notes in brackets."""
        return "".join(f"[{number}]" for number in self.numbers(row))
