"""A comparison as text: readable ``table`` and ``md``, ``json`` and ``csv`` with raw numbers."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from itertools import groupby
from typing import Any

from analysis import numbers
from analysis.judge import power, wording
from analysis.judge.cell_status import CellStatus
from analysis.judge.compare import Comparison, watermark
from analysis.judge.rows import Row
from analysis.show import compare_columns
from analysis.show.compare_columns import Column
from analysis.show.footer import footer
from analysis.show.footnotes import Footnotes
from analysis.tenants import mix, words
from harness.metrics.catalogue import Better
from harness.store.codec import SCHEMA_VERSION, encode
from harness.store.result import Status
from harness.tables import Table, aligned, csv_text, markdown, tabulate

_WIDTH = 110
_DIRECTION = {
    Better.HIGHER: "higher is better",
    Better.LOWER: "lower is better",
    Better.NONE: "descriptive",
}


def render(comparison: Comparison, form: str, effect: float | None = None) -> str:
    """Return the comparison as ``table``, ``md``, ``json`` or ``csv``, newline-terminated.

    ``effect`` is a relative difference; with it, ``table`` and ``md`` list the repetitions to show
    it.
    """
    if form == "json":
        return to_json(comparison)
    if form == "csv":
        return to_csv(comparison)
    text = to_markdown(comparison) if form == "md" else to_table(comparison)
    return text + "".join(f"{line}\n" for line in _repetition_lines(comparison, effect))


def _repetition_lines(comparison: Comparison, effect: float | None) -> list[str]:
    """Return one line per row with an interval: the repetitions that would show ``effect``.

    More repetitions do not give a verdict to a row that is not tested for another reason.
    """
    if not effect:
        return []
    lines = []
    for row in comparison.rows:
        if row.estimate.error is not None and row.verdict.is_judged:
            needed = power.repetitions(row.estimate, effect, row.floor)
            count = f"more than {power.MOST_REPETITIONS}" if needed is None else str(needed)
            lines.append(
                f"- to show {wording.share(effect)}: {row.metric}, {wording.level(row)}: "
                f"{count} repetitions"
            )
    return lines or [
        f"- to show {wording.share(effect)}: unknown, no row with a verdict has an interval"
        " (it needs two runs of both sides)"
    ]


def records(comparison: Comparison) -> list[dict[str, Any]]:
    """Return one flat record per row with raw numbers, skipped levels last."""
    nothing = dict.fromkeys(column.name for column in compare_columns.COLUMNS)
    rows = [compare_columns.record(row) for row in comparison.rows]
    rows += [
        nothing | {"level": level, "verdict": "skipped", "notes": reason}
        for level, reason in comparison.skipped.items()
    ]
    return rows


def to_json(comparison: Comparison) -> str:
    """Return the whole comparison."""
    plan = comparison.campaign.plan
    document = {
        "schema_version": SCHEMA_VERSION,
        "campaign": plan.campaign,
        "study": plan.study,
        "question": plan.question,
        "contrast": comparison.contrast,
        "campaigns": [str(campaign.path) for campaign in comparison.pool.campaigns],
        "baseline": comparison.baseline,
        "emulated": comparison.pool.not_hardware,  # name of the format
        "watermark": watermark(comparison.pool) or None,
        "rows": records(comparison),
        "claims": [compare_columns.record(row) for row in comparison.claims],
        "cells": encode(comparison.cells),
        "unmeasured": comparison.unmeasured,
        "differences": encode(comparison.differences),
        "noise_floors": [
            {
                "metric": floor.metric,
                "floor": numbers.finite(floor.floor),
                "twins": floor.twins,
            }
            for floor in comparison.floors.values()
        ],
        "drift": [
            encode(drift)
            | {
                "low": numbers.finite(drift.low),
                "high": numbers.finite(drift.high),
                "shown": drift.shown,
            }
            for drift in comparison.drifts
        ],
        "steady": [
            {
                "value": phase.value,
                "stratum": phase.stratum,
                "phase": phase.phase,
                "runs": len(phase.runs),
                **encode(phase.steady),
            }
            for phase in comparison.steady
        ],
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def to_csv(comparison: Comparison) -> str:
    """Return one line per row, with raw numbers; null is an empty cell."""
    names = [column.name for column in compare_columns.COLUMNS]
    words = {True: "true", False: "false"}
    question = comparison.campaign.plan.question
    rows = (
        [
            words[value] if isinstance(value, bool) else value
            for value in (*record.values(), question)
        ]
        for record in records(comparison)
    )
    return csv_text([*names, "question"], rows)


def to_markdown(comparison: Comparison) -> str:
    """Return Markdown: tables of verdicts or slowdowns and of cells, skips and differences."""
    parts = [f"# {_title(comparison)}", comparison.campaign.plan.question]
    if mark := watermark(comparison.pool):
        parts.append(f"**{mark}**")
    parts += _mix_parts(comparison) or _verdict_parts(comparison)
    tables = (claims_table(comparison), cells_table(comparison))
    parts += [markdown(*table) for table in tables if table.rows]
    parts += [f"- {line}" for line in footer(comparison)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _mix_parts(comparison: Comparison) -> list[str]:
    """Return the sentences and the slowdowns of tenants; empty if tenants are not compared."""
    if comparison.contrast != mix.FACTOR:
        return []
    sentences, table = words.summary_of(comparison.runs, not_hardware=comparison.pool.not_hardware)
    listed = "\n".join(f"- {sentence}" for sentence in sentences)
    return [listed, markdown(*table) if table.rows else ""]


def _verdict_parts(comparison: Comparison) -> list[str]:
    """Return the table of verdicts, the sentence about left-out times, and the notes."""
    shown = compare_columns.shown()
    header = [column.heading(comparison.contrast) for column in shown]
    footnotes = Footnotes(comparison.shown)
    rows = [[_marked_up(column, row, footnotes) for column in shown] for row in comparison.shown]
    notes = "\n".join(f"- {line}" for line in footnotes.lines)
    return [markdown(header, rows) if rows else "", comparison.untimed, notes]


def _marked_up(column: Column, row: Row, footnotes: Footnotes) -> str:
    return f"`{row.metric}`" if column.name == "metric" else footnotes.cell(column, row)


def to_table(comparison: Comparison) -> str:
    """Return a terminal table, about 110 columns wide, grouped by metric."""
    lines = [f"{_title(comparison)}: {comparison.campaign.plan.question}"]
    if mark := watermark(comparison.pool):
        lines.append(f"!! {mark} !!")
    lines += _mix_lines(comparison) or _verdict_lines(comparison)
    claims = claims_table(comparison)
    lines += ["", *aligned(*claims)] if claims.rows else []
    lines += ["", *aligned(*cells_table(comparison)), ""]
    for line in footer(comparison):
        lines += textwrap.wrap(line, _WIDTH, subsequent_indent="    ")
    return "\n".join(line.rstrip() for line in lines).rstrip() + "\n"


def _mix_lines(comparison: Comparison) -> list[str]:
    """Return each tenant's loss against running alone; empty if tenants are not compared."""
    if comparison.contrast != mix.FACTOR:
        return []
    lines = words.lines(comparison.runs, not_hardware=comparison.pool.not_hardware)
    wrapped = [textwrap.wrap(line, _WIDTH, subsequent_indent="    ") for line in lines]
    return ["", *(line for lines in wrapped for line in lines)]


def _verdict_lines(comparison: Comparison) -> list[str]:
    """Return one block of rows per metric, and the numbered notes of the rows."""
    footnotes = Footnotes(comparison.shown)
    shown = [
        column
        for column in compare_columns.narrow(compare_columns.shown())
        if column.name != "metric"
    ]
    header = [column.heading(comparison.contrast) for column in shown]
    cells = [[column.cell(row) for column in shown] for row in comparison.shown]
    right = [index for index, column in enumerate(shown) if column.is_number]
    head, *body = aligned(header, cells, right)
    lines: list[str] = []
    for _, group in groupby(zip(comparison.shown, body, strict=True), lambda pair: pair[0].metric):
        pairs = list(group)
        lines += ["", heading(pairs[0][0]), f"  {head}"]
        for row, line in pairs:
            own = textwrap.wrap(compare_columns.own_notes(row), _WIDTH - 6)
            lines += [f"  {line} {footnotes.marks(row)}", *(f"      {note}" for note in own)]
    notes = [line for line in (comparison.untimed, *footnotes.lines) if line]
    lines += [""] if notes else []
    for note in notes:
        lines += textwrap.wrap(note, _WIDTH, subsequent_indent="    ")
    return lines or ["", "No level could be compared."]


def _title(comparison: Comparison) -> str:
    return " and ".join(
        campaign.label or campaign.plan.campaign for campaign in comparison.pool.campaigns
    )


def heading(row: Row) -> str:
    """Return the headline of a metric."""
    unit = "" if row.info.unit == "1" else f" [{row.info.unit}]"
    return f"{row.metric}{unit}, {_DIRECTION[row.info.better]}, baseline {row.baseline}"


def cells_table(comparison: Comparison) -> Table:
    """Return one row per cell: how its runs ended, and their issues."""
    return tabulate(_CELLS, comparison.cells)


def claims_table(comparison: Comparison) -> Table:
    """Return one row per claim of the study, also where a claim has a baseline of its own."""
    return tabulate(_CLAIMS, comparison.claims)


def _count(status: Status) -> Callable[[CellStatus], str]:
    return lambda cell: str(cell.counts.get(status, 0) or ".")


def _issues(cell: CellStatus) -> str:
    issues = ", ".join(f"{code} x{count}" for code, count in cell.issues.items())
    if cell.earlier_attempts:
        plural = "s" if cell.earlier_attempts > 1 else ""
        issues = f"{issues} (+{cell.earlier_attempts} earlier attempt{plural})".strip()
    return issues


_CLAIMS: dict[str, Callable[[Row], str]] = {
    "claim": lambda row: row.claim or "",
    "metric": lambda row: row.metric,
    "level": wording.level,
    "against": lambda row: row.baseline,
    "expected": lambda row: row.expect or "",
    "verdict": lambda row: row.verdict.value,
    "ratio": wording.ratio,
    "interval": wording.interval,
    "Holm p": lambda row: numbers.formatted(row.p_holm, ".2g"),
}
_CELLS: dict[str, Callable[[CellStatus], str]] = {
    "cell": lambda cell: cell.cell,
    **{status.value: _count(status) for status in Status},
    "missing": lambda cell: str(cell.missing or "."),
    "issues": _issues,
}
