"""The report for a paper: its tables, and the page's main figures as PDF and pgf."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_pgf import LatexError
from matplotlib.figure import Figure

from analysis.judge.compare import Comparison
from analysis.judge.other_campaigns import OtherCampaign
from analysis.show import drawing, flow_figure, forest_figure, latex
from analysis.show import series_figure as over_time
from analysis.show.drawing import Plot
from analysis.show.groups import groups_of
from analysis.show.sections import amplification
from analysis.tenants import mix
from harness.errors import HostError
from harness.store.rundir import full_disk_is_clear

# Publishers refuse fonts of type 3. The pgf file uses the fonts of the paper.
_FORMATS: Any = {
    "pdf.fonttype": 42,
    "pgf.texsystem": "pdflatex",
    "pgf.rcfonts": False,
    "pgf.preamble": r"\usepackage[T1]{fontenc}",
}
_UNDATED = {"CreationDate": None, "Creator": None, "Producer": None}
# matplotlib's pgf output requires that the paper loads the package underscore.
_UNDERSCORE = re.compile(r"(?<!\\)_")


def figures_of(comparison: Comparison) -> list[Plot]:
    """Return the page's figures for which the campaign has data."""
    groups = groups_of(comparison)
    plots: list[Plot] = []
    with drawing.style(), drawing.keeping_figures():
        if comparison.contrast != mix.FACTOR:
            plots.append(forest_figure.forest(comparison))
        plots += amplification.plots_of(comparison, groups)
        plots.append(flow_figure.from_user_to_media(comparison, groups))
        plots += over_time.every(comparison, groups)
    return [plot for plot in plots if plot.figure is not None]


def write_paper(
    comparison: Comparison, folder: Path, others: Sequence[OtherCampaign] = ()
) -> tuple[list[Path], HostError | None]:
    r"""Write ``tables.tex``, ``figures.tex`` and each figure as PDF and pgf; remove nothing.

    Returns:
        The two files for ``\input``, and why there are no pgf files.

    Raises:
        HostError: the disk is full.
    """
    plots = figures_of(comparison)
    drawn = {plot.name: plot.figure for plot in plots if plot.figure is not None}
    files = {
        "tables.tex": latex.document(comparison, others).encode(),
        "figures.tex": latex.figures(comparison, plots).encode(),
    }
    inputs = [folder / name for name in files]
    files |= {f"{name}.pdf": pdf(figure) for name, figure in drawn.items()}
    why_not = None
    try:
        files |= {f"{name}.pgf": pgf(figure).encode() for name, figure in drawn.items()}
    except HostError as error:
        why_not = error
    with full_disk_is_clear(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
    return inputs, why_not


def pdf(figure: Figure) -> bytes:
    """Return a drawn figure as PDF; the same figure always gives the same bytes."""
    out = io.BytesIO()
    with drawing.on_paper(figure), mpl.rc_context(_FORMATS):
        figure.savefig(out, format="pdf", metadata=_UNDATED)
    return out.getvalue()


def pgf(figure: Figure) -> str:
    """Return a drawn figure as pgf commands, whose text has the fonts of the paper.

    Raises:
        HostError: pdflatex, which measures the text, is missing or lacks a package.
    """
    out = io.StringIO()
    try:
        with drawing.on_paper(figure), mpl.rc_context(_FORMATS):
            figure.savefig(out, format="pgf")
    except (LatexError, RuntimeError, ValueError) as error:
        raise HostError(
            "no pgf files: they need pdflatex with the package underscore",
            hint="include the PDF files, or: sudo apt install texlive-latex-recommended",
        ) from error
    comments, begin, drawn = out.getvalue().partition(r"\begingroup")
    return comments + begin + _UNDERSCORE.sub(r"\\_", drawn)
