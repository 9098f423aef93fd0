"""Columns of the comparison table.

One entry of :data:`COLUMNS` is one column of terminal tables, Markdown, CSV, JSON, LaTeX, the page
and the summary for pull requests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from analysis import numbers
from analysis.judge import power, stats
from analysis.judge.rows import Row
from analysis.judge.verdicts import Verdict
from analysis.judge.wording import has_only_values, interval, level, ratio, share

_LAST = 99


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the comparison table.

    Attributes:
        name: key in JSON and CSV.
        value: raw value of a row, in JSON and CSV.
        text: readable cell; None: only JSON and CSV have the column.
        title: readable heading; ``{contrast}`` is replaced by the contrasted factor.
        label: short title for narrow screens; empty: none.
        rank: position in tables with the verdict first (page, pull requests).
        is_number: right-aligned.
    """

    name: str
    value: Callable[[Row], Any]
    text: Callable[[Row], str] | None = None
    title: str = ""
    label: str = ""
    rank: int = _LAST - 1
    is_number: bool = False

    def cell(self, row: Row) -> str:
        """Return the readable cell of a row."""
        return self.text(row) if self.text else str(self.value(row))

    def heading(self, contrast: str) -> str:
        """Return the readable heading."""
        return self.title.format(contrast=contrast)


def shown() -> list[Column]:
    """Return the columns with readable cells."""
    return [column for column in COLUMNS if column.text is not None]


def ranked() -> list[Column]:
    """Return the columns with readable cells, the verdict before its numbers."""
    return sorted(shown(), key=lambda column: column.rank)


def narrow(columns: list[Column]) -> list[Column]:
    """Return the columns without the notes, which are too wide for some tables."""
    return [column for column in columns if column.name != "notes"]


def record(row: Row) -> dict[str, Any]:
    """Return a row's raw values by column name."""
    return {column.name: column.value(row) for column in COLUMNS}


def _runs(row: Row) -> str:
    base, level = row.estimate.n_base, row.estimate.n_level
    return str(level) if base == level else f"{base}/{level}"


def _tested(row: Row, value: float | None) -> float | None:
    """Return a ratio or an end of its interval; None where tables show only the two values."""
    return None if has_only_values(row) else numbers.finite(value)


def notes(row: Row) -> str:
    """Return everything that a reader must know about a row."""
    return "; ".join(part for part in (own_notes(row), *row.notes) if part)


def own_notes(row: Row) -> str:
    """Return the notes on this row only: its claim, and the difference it could have shown."""
    return "; ".join((*_claim_notes(row), *_power_notes(row)))


def _claim_notes(row: Row) -> tuple[str, ...]:
    """Return the expectation of a primary claim and its adjusted p value."""
    if row.claim is None:
        return ()
    adjusted = "" if row.p_holm is None else f", Holm p {row.p_holm:.2g}"
    return (f"claim {row.claim}: expected {row.expect}{adjusted}",)


def _power_notes(row: Row) -> tuple[str, ...]:
    """Return the smallest difference that the row could have shown, if it shows none."""
    smallest = power.detectable(row.estimate, row.floor)
    if row.verdict is not Verdict.NO_DIFFERENCE or smallest is None:
        return ()
    return (f"detectable: {share(smallest)}",)


COLUMNS = (
    Column("metric", lambda row: row.metric, lambda row: row.metric, "metric", rank=1),
    Column("unit", lambda row: row.info.unit),
    Column("kind", lambda row: row.info.kind.value),
    Column("better", lambda row: row.info.better.value),
    Column("stratum", lambda row: row.stratum),
    Column("baseline", lambda row: row.baseline),
    Column("level", lambda row: row.level, level, "{contrast}", rank=0),
    Column(
        "baseline_mean",
        lambda row: row.values[0],
        lambda row: numbers.human(row.values[0], row.info.unit),
        "baseline",
        "baseline",
        rank=6,
        is_number=True,
    ),
    Column(
        "level_mean",
        lambda row: row.values[1],
        lambda row: numbers.human(row.values[1], row.info.unit),
        "value",
        "value",
        rank=5,
        is_number=True,
    ),
    Column("is_ratio", lambda row: row.estimate.is_ratio),
    Column(
        "center",
        lambda row: _tested(row, row.estimate.center),
        ratio,
        "ratio",
        "ratio",
        rank=3,
        is_number=True,
    ),
    Column(
        "low",
        lambda row: _tested(row, row.estimate.low),
        interval,
        f"{100 * stats.CONFIDENCE:.0f} % interval",
        "in",
        rank=4,
        is_number=True,
    ),
    Column("high", lambda row: _tested(row, row.estimate.high)),
    Column("p_value", lambda row: row.estimate.p_value if row.verdict.is_judged else None),
    Column("p_holm", lambda row: row.p_holm),
    Column("n_baseline", lambda row: row.estimate.n_base),
    Column("n_level", lambda row: row.estimate.n_level, _runs, "n", "n", rank=7, is_number=True),
    Column("method", lambda row: row.estimate.method.value),
    Column(
        "verdict", lambda row: row.verdict.value, lambda row: row.verdict.value, "verdict", rank=2
    ),
    Column("claim", lambda row: row.claim),
    Column("expect", lambda row: row.expect),
    Column("steady_baseline", lambda row: row.steady[0]),
    Column("steady_level", lambda row: row.steady[1]),
    Column("noise_floor", lambda row: numbers.finite(row.floor)),
    Column("detectable", lambda row: power.detectable(row.estimate, row.floor)),
    Column("error", lambda row: numbers.finite(row.estimate.error)),
    Column("df", lambda row: numbers.finite(row.estimate.df)),
    Column("between_cells", lambda row: row.estimate.between_cells),
    Column("notes", lambda row: "; ".join(row.notes), notes, "notes", rank=_LAST),
)
