"""Every run's value behind each verdict, with its files and its formula."""

from __future__ import annotations

from itertools import islice
from typing import Any

from analysis import numbers
from analysis.judge.rows import Row
from analysis.show import links
from analysis.show.groups import Group
from analysis.show.parts import Paragraph, Part, ReportData, Section, Special

ORDER = 140
_MOST_RUNS = 200
_ABOUT = "The values of each verdict, run by run, with their source files."


def section(data: ReportData) -> Section | None:
    """Return one folded table per metric that has a verdict."""
    rows = {row.metric: row for row in data.comparison.shown}
    if not rows or not data.groups:
        return None
    metrics = [_metric(row, data.groups) for row in rows.values()]
    parts: list[Part] = [
        Paragraph(_ABOUT, soft=True),
        Special("values.html.j2", {"metrics": metrics}),
    ]
    return Section("values", "Values of every run", parts)


def _metric(row: Row, groups: tuple[Group, ...]) -> dict[str, Any]:
    members = ((group, run) for group in groups for run in group.runs)
    rows = [
        {
            "group": group.label,
            "run": run,
            "text": numbers.human(run.value(row.metric), row.info.unit),
            "stored": _exact(run.value(row.metric)),
            "files": links.files(run, row.metric),
        }
        for group, run in islice(members, _MOST_RUNS)
    ]
    more = sum(len(group.runs) for group in groups) - len(rows)
    return {"name": row.metric, "formula": row.info.name, "more": more, "rows": rows}


def _exact(value: float | None) -> str:
    if value is None:
        return "null"
    return str(int(value)) if value == int(value) else repr(value)
