"""A comparison as text: table and md for people (readable units), json and csv with raw numbers."""

from __future__ import annotations

import csv
import io
import json
import math
import textwrap
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from analysis import power, stats, steady, units
from analysis.comparability import Difference
from analysis.compare import (
    REPORTED_STATUSES,
    CellStatus,
    Comparison,
    Row,
    group_label,
    watermark,
)
from analysis.stats import Method, Verdict
from analysis.steady import Label, PhaseSteady
from analysis.tenants import mix
from analysis.tenants import summary as mixes
from harness.metrics import Better
from harness.store.codec import SCHEMA_VERSION

_WIDTH = 110
COLUMNS = (
    "metric", "unit", "kind", "better", "stratum", "baseline", "level", "baseline_mean",
    "level_mean", "is_ratio", "center", "low", "high", "p_value", "p_holm", "n_baseline",
    "n_level", "method", "verdict", "claim", "expect", "steady_baseline", "steady_level",
    "noise_floor", "detectable", "notes",
)  # fmt: skip
VERDICT_HEADER = ("level", "baseline", "value", "ratio", "95 % interval", "n", "verdict", "notes")
_WORST = (Label.NOT_STEADY, Label.TOO_SHORT, Label.STEADY)
_DIRECTION = {
    Better.HIGHER: "higher is better",
    Better.LOWER: "lower is better",
    Better.NONE: "descriptive",
}


def render(comparison: Comparison, form: str, effect: float | None = None) -> str:
    """Return the comparison as ``table``, ``md``, ``json`` or ``csv``, newline-terminated.

    ``effect``: tables for people say how many repetitions would show this relative difference.
    """
    if form == "json":
        return to_json(comparison)
    if form == "csv":
        return to_csv(comparison)
    text = to_markdown(comparison) if form == "md" else to_table(comparison)
    return text + "".join(f"{line}\n" for line in repetition_lines(comparison, effect))


def repetition_lines(comparison: Comparison, effect: float | None) -> list[str]:
    """Return one line per row with an interval: the repetitions that would show ``effect``."""
    lines = []
    for row in comparison.rows if effect else ():
        needed = power.repetitions(row.estimate, effect or 0.0)
        if row.estimate.error is not None:
            told = f"more than {power.MOST_REPETITIONS}" if needed is None else str(needed)
            name = f"{row.level}{f' ({row.stratum})' if row.stratum else ''}"
            lines.append(
                f"- to show {_share(effect or 0)}: {row.metric}, {name}: {told} repetitions"
            )
    return lines


def records(comparison: Comparison) -> list[dict[str, Any]]:
    """Return one flat record per row with raw numbers, skipped levels last."""
    rows = [_record(row) for row in comparison.rows]
    rows += [
        dict.fromkeys(COLUMNS) | {"level": level, "verdict": "skipped", "notes": reason}
        for level, reason in comparison.skipped.items()
    ]
    return rows


def to_json(comparison: Comparison) -> str:
    """Return everything, machine-readable."""
    plan = comparison.campaign.plan
    document = {
        "schema_version": SCHEMA_VERSION, "campaign": plan.campaign, "study": plan.study,
        "question": plan.question, "contrast": comparison.contrast,
        "campaigns": [str(one.path) for one in comparison.pool.campaigns],
        "baseline": comparison.baseline, "emulated": comparison.pool.emulated,
        "watermark": watermark(comparison.pool) or None,
        "rows": records(comparison),
        "cells": [
            {"cell": c.cell, "level": c.level, "counts": c.counts, "missing": c.missing,
             "earlier_attempts": c.earlier_attempts, "issues": c.issues}
            for c in comparison.cells
        ],
        "unmeasured": comparison.unmeasured,
        "differences": {
            name: [{"key": d.key, "baseline": d.base, "level": d.level, "blocking": d.blocking,
                    "declared": d.declared} for d in found]
            for name, found in comparison.differences.items()
        },
        "noise_floors": [
            {"metric": f.metric, "floor": f.floor, "twins": f.twins}
            for f in comparison.floors.values()
        ],
        "drift": [
            {"metric": d.metric, "change": d.change, "low": _finite(d.low), "high": _finite(d.high),
             "runs": d.runs, "p_value": d.p_value, "p_holm": d.p_holm, "shown": d.shown}
            for d in comparison.drifts
        ],
        "steady": [
            {"run": one.run.name, "host": one.run.host, "phase": one.phase,
             "label": one.steady.label.value, "begin": one.steady.begin, "end": one.steady.end,
             "rounds": one.steady.rounds, "why": one.steady.why}
            for one in comparison.steady
        ],
    }  # fmt: skip
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def to_csv(comparison: Comparison) -> str:
    """Return one line per row, raw numbers, empty where null."""
    return csv_text(COLUMNS, ([row[name] for name in COLUMNS] for row in records(comparison)))


def to_markdown(comparison: Comparison) -> str:
    """Return Markdown: one table of verdicts, one of cells, lists of what is skipped or differs."""
    parts = [f"# {_title(comparison)}", comparison.campaign.plan.question]
    if mark := watermark(comparison.pool):
        parts.append(f"**{mark}**")
    rows = [(f"`{row.metric}`", *cells(row)) for row in comparison.rows]
    parts.append(_markdown(("metric", comparison.contrast, *VERDICT_HEADER[1:]), rows))
    parts.append(_markdown(CELL_HEADER, [cell_fields(cell) for cell in comparison.cells]))
    parts += [f"- {line}" for line in footer(comparison)]
    return "\n\n".join(part for part in parts if part) + "\n"


def to_table(comparison: Comparison) -> str:
    """Return a terminal table, about 110 columns, grouped by metric."""
    lines = [f"{_title(comparison)}: {comparison.campaign.plan.question}"]
    if mark := watermark(comparison.pool):
        lines.append(f"!! {mark} !!")
    lines += _mix_lines(comparison) or _verdict_lines(comparison)
    lines += ["", *_aligned(CELL_HEADER, [cell_fields(cell) for cell in comparison.cells]), ""]
    for line in footer(comparison):
        lines += textwrap.wrap(line, _WIDTH, subsequent_indent="    ")
    return "\n".join(line.rstrip() for line in lines).rstrip() + "\n"


def _mix_lines(comparison: Comparison) -> list[str]:
    """Return what each tenant lost against itself alone; nothing where tenants are not compared."""
    if comparison.contrast != mix.FACTOR:
        return []
    found = mixes.lines(comparison.runs, emulated=comparison.pool.emulated)
    found = found or ["Nothing could be compared: no run in which tenants share a drive is ok."]
    wrapped = [textwrap.wrap(line, _WIDTH, subsequent_indent="    ") for line in found]
    return ["", *(line for lines in wrapped for line in lines)]


def _verdict_lines(comparison: Comparison) -> list[str]:
    """Return one block of rows per metric."""
    lines: list[str] = []
    header = (comparison.contrast, *VERDICT_HEADER[1:-1])
    widths = _widths([header, *(cells(row)[:-1] for row in comparison.rows)])
    for _, group in groupby(comparison.rows, key=lambda row: row.metric):
        rows = list(group)
        lines += ["", heading(rows[0]), "  " + _line(header, widths)]
        lines += [line for row in rows for line in _row_lines(row, widths)]
    return lines or ["", "No level could be compared."]


def _title(comparison: Comparison) -> str:
    return " and ".join(one.label or one.plan.campaign for one in comparison.pool.campaigns)


def heading(row: Row) -> str:
    """Return a metric's headline."""
    unit = "" if row.info.unit == "1" else f" [{row.info.unit}]"
    return f"{row.metric}{unit}, {_DIRECTION[row.info.better]}, baseline {row.baseline}"


def cells(row: Row) -> tuple[str, ...]:
    """Return a row in the order of VERDICT_HEADER, in human units."""
    found, unit = row.estimate, row.info.unit
    level = row.level + (f" ({row.stratum})" if row.stratum else "")
    if found.is_ratio:
        center = units.ratio(found.center)
        interval = _interval(units.ratio(found.low), units.ratio(found.high), found.method)
    else:
        center = f"diff {units.human(found.center, unit)}"
        low, high = units.human(found.low, unit), units.human(found.high, unit)
        interval = _interval(low, high, found.method)
    n = str(found.n_level)
    if found.n_base != found.n_level:
        n = f"{found.n_base}/{found.n_level}"
    return (
        level, *(units.human(value, unit) for value in row.values), center, interval, n,
        row.verdict.value, "; ".join((*claim_notes(row), *_power_notes(row), *row.notes)),
    )  # fmt: skip


def claim_notes(row: Row) -> tuple[str, ...]:
    """Return what a primary claim expected, and its adjusted p value."""
    if row.claim is None:
        return ()
    adjusted = "" if row.p_holm is None else f", Holm p {row.p_holm:.2g}"
    return (f"claim {row.claim}: expected {row.expect}{adjusted}",)


def _power_notes(row: Row) -> tuple[str, ...]:
    """Return what a difference would have to be to be shown, where none was."""
    smallest = power.detectable(row.estimate)
    if row.verdict is not Verdict.NO_DIFFERENCE or smallest is None:
        return ()
    return (f"detectable: {_share(max(smallest, row.floor))}",)


def _share(value: float) -> str:
    return f"{100 * value:.2g} %" if value < 1 else f"x{1 + value:.2g}"


CELL_HEADER = ("cell", *(status.value for status in REPORTED_STATUSES), "missing", "issues")


def cell_fields(cell: CellStatus) -> tuple[str, ...]:
    """Return a cell's status in the order of CELL_HEADER."""
    issues = ", ".join(f"{code} x{count}" for code, count in cell.issues.items())
    if cell.earlier_attempts:
        plural = "s" if cell.earlier_attempts > 1 else ""
        issues = f"{issues} (+{cell.earlier_attempts} earlier attempt{plural})".strip()
    counts = [cell.counts.get(status, 0) for status in REPORTED_STATUSES]
    return (cell.cell, *(str(count or ".") for count in (*counts, cell.missing)), issues)


# First words of a footer's line, and the word in the report's table.
_CONSEQUENCES = {"NOT COMPARABLE": "no verdict", "declared": "declared", "also differs": "listed"}


def consequence(difference: Difference) -> str:
    """Return what a difference does to the verdicts, in a word or two."""
    if difference.blocking:
        return "no verdict"
    return "declared" if difference.declared else "listed"


def footer(comparison: Comparison) -> list[str]:
    """Return one sentence per thing a reader must know beside the table."""
    lines = [f"skipped: {level}: {why}" for level, why in comparison.skipped.items()]
    if comparison.unmeasured and comparison.any_ok:
        lines.append(f"not measured in any ok run: {', '.join(comparison.unmeasured)}")
    # Cells of a mix have to differ; each tenant is the same in all of its own.
    shared = comparison.contrast == mix.FACTOR
    for name, found in () if shared else comparison.differences.items():
        for word, kind in _CONSEQUENCES.items():
            labels = [d.label for d in found if consequence(d) == kind]
            if labels:
                lines.append(f"{word}: {name} vs {comparison.baseline}: {'; '.join(labels)}")
    lines += [
        f"not there yet: the part of rig {rig}" for rig in comparison.campaign.plan.rigs_to_come
    ]
    if comparison.campaign.plan.hosts_differ:
        differ = "; ".join(comparison.campaign.plan.hosts_differ)
        lines.append(f"hosts differ, as declared; blocks are compared within a host: {differ}")
    lines += _noise_lines(comparison)
    lines += _drift_lines(comparison)
    lines += _steady_lines(comparison)
    if comparison.rows and not shared:
        confidence = f"{100 * stats.CONFIDENCE:.0f} %"
        lines.append(
            f"ratio = geometric mean of the level / of the baseline; {confidence} interval by "
            "paired t on within-block log ratios (Welch t where blocks are missing); "
            "exact = does not vary; detectable = smallest difference these n runs would show in 4 "
            "of 5 campaigns. n = runs. See docs/methods.md."
        )
    return lines


def _noise_lines(comparison: Comparison) -> list[str]:
    """Return one line per metric whose identical cells raise what a verdict needs."""
    return [
        f"identical cells: {floor.metric}: {'; '.join(floor.twins)}: verdicts need more than "
        f"{floor.floor:.2%}"
        for floor in comparison.floors.values() if floor.twins
    ]  # fmt: skip


def _drift_lines(comparison: Comparison) -> list[str]:
    """Return what moved over the campaign, or that nothing did."""
    if not comparison.drifts:
        return []
    lines = [
        f"drift: {d.metric} moved by {d.change:+.1%} ({d.low:+.1%} .. {d.high:+.1%}) from first "
        f"run to last, whatever the {comparison.contrast} (Holm p {d.p_holm:.2g}): blocks even "
        "it out in ratios, not in values"
        for d in comparison.drifts if d.shown
    ]  # fmt: skip
    return lines or [f"drift over the campaign: none shown in {len(comparison.drifts)} metrics"]


def _steady_lines(comparison: Comparison) -> list[str]:
    """Return one line per group and measured phase: its labels, and the window of the worst."""
    groups: dict[tuple[str, str, str], list[PhaseSteady]] = {}
    for one in comparison.steady:
        value, stratum = group_label(one.run, comparison)
        groups.setdefault((one.phase, value, stratum), []).append(one)
    lines = []
    for (phase, value, stratum), found in sorted(groups.items()):
        name = f"{phase} of {value}{f' ({stratum})' if stratum else ''}"
        # A run that is steady is shown only where all are.
        shown = min(found, key=lambda one: _WORST.index(one.steady.label))
        where = f"{shown.run.name}: {steady.window(shown.steady)}"
        lines.append(f"steady state: {name}: {steady.counted(found)}; {where}")
    return lines


def csv_text(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return CSV text with Unix line ends."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_plain(value) for value in row] for row in rows)
    return out.getvalue()


def _record(row: Row) -> dict[str, Any]:
    e = row.estimate
    values = (
        row.metric, row.info.unit, row.info.kind.value, row.info.better.value, row.stratum,
        row.baseline, row.level, *row.values, e.is_ratio, _finite(e.center),
        _finite(e.low), _finite(e.high), e.p_value, row.p_holm, e.n_base, e.n_level,
        e.method.value, row.verdict.value, row.claim, row.expect, *row.steady, row.floor,
        power.detectable(e), "; ".join(row.notes),
    )  # fmt: skip
    return dict(zip(COLUMNS, values, strict=True))


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _plain(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else value


def _interval(low: str, high: str, method: Method) -> str:
    if method is Method.EXACT:
        return "exact"
    return units.DASH if method is Method.NONE else f"{low} .. {high}"


def _row_lines(row: Row, widths: Sequence[int]) -> list[str]:
    fields = cells(row)
    # Notes go on their own lines: beside the columns they would make the table too wide.
    notes = textwrap.wrap(fields[-1], _WIDTH - 6)
    return ["  " + _line(fields[:-1], widths), *(f"      {note}" for note in notes)]


def _line(fields: Sequence[str], widths: Sequence[int]) -> str:
    numeric = range(1, 6)
    return "  ".join(
        field.rjust(width) if i in numeric else field.ljust(width)
        for i, (field, width) in enumerate(zip(fields, widths, strict=False))
    )


def _aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = _widths([header, *rows])
    return [
        "  ".join(field.ljust(width) for field, width in zip(row, widths, strict=True))
        for row in (header, *rows)
    ]


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(
        "| " + " | ".join(field.replace("|", "\\|") for field in row) + " |" for row in lines
    )
