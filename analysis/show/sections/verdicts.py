"""Every metric of every level against the baseline, and other differences between them."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from analysis.judge.compare import watermark
from analysis.judge.rows import Row
from analysis.show import compare_columns, forest_figure, render
from analysis.show.footnotes import Footnotes
from analysis.show.page import CSS_CLASSES
from analysis.show.parts import Grid, Heading, Paragraph, Part, Plots, ReportData, Section, Special
from analysis.tenants import mix

ORDER = 20


def section(data: ReportData) -> Section | None:
    """Return the tables of verdicts and of differences between the sides.

    A mix has no such section, because the solo run of one tenant lacks the metrics of the others.
    """
    comparison = data.comparison
    if comparison.contrast == mix.FACTOR:
        return None
    parts: list[Part] = []
    if mark := watermark(comparison.pool):
        parts.append(Paragraph(mark, soft=True))
    if comparison.shown or comparison.skipped:
        footnotes = Footnotes(comparison.shown)
        if comparison.claims:
            parts.append(Grid("claims", *data.tables["claims"], source="", method="claims"))
        parts.append(Plots([forest_figure.forest(comparison)]))
        values = {
            "contrast": comparison.contrast,
            "metrics": _metrics(comparison.shown, footnotes),
            "notes": footnotes.texts,
            "skipped": comparison.skipped,
            "columns": [column for column in compare_columns.ranked() if column.name != "metric"],
        }
        parts.append(Special("verdicts.html.j2", values))
    elif not comparison.rows:
        parts.append(
            Paragraph(f"No {comparison.contrast} could be compared with {comparison.baseline}.")
        )
    if comparison.untimed:
        parts.append(Paragraph(comparison.untimed))
    if comparison.unmeasured:
        names = ", ".join(comparison.unmeasured)
        parts.append(Paragraph(f"Not measured in any ok run: {names}.", soft=True))
    return Section("verdicts", "Verdicts", [*parts, *_fairness(data)])


def _fairness(data: ReportData) -> list[Part]:
    contrast = data.comparison.contrast
    header, rows = data.tables["differences"]
    if not rows:
        text = f"No recorded setting of the compared runs differs, except the {contrast}."
        return [Paragraph(text, soft=True), Grid("differences", header, rows)]
    return [
        Heading("fairness", f"Fairness: differences besides the {contrast}"),
        Grid("differences", header, rows, method="comparability"),
    ]


def _metrics(rows: tuple[Row, ...], footnotes: Footnotes) -> list[dict[str, Any]]:
    metrics = []
    for metric, group in groupby(rows, key=lambda row: row.metric):
        members = list(group)
        about = render.heading(members[0]).removeprefix(metric).lstrip(", ")
        formula = members[0].info.name
        lines = [_row(row, footnotes) for row in members]
        metrics.append({"name": metric, "formula": formula, "about": about, "rows": lines})
    return metrics


def _row(row: Row, footnotes: Footnotes) -> dict[str, Any]:
    cells = {column.name: column.cell(row) for column in compare_columns.shown()}
    cells["notes"] = compare_columns.own_notes(row)
    return {
        "cells": cells,
        "notes": footnotes.numbers(row),
        "css": CSS_CLASSES.get(row.verdict, "none"),
    }
