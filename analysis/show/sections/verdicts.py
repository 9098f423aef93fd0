"""Every metric of every level against the baseline, and other differences between them."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from analysis.judge import columns
from analysis.judge.compare import watermark
from analysis.judge.rows import Row
from analysis.judge.stats import Verdict
from analysis.show import render
from analysis.show.parts import Grid, Heading, Part, ReportData, Section, Special, Text
from analysis.tenants import mix

ORDER = 20
_CSS_CLASS = {Verdict.BETTER: "better", Verdict.WORSE: "worse"}


def section(data: ReportData) -> Section | None:
    """Return the tables of verdicts and of differences between the sides.

    A mix has no such section, because the solo run of one tenant lacks the metrics of the others.
    """
    comparison = data.comparison
    if comparison.contrast == mix.FACTOR:
        return None
    parts: list[Part] = []
    if mark := watermark(comparison.pool):
        parts.append(Text(mark, soft=True))
    if comparison.rows or comparison.skipped:
        values = {
            "contrast": comparison.contrast,
            "metrics": _metrics(comparison.rows),
            "skipped": comparison.skipped,
            "columns": [column for column in columns.ranked() if column.name != "metric"],
        }
        parts.append(Special("verdicts.html.j2", values))
    else:
        parts.append(
            Text(f"No {comparison.contrast} could be compared with {comparison.baseline}.")
        )
    if comparison.unmeasured:
        names = ", ".join(comparison.unmeasured)
        parts.append(Text(f"Not measured in any ok run: {names}.", soft=True))
    return Section("verdicts", "Verdicts", [*parts, *_fairness(data)])


def _fairness(data: ReportData) -> list[Part]:
    contrast = data.comparison.contrast
    header, rows = data.tables["differences"]
    if not rows:
        text = f"No recorded setting of the compared runs differs, except the {contrast}."
        return [Text(text, soft=True), Grid("differences", header, rows)]
    return [
        Heading("fairness", f"Fairness: differences besides the {contrast}"),
        Grid("differences", header, rows, method="comparability"),
    ]


def _metrics(rows: tuple[Row, ...]) -> list[dict[str, Any]]:
    metrics = []
    for metric, group in groupby(rows, key=lambda row: row.metric):
        members = list(group)
        about = render.heading(members[0]).removeprefix(metric).lstrip(", ")
        formula = members[0].info.name
        lines = [_row(row) for row in members]
        metrics.append({"name": metric, "formula": formula, "about": about, "rows": lines})
    return metrics


def _row(row: Row) -> dict[str, Any]:
    cells = {column.name: column.cell(row) for column in columns.shown()}
    return {"cells": cells, "css": _CSS_CLASS.get(row.verdict, "none")}
