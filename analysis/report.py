"""``zonelab report``: one self-contained page, its tables as CSV and its figures as SVG.

Nothing depends on the clock or on where the campaign lies: the same campaign gives the same bytes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from analysis import drawing, page, render
from analysis.compare import Comparison
from analysis.evidence import Links
from analysis.groups import groups_of
from analysis.sections import sections_of
from analysis.sections.base import Context
from analysis.tables import tables_of
from harness.store.rundir import full_disk_is_clear

_FOLDERS = ("tables", "figures")


def write_report(comparison: Comparison, folder: Path, noise_floor: float) -> tuple[Path, bool]:
    """Write ``index.html``, ``tables/*.csv`` and ``figures/*.svg``, and remove stale ones.

    Other files in ``folder`` stay. The report that was there stays whole until all of the new one
    is on the disk.

    Returns:
        The page's path, and whether any file had to be written or removed.

    Raises:
        HostError: the disk is full; nothing has changed.
    """
    files = _files(comparison, folder, noise_floor)
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


def _files(comparison: Comparison, folder: Path, noise_floor: float) -> dict[str, str]:
    """Return every file of the report, by its path inside the report's folder; the page last."""
    tables = tables_of(comparison)
    context = Context(comparison, tuple(groups_of(comparison)), tables, noise_floor)
    with drawing.style():
        sections = sections_of(context)
    grids = [grid for section in sections for grid in section.grids]
    files = {
        f"tables/{name}.csv": render.csv_text(header, rows)
        for name, header, rows in (
            *((name, *table) for name, table in tables.items()),
            *((grid.name, grid.header, grid.rows) for grid in grids),
        )
    }
    files["tables/verdicts.csv"] = render.to_csv(comparison)
    files["tables/metrics.csv"] = comparison.campaign.frame().write_csv()
    for plot in (plot for section in sections for plot in section.plots):
        if plot.svg:
            files[f"figures/{plot.name}.svg"] = plot.svg
    files["index.html"] = page.html(comparison, sections, Links.of(comparison.campaign, folder))
    return files
