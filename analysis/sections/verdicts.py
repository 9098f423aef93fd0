"""Every metric of every level against the baseline, and whether that was fair."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from analysis import render, stats
from analysis.compare import Row, watermark
from analysis.sections.base import Context, Grid, Heading, Part, Section, Special, Text
from analysis.stats import Verdict
from analysis.tenants import mix

_CSS_CLASS = {Verdict.BETTER: "better", Verdict.WORSE: "worse"}


def section(context: Context) -> Section | None:
    """Return the table of verdicts and that of differences between the sides.

    None for mixes: there a metric of one tenant has no value in the solo run of another.
    """
    comparison = context.comparison
    if comparison.contrast == mix.FACTOR:
        return None
    parts: list[Part] = []
    if mark := watermark(comparison.pool):
        parts.append(Text(mark, soft=True))
    if comparison.rows or comparison.skipped:
        parts.append(Special("verdicts.html.j2", {
            "contrast": comparison.contrast, "metrics": _metrics(comparison.rows),
            "skipped": comparison.skipped, "confidence": f"{100 * stats.CONFIDENCE:.0f} %",
        }))  # fmt: skip
    else:
        parts.append(Text(f"Nothing could be compared with {comparison.baseline}."))
    if comparison.unmeasured:
        names = ", ".join(comparison.unmeasured)
        parts.append(Text(f"Not measured in any ok run: {names}.", soft=True))
    return Section("verdicts", "Verdicts", [*parts, *_fairness(context)])


def _fairness(context: Context) -> list[Part]:
    contrast = context.comparison.contrast
    header, rows = context.tables["differences"]
    if not rows:
        text = f"Nothing recorded of the compared runs differs beyond the {contrast}."
        return [Text(text, soft=True), Grid("differences", header, rows)]
    return [
        Heading("fairness", f"Fairness: what differs beyond the {contrast}"),
        Grid("differences", header, rows, method="comparability"),
    ]


def _metrics(rows: tuple[Row, ...]) -> list[dict[str, Any]]:
    found = []
    for metric, group in groupby(rows, key=lambda row: row.metric):
        members = list(group)
        about = render.heading(members[0]).removeprefix(metric).lstrip(", ")
        found.append({
            "name": metric, "formula": members[0].info.name, "about": about,
            "rows": [_row(row) for row in members],
        })  # fmt: skip
    return found


def _row(row: Row) -> dict[str, str]:
    level, base, value, ratio, interval, n, word, notes = render.cells(row)
    return {
        "level": level, "baseline": base, "value": value, "ratio": ratio, "interval": interval,
        "n": n, "verdict": word, "notes": notes, "css": _CSS_CLASS.get(row.verdict, "none"),
    }  # fmt: skip
