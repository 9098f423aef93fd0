"""Sections → one self-contained HTML page. It loads nothing; links lead to the campaign's files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import jinja2

from analysis.judge.compare import Comparison, watermark
from analysis.judge.verdicts import Verdict
from analysis.read.load import CampaignData
from analysis.show.headline import answers
from analysis.show.links import Links
from analysis.show.parts import Grid, Section
from analysis.tenants import mix
from harness.store.campaign import CampaignPaths, load_campaign
from harness.store.result import Status
from harness.store.root import root_hash

TEMPLATES = Path(__file__).parent / "templates"
# Browsers cannot scroll a page with longer tables; the CSV has all rows.
MOST_ROWS = 500
CSS_CLASSES = {Verdict.BETTER.value: "better", Verdict.WORSE.value: "worse"}
_BAD = ("not steady", "failed", "invalid", "aborted", "missing", "error", "no verdict", "broken")
_NUMBER = re.compile(r"[+-]?[\d,.]+(e[+-]?\d+)?( ?[A-Za-z%µ/]{1,6})?|[-.]|")


def html(comparison: Comparison, sections: Sequence[Section], links: Links) -> str:
    """Return the page."""
    campaign = comparison.campaign
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    formulas = {row.info.name for row in comparison.shown}
    environment.globals |= {
        "links": links,
        "bad": _BAD,
        "most_rows": MOST_ROWS,
        "css_class": CSS_CLASSES,
        "kind_of": lambda part: type(part).__name__,
        "numeric_columns": numeric_columns,
        "cells": lambda grid, row: linked(grid, row, links, formulas),
    }
    return environment.get_template("report.html.j2").render(
        plan=campaign.plan,
        sections=sections,
        answers=[] if comparison.contrast == mix.FACTOR else answers(comparison),
        css=_asset("report.css"),
        js=_asset("report.js"),
        watermark=watermark(comparison.pool),
        times_judged=comparison.times_judged,
        summary=summary(comparison),
        dates=dates(campaign),
        root=root_hash(CampaignPaths(campaign.path)),
    )


def dates(campaign: CampaignData) -> str:
    """Return when the runs were measured. Virtual clocks, with a fixed date, are left out."""
    runs = [run for run in campaign.runs if not run.has_virtual_clock]
    if runs:
        began = min(run.result.started for run in runs)
        return f"measured {began} to {max(run.result.finished for run in runs)}"
    record = CampaignPaths(campaign.path).record
    return f"planned {load_campaign(record).created}" if record.is_file() else ""


def summary(comparison: Comparison) -> str:
    """Return one or two sentences: how many runs are ok, and the verdicts."""
    runs = comparison.campaign.latest
    planned = len(runs) + len(comparison.campaign.missing)
    skipped = sum(run.result.status is Status.SKIPPED for run in runs)
    text = f"{sum(run.ok for run in runs)} of {planned} runs are ok"
    text += f", {skipped} {'was' if skipped == 1 else 'were'} skipped." if skipped else "."
    if comparison.contrast == mix.FACTOR:
        return f"{text} Each tenant is compared with itself running alone."
    verdicts = [row.verdict for row in comparison.shown]
    counts = [f"{verdicts.count(word)} {word.value}" for word in Verdict if word in verdicts]
    outcome = ", ".join(counts) or "nothing to compare"
    return f"{text} Every {comparison.contrast} against {comparison.baseline}: {outcome}."


def numeric_columns(rows: Sequence[Sequence[str]]) -> set[int]:
    """Return the columns whose cells are all empty or numbers, with or without a unit."""
    return {
        index
        for index, column in enumerate(zip(*rows, strict=True))
        if any(column) and all(_NUMBER.fullmatch(cell) for cell in set(column))
    }


def linked(
    grid: Grid, row: Sequence[str], links: Links, formulas: set[str]
) -> list[tuple[str, str]]:
    """Return a row's cells with links: runs to their files, metrics to their formulas."""
    values = dict(zip(grid.header, row, strict=True))
    cells = []
    for column, cell in zip(grid.header, row, strict=True):
        link = ""
        if column == "run":
            link = links.of_row(cell, values, grid.source)
        elif column == "metric" and cell.rpartition(".")[2] in formulas:
            link = f"#metric-{cell.rpartition('.')[2]}"
        cells.append((cell, link))
    return cells


def _asset(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")
