"""The number of every run behind each row, the file it is from and the formula."""

from __future__ import annotations

from itertools import islice
from typing import Any

from analysis import evidence, units
from analysis.compare import Row
from analysis.groups import Group
from analysis.sections.base import Context, Section, Special, Text

_MOST_RUNS = 200


def section(context: Context) -> Section | None:
    """Return one folded table per metric that has a verdict."""
    rows = {row.metric: row for row in context.comparison.rows}
    if not rows or not context.groups:
        return None
    metrics = [_metric(row, context.groups) for row in rows.values()]
    return Section("values", "Every run's values", [
        Text("What each verdict is made of, run by run, with the files it was computed from.",
             soft=True),
        Special("values.html.j2", {"metrics": metrics}),
    ])  # fmt: skip


def _metric(row: Row, groups: tuple[Group, ...]) -> dict[str, Any]:
    shown = list(islice(((group, run) for group in groups for run in group.runs), _MOST_RUNS))
    runs = sum(len(group.runs) for group in groups)
    return {
        "name": row.metric, "formula": row.info.name, "more": runs - len(shown),
        "rows": [
            (group.label, run, units.human(run.value(row.metric), row.info.unit),
             _exact(run.value(row.metric)), evidence.files(run, row.metric))
            for group, run in shown
        ],
    }  # fmt: skip


def _exact(value: float | None) -> str:
    if value is None:
        return "null"
    return str(int(value)) if value == int(value) else repr(value)
