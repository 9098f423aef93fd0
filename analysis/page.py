"""Sections → one self-contained HTML page: loads nothing, links to the campaign's files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import jinja2

from analysis import headline
from analysis.compare import Comparison, watermark
from analysis.evidence import Links
from analysis.sections.base import Grid, Section
from analysis.stats import Verdict
from analysis.tenants import mix

TEMPLATES = Path(__file__).parent / "templates"
# A table with more rows makes a page that browsers cannot scroll; its CSV has them all.
MOST_ROWS = 500
CSS_CLASSES = {Verdict.BETTER.value: "better", Verdict.WORSE.value: "worse"}
_BAD = ("not steady", "failed", "invalid", "aborted", "missing", "error", "no verdict", "broken")
_NUMBER = re.compile(r"[+-]?[\d,.]+(e[+-]?\d+)?( ?[A-Za-z%µ/]{1,6})?|[-.]|")


def html(comparison: Comparison, sections: Sequence[Section], links: Links) -> str:
    """Return the page."""
    campaign = comparison.campaign
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True,
        undefined=jinja2.StrictUndefined, keep_trailing_newline=True,
    )  # fmt: skip
    formulas = {row.info.name for row in comparison.rows}
    environment.globals |= {
        "links": links, "bad": _BAD, "most_rows": MOST_ROWS, "css_class": CSS_CLASSES,
        "kind_of": lambda part: type(part).__name__, "numeric_columns": numeric_columns,
        "cells": lambda grid, row: linked(grid, row, links, formulas),
    }  # fmt: skip
    return environment.get_template("report.html.j2").render(
        plan=campaign.plan, sections=sections, headline=headline.lines(comparison),
        css=_asset("report.css"), js=_asset("report.js"),
        watermark=watermark(comparison.pool), summary=summary(comparison),
        began=min((run.result.started for run in campaign.runs), default=""),
        ended=max((run.result.finished for run in campaign.runs), default=""),
    )  # fmt: skip


def summary(comparison: Comparison) -> str:
    """Say in one sentence what was compared and how it came out."""
    words = [row.verdict for row in comparison.rows]
    counted = ", ".join(f"{words.count(word)} {word.value}" for word in Verdict if word in words)
    runs = comparison.campaign.latest
    ok = sum(run.ok for run in runs)
    planned = len(runs) + len(comparison.campaign.missing)
    if comparison.contrast == mix.FACTOR:
        return f"{ok} of {planned} runs are ok. Each tenant is held against itself alone."
    text = (
        f"{ok} of {planned} runs are ok. Every {comparison.contrast} against {comparison.baseline}"
    )
    return f"{text}: {counted}." if counted else f"{text}: nothing to compare."


def numeric_columns(rows: Sequence[Sequence[str]]) -> set[int]:
    """Return the columns in which every cell is a number, with or without a unit, or empty."""
    columns = zip(*rows, strict=True)
    return {
        index for index, column in enumerate(columns)
        if any(column) and all(_NUMBER.fullmatch(cell) for cell in set(column))
    }  # fmt: skip


def linked(
    grid: Grid, row: Sequence[str], links: Links, formulas: set[str]
) -> list[tuple[str, str]]:
    """Return the row's cells with their links: runs to their files, metrics to their formulas."""
    values = dict(zip(grid.header, row, strict=True))
    found = []
    for column, cell in zip(grid.header, row, strict=True):
        link = ""
        if column == "run":
            link = links.of_row(cell, values, grid.source)
        elif column == "metric" and cell.rpartition(".")[2] in formulas:
            link = f"#metric-{cell.rpartition('.')[2]}"
        found.append((cell, link))
    return found


def _asset(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")
