"""The answer in a few lines: what the first screen of the report says."""

from __future__ import annotations

from dataclasses import dataclass

from analysis import render
from analysis.compare import WATERMARK, Comparison, Row
from analysis.stats import Verdict
from harness.metrics import Kind

_MOST = 6
_CLEAR = (Verdict.BETTER, Verdict.WORSE, Verdict.NO_DIFFERENCE)


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the comparison as a line: ``word`` is its verdict, ``text`` the evidence."""

    metric: str
    level: str
    word: str
    text: str


def lines(comparison: Comparison) -> list[Line]:
    """Return the study's claims; where it has none, the first rows that have a verdict.

    Those that have a verdict come first.
    """
    judged = [row for row in comparison.rows if row.verdict in _CLEAR]
    claims = [row for row in comparison.rows if row.claim is not None]
    chosen = sorted(claims or judged[:_MOST], key=lambda row: row.verdict not in _CLEAR)
    return [_line(row) for row in chosen]


def _line(row: Row) -> Line:
    level, base, value, ratio, interval, *_ = render.cells(row)
    if row.verdict in _CLEAR:
        center = f"ratio {ratio}" if row.estimate.is_ratio else ratio
        text = f"than {row.baseline}" if row.verdict is not Verdict.NO_DIFFERENCE else (
            f"from {row.baseline}"
        )  # fmt: skip
        text += f": {value} against {base}, {center} ({interval})"
    elif row.verdict is Verdict.NOT_A_RESULT and row.info.kind is Kind.TIME:
        text = WATERMARK
    else:
        text = "; ".join(row.notes)
    if row.claim is not None:
        text += f"; expected: {row.expect}"
    return Line(row.metric, level, row.verdict.value, text)
