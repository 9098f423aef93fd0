"""The report's tables for a paper: LaTeX with booktabs, one table environment each."""

from __future__ import annotations

from collections.abc import Sequence

from analysis import render, stats
from analysis.compare import Comparison, watermark
from analysis.page import numeric_columns
from analysis.tables import tables_of

_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "µ": r"\textmu{}", "\N{MULTIPLICATION SIGN}": r"$\times$", "\N{MINUS SIGN}": r"$-$",
    "≥": r"$\geq$", "≤": r"$\leq$",
    "∞": r"$\infty$", "±": r"$\pm$", "→": r"$\rightarrow$", "Σ": r"$\Sigma$", "·": r"$\cdot$",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
}  # fmt: skip
_CAPTIONS = {
    "cells": "How the runs of each cell ended",
    "environment": "What was measured on",
    "ledger": "Bytes from user to media, by run and interval",
    "drift": "Drift over the campaign",
}


def document(comparison: Comparison) -> str:
    r"""Return all tables; to be read with ``\input``, behind ``\usepackage{booktabs}``."""
    campaign = comparison.campaign.plan.campaign
    command = f"zonelab report results/{campaign} --format tex"
    parts = [f"% {command}\n% needs \\usepackage{{booktabs}}", _verdicts(comparison)]
    tables = tables_of(comparison)
    for name, caption in _CAPTIONS.items():
        header, rows = tables[name]
        if rows:
            parts.append(_table(comparison, name, caption, header, rows))
    return "\n\n".join(parts) + "\n"


def _verdicts(comparison: Comparison) -> str:
    rows = []
    for row in comparison.rows:
        level, base, value, ratio, interval, n, word, _ = render.cells(row)
        rows.append((row.metric, level, base, value, ratio, interval, n, word))
    header = (
        "metric", comparison.contrast, "baseline", "value", "ratio",
        f"{100 * stats.CONFIDENCE:.0f} % interval", "n", "verdict",
    )  # fmt: skip
    caption = (
        f"Every {comparison.contrast} against {comparison.baseline}: ratio of geometric means, "
        "paired t interval on within-block log ratios, n runs a side"
    )
    return _table(comparison, "verdicts", caption, header, rows)


def _table(
    comparison: Comparison,
    name: str,
    caption: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
) -> str:
    numeric = numeric_columns(rows)
    columns = "".join("r" if index in numeric else "l" for index in range(len(header)))
    note = f" ({mark})" if (mark := watermark(comparison.pool)) else ""
    body = [_line(header), r"\midrule", *(_line(row) for row in rows)]
    return "\n".join([
        r"\begin{table}", r"  \centering", f"  \\caption{{{escape(caption + note)}}}",
        f"  \\label{{tab:{comparison.campaign.plan.campaign}-{name}}}",
        f"  \\begin{{tabular}}{{{columns}}}", r"    \toprule",
        *(f"    {line}" for line in body), r"    \bottomrule", r"  \end{tabular}", r"\end{table}",
    ])  # fmt: skip


def _line(cells: Sequence[str]) -> str:
    return " & ".join(escape(cell) for cell in cells) + r" \\"


def escape(text: str) -> str:
    """Return a text that LaTeX prints as it is."""
    return "".join(_SPECIAL.get(char, char) for char in text)
