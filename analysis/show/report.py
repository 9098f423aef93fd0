"""``zonelab report``: one self-contained page, its tables as CSV and its figures as SVG.

Output does not depend on the clock or the campaign's path, so a campaign always gives the same
bytes.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from analysis.judge.compare import Comparison
from analysis.judge.other_campaigns import OtherCampaign
from analysis.show import drawing, page, render
from analysis.show.groups import groups_of
from analysis.show.links import Links
from analysis.show.parts import ReportData
from analysis.show.sections import sections_of
from analysis.show.tables import metrics_csv, tables_of
from harness.store.files import text_or_empty
from harness.store.rundir import full_disk_is_clear
from harness.tables import csv_text

_FOLDERS = ("tables", "figures")
_PARTIAL = ".partial-"
_OLD = 24 * 3600  # seconds; no command writes that long
_PAGE = '<p class="soft">zonelab · study '  # a line of each page
_LINK = re.compile(rf'href="((?:{"|".join(_FOLDERS)})/[\w.-]+)"')


def write_report(
    comparison: Comparison,
    folder: Path,
    *,
    linked: bool = True,
    others: Sequence[OtherCampaign] = (),
) -> tuple[Path, bool]:
    """Write ``index.html``, ``tables/*.csv`` and ``figures/*.svg``; remove stale ones.

    Stale files are those that only the existing page links to. Other files in ``folder`` stay. An
    existing report stays complete until all new files are on the disk. Without ``linked`` the page
    has no links to the campaign's files.
    ``others`` are campaigns on other rigs, which get a section.

    Returns:
        The page's path, and whether any file was written or removed.

    Raises:
        HostError: the disk is full; no file has changed.
    """
    links = Links.of(comparison.campaign, folder if linked else None)
    files = _files(comparison, links, others)
    changed = {name: text for name, text in files.items() if not _holds(folder / name, text)}
    stale = [folder / name for name in _linked(folder / "index.html") if name not in files]
    stale = [path for path in stale if path.is_file()]
    if changed or stale:
        with _staged(folder, changed) as partial:
            for path in stale:
                path.unlink(missing_ok=True)  # another report can be first
            for name in changed:  # the page is last, so that its links lead to existing files
                (partial / name).replace(folder / name)
    return folder / "index.html", bool(changed or stale)


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


def _linked(page: Path) -> list[str]:
    """Return the tables and figures that a page of an earlier report links to."""
    text = text_or_empty(page)
    return list(dict.fromkeys(_LINK.findall(text))) if _PAGE in text else []


@contextmanager
def _staged(folder: Path, files: Mapping[str, str]) -> Iterator[Path]:
    """Write files into a temporary folder on the same file system, ready to be renamed.

    Each command has a temporary folder of its own, because several can write one report.
    """
    existed = folder.exists()
    try:
        with ExitStack() as stack:
            with full_disk_is_clear(folder):
                folder.mkdir(parents=True, exist_ok=True)
                _remove_left(folder)
                partial = tempfile.TemporaryDirectory(prefix=_PARTIAL, dir=folder)
                work = Path(stack.enter_context(partial))
                for name in _FOLDERS:
                    (work / name).mkdir()
                for name, text in files.items():
                    (work / name).write_text(text, encoding="utf-8")
                for name in _FOLDERS:
                    (folder / name).mkdir(exist_ok=True)
            yield work
    finally:
        if not existed:
            with suppress(OSError):  # it has files
                folder.rmdir()


def _remove_left(folder: Path) -> None:
    """Remove the temporary folders of killed commands."""
    for left in folder.glob(f"{_PARTIAL}*"):
        with suppress(FileNotFoundError):  # another report removes it
            if time.time() - left.stat().st_mtime > _OLD:
                shutil.rmtree(left, ignore_errors=True)


def _files(comparison: Comparison, links: Links, others: Sequence[OtherCampaign]) -> dict[str, str]:
    """Return the text of every file by its path inside the report's folder; the page is last."""
    tables = tables_of(comparison)
    data = ReportData(comparison, tuple(groups_of(comparison)), tables, tuple(others))
    with drawing.style():
        sections = sections_of(data)
    files = {f"tables/{name}.csv": csv_text(*table) for name, table in tables.items()}
    for section in sections:
        for grid in section.grids:
            files[f"tables/{grid.name}.csv"] = csv_text(grid.header, grid.rows)
        for plot in section.plots:
            if plot.svg:
                files[f"figures/{plot.name}.svg"] = plot.svg
    files["tables/verdicts.csv"] = render.to_csv(comparison)
    files["tables/metrics.csv"] = metrics_csv(comparison.campaign)
    files["index.html"] = page.html(comparison, sections, links)
    return files
