"""The answer in a few lines, for the first screen of the report."""

from __future__ import annotations

from dataclasses import dataclass

from analysis import numbers
from analysis.judge import columns
from analysis.judge.compare import WATERMARK, Comparison
from analysis.judge.rows import Row
from analysis.judge.stats import Verdict
from harness.metrics import Kind

_MOST = 6
_CLEAR = (Verdict.BETTER, Verdict.WORSE, Verdict.NO_DIFFERENCE)


@dataclass(frozen=True, slots=True)
class Line:
    """A row of the comparison as one line: ``word`` is the verdict, ``text`` the evidence."""

    metric: str
    level: str
    word: str
    text: str


def lines(comparison: Comparison) -> list[Line]:
    """Return the rows of the study's claims, those with a verdict first.

    A study without claims gets the first rows that have a verdict.
    """
    judged = [row for row in comparison.rows if row.verdict in _CLEAR]
    claims = [row for row in comparison.rows if row.claim is not None]
    chosen = sorted(claims or judged[:_MOST], key=lambda row: row.verdict not in _CLEAR)
    return [_line(row) for row in chosen]


def _line(row: Row) -> Line:
    if row.verdict in _CLEAR:
        base, value = (numbers.human(mean, row.info.unit) for mean in row.values)
        center = f"{'ratio ' if row.estimate.is_ratio else ''}{columns.ratio(row)}"
        word = "from" if row.verdict is Verdict.NO_DIFFERENCE else "than"
        text = f"{word} {row.baseline}: {value} against {base}, {center} ({columns.interval(row)})"
    elif row.verdict is Verdict.NOT_A_RESULT and row.info.kind is Kind.TIME:
        text = WATERMARK
    else:
        text = "; ".join(row.notes)
    if row.claim is not None:
        text += f"; expected: {row.expect}"
    return Line(row.metric, columns.level(row), row.verdict.value, text)
