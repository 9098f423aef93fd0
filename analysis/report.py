"""``zonelab report``: one self-contained page, its tables as CSV and its figures as SVG.

Nothing depends on the clock or on where the campaign lies: the same campaign gives the same bytes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import jinja2

from analysis import drawing, figures, flow, flow_figure, render, stats, zones_figure
from analysis.compare import WATERMARK, Comparison, Row
from analysis.drawing import Plot
from analysis.groups import Group, groups_of
from analysis.stats import Verdict
from analysis.tables import Table, tables_of
from harness.metrics import CATALOGUE
from harness.store.rundir import full_disk_is_clear

_TEMPLATES = Path(__file__).parent / "templates"
_FOLDERS = ("tables", "figures")
_SECTIONS = ("throughput", "latency", "bytes", "flow", "utilisation", "series", "zones")
_CSS_CLASS = {Verdict.BETTER: "better", Verdict.WORSE: "worse"}
_BAD = ("not steady", "failed", "invalid", "aborted", "missing", "error", "no verdict", "broken")


def write_report(comparison: Comparison, folder: Path, noise_floor: float) -> tuple[Path, bool]:
    """Write ``index.html``, ``tables/*.csv`` and ``figures/*.svg``, and remove stale ones.

    Other files in ``folder`` stay. The report that was there stays whole until all of the new one
    is on the disk.

    Returns:
        The page's path, and whether any file had to be written or removed.

    Raises:
        HostError: the disk is full; nothing has changed.
    """
    files = _files(comparison, noise_floor)
    fresh = {name: text for name, text in files.items() if not _holds(folder / name, text)}
    stale = [
        path for name in _FOLDERS for path in folder.glob(f"{name}/*")
        if f"{name}/{path.name}" not in files
    ]  # fmt: skip
    if fresh or stale:
        with _staged(folder, fresh) as partial:
            for path in stale:
                path.unlink()
            for name in fresh:  # the page comes last: what it speaks of is there
                (partial / name).replace(folder / name)
    return folder / "index.html", bool(fresh or stale)


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


@contextmanager
def _staged(folder: Path, files: Mapping[str, str]) -> Iterator[Path]:
    """Write files into a temporary folder on the same file system; from there they are renamed."""
    partial = folder / ".partial"
    made = not folder.exists()
    try:
        shutil.rmtree(partial, ignore_errors=True)  # of a report that was killed
        with full_disk_is_clear(folder):
            for name in _FOLDERS:
                (folder / name).mkdir(parents=True, exist_ok=True)
                (partial / name).mkdir(parents=True)
            for name, text in files.items():
                (partial / name).write_text(text, encoding="utf-8")
    except BaseException:
        shutil.rmtree(folder if made else partial, ignore_errors=True)
        raise
    try:
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _files(comparison: Comparison, noise_floor: float) -> dict[str, str]:
    """Return every file of the report, by its path inside the report's folder; the page last."""
    with drawing.style():
        plots = _plots(comparison)
    tables = tables_of(comparison)
    files = {
        f"tables/{name}.csv": render.csv_text(header, rows)
        for name, (header, rows) in tables.items()
    }
    files["tables/verdicts.csv"] = render.to_csv(comparison)
    files["tables/metrics.csv"] = comparison.campaign.frame().write_csv()
    for plot in (plot for section in plots.values() for plot in section):
        if plot.svg:
            files[f"figures/{plot.name}.svg"] = plot.svg
    files["index.html"] = _html(comparison, plots, tables, noise_floor)
    return files


def _html(
    comparison: Comparison, plots: dict[str, list[Plot]], tables: dict[str, Table], noise: float
) -> str:
    campaign = comparison.campaign
    loader = jinja2.FileSystemLoader(_TEMPLATES)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )  # fmt: skip
    names = {row.metric for row in comparison.rows}
    return environment.get_template("report.html.j2").render(
        plan=campaign.plan, css=(_TEMPLATES / "report.css").read_text(encoding="utf-8"),
        watermark=WATERMARK if campaign.emulated else "", summary=_summary(comparison),
        began=min((run.result.started for run in campaign.runs), default=""),
        ended=max((run.result.finished for run in campaign.runs), default=""),
        contrast=comparison.contrast, baseline=comparison.baseline,
        metrics=_metrics(comparison), skipped=comparison.skipped,
        unmeasured=comparison.unmeasured,
        differences=tables["differences"][1], bad=_BAD,
        **plots,
        utilisation_table=tables["utilisation"], steady=tables["steady"], rounds=tables["rounds"],
        drift=tables["drift"], lsm=tables["lsm"], bottlenecks=tables["bottlenecks"],
        costs=tables["costs"], ledger=tables["ledger"], closures=tables["closures"],
        closure_states=flow.states(tables["closures"][1]),
        issues=tables["issues"], cells=tables["cells"],
        runs=tables["runs"], environment=tables["environment"], recorded=tables["recorded"],
        formulas=[
            (m.name, m.unit, m.kind.value, m.better.value, m.formula)
            for m in CATALOGUE.values() if any(name.endswith(f".{m.name}") for name in names)
        ],
        confidence=f"{100 * stats.CONFIDENCE:.0f} %", noise_floor=f"{100 * noise:g} %",
        command=f"zonelab report results/{campaign.plan.campaign}",
    )  # fmt: skip


def _summary(comparison: Comparison) -> str:
    """Say in one sentence what was compared and how it came out."""
    words = [row.verdict for row in comparison.rows]
    counted = ", ".join(f"{words.count(word)} {word.value}" for word in Verdict if word in words)
    runs = comparison.campaign.latest
    ok = sum(run.ok for run in runs)
    planned = len(runs) + len(comparison.campaign.missing)
    text = (
        f"{ok} of {planned} runs are ok. Every {comparison.contrast} against {comparison.baseline}"
    )
    return f"{text}: {counted}." if counted else f"{text}: nothing to compare."


def _metrics(comparison: Comparison) -> list[dict[str, Any]]:
    found = []
    for metric, group in groupby(comparison.rows, key=lambda row: row.metric):
        rows = list(group)
        about = render.heading(rows[0]).removeprefix(metric).lstrip(", ")
        found.append({"name": metric, "about": about, "rows": [_row(row) for row in rows]})
    return found


def _row(row: Row) -> dict[str, str]:
    level, base, value, ratio, interval, n, word, notes = render.cells(row)
    return {
        "level": level, "baseline": base, "value": value, "ratio": ratio, "interval": interval,
        "n": n, "verdict": word, "notes": notes, "css": _CSS_CLASS.get(row.verdict, "none"),
    }  # fmt: skip


def _plots(comparison: Comparison) -> dict[str, list[Plot]]:
    groups = groups_of(comparison)
    runs = comparison.campaign.runs
    phases = list(dict.fromkeys(phase.name for run in runs for phase in run.spec.phases))
    if not groups:
        none = [Plot("none", "No figure", None, "No run of this campaign is ok.")]
        return dict.fromkeys(_SECTIONS, none)
    limits = figures.series_limits(groups)
    return {
        "throughput": [
            figures.strip(comparison, groups, f"{phase}.throughput") for phase in phases
        ],
        "latency": [figures.percentiles(comparison, groups, phase) for phase in phases],
        "bytes": [figures.device_bytes(comparison, groups, phase) for phase in phases],
        "flow": [flow_figure.from_user_to_media(comparison, groups)],
        "utilisation": [figures.utilisation(comparison, groups), *_maximum(comparison, groups)],
        "series": [figures.series(comparison, group, limits) for group in groups],
        "zones": [zones_figure.timeline(comparison, group) for group in groups],
    }


def _maximum(comparison: Comparison, groups: Sequence[Group]) -> list[Plot]:
    """Return the plot of each level's possible maximum where a run measured it."""
    key = "run.max_utilisation"
    return [figures.strip(comparison, groups, key)] if any(g.values(key) for g in groups) else []
