"""The report's tables for a paper: LaTeX with booktabs, one environment per table."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.judge import columns
from analysis.judge.compare import Comparison, watermark
from analysis.show.page import numeric_columns
from analysis.show.tables import tables_of

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "µ": r"\textmu{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "\N{MULTIPLICATION SIGN}": r"$\times$",
    "\N{MINUS SIGN}": r"$-$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "∞": r"$\infty$",
    "±": r"$\pm$",
    "→": r"$\rightarrow$",
    "Σ": r"$\Sigma$",
    "·": r"$\cdot$",
} | {char: f"\\{char}" for char in "&%$#_{}"}
_CAPTIONS = {
    "cells": "Runs of each cell by status",
    "environment": "Hosts and devices",
    "ledger": "Bytes from the user to the media, by run and interval",
    "drift": "Drift over the campaign",
}


def document(comparison: Comparison) -> str:
    r"""Return all tables, for ``\input`` in a document with ``\usepackage{booktabs}``."""
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
    shown = columns.narrow(columns.shown())
    header = [column.heading(comparison.contrast) for column in shown]
    rows = [[column.cell(row) for column in shown] for row in comparison.shown]
    caption = (
        f"Every {comparison.contrast} against {comparison.baseline}: ratio of geometric means, "
        "paired t interval on within-block log ratios, n runs per side"
    )
    caption += f". {comparison.untimed.removesuffix('.')}" * bool(comparison.untimed)
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
    lines = [
        r"\begin{table}",
        r"  \centering",
        f"  \\caption{{{escape(caption + note)}}}",
        f"  \\label{{tab:{comparison.campaign.plan.campaign}-{name}}}",
        f"  \\begin{{tabular}}{{{columns}}}",
        r"    \toprule",
        *(f"    {line}" for line in body),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return " & ".join(escape(cell) for cell in cells) + r" \\"


def escape(text: str) -> str:
    """Return text with LaTeX's special characters escaped."""
    return "".join(_SPECIAL.get(char, char) for char in text)
