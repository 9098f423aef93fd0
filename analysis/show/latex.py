"""The report's tables for a paper: LaTeX, as wide as the page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from analysis.judge.compare import Comparison, watermark
from analysis.judge.other_campaigns import OtherCampaign
from analysis.show import compare_columns, other_rigs, repeat
from analysis.show.drawing import Plot
from analysis.show.page import numeric_columns
from analysis.show.tables import tables_of
from analysis.tenants import mix, words

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
# siunitx's names of units. Others are printed as they are.
_UNITS = {
    "B": r"\byte",
    "KiB": r"\kibi\byte",
    "MiB": r"\mebi\byte",
    "GiB": r"\gibi\byte",
    "TiB": r"\tebi\byte",
    "s": r"\second",
    "ms": r"\milli\second",
    "µs": r"\micro\second",
    "%": r"\percent",
}
_MOST_ROWS = 50  # rows of a float, which fit on a page of a paper
_NO_WIDER = r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}"
_PER_SECOND = "/s"
_RANGE = " .. "
_NUMBER = re.compile(
    r"(?P<number>[+-]?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?(e[+-]?\d+)?)( (?P<unit>[A-Za-z%µ/]+))?"
)
_CAPTIONS = {
    "cells": "Runs of each cell by status",
    "environment": "Hosts and devices",
    "ledger": "Bytes from the user to the media, by run and interval",
    "drift": "Drift over the campaign",
}


def document(comparison: Comparison, others: Sequence[OtherCampaign] = ()) -> str:
    r"""Return all tables, for ``\input`` in a document with booktabs, graphicx and siunitx 3.

    ``others`` are campaigns on other rigs, which get a table each.
    """
    command = repeat.command(comparison, others, "tex")
    parts = [
        f"% {command}\n% needs \\usepackage{{booktabs,graphicx,siunitx}}",
        _tenants(comparison) if comparison.contrast == mix.FACTOR else _verdicts(comparison),
    ]
    tables = tables_of(comparison)
    for name, caption in _CAPTIONS.items():
        header, rows = tables[name]
        if rows:
            parts.append(_table(comparison, name, caption, header, rows))
    parts += [_other(other, number) for number, other in enumerate(others, 1) if other.rows]
    return "\n\n".join(parts) + "\n"


def figures(comparison: Comparison, plots: Sequence[Plot]) -> str:
    r"""Return one float per figure, for ``\input`` in a document with graphicx."""
    campaign = comparison.campaign.plan.campaign
    floats = [
        "\n".join(
            [
                r"\begin{figure}",
                r"  \centering",
                f"  \\includegraphics[width=\\columnwidth]{{{plot.name}.pdf}}",
                f"  % or: \\resizebox{{\\columnwidth}}{{!}}{{\\input{{{plot.name}.pgf}}}}",
                f"  \\caption{{{escape(f'{plot.title}. {plot.sentence}')}}}"
                f"\\label{{fig:{campaign}-{plot.name}}}",
                r"\end{figure}",
            ]
        )
        for plot in plots
    ]
    head = (
        f"% zonelab report results/{campaign} --format tex --output FOLDER\n"
        "% needs \\usepackage{graphicx} and \\graphicspath{{FOLDER/}}; pgf files need pgf"
    )
    return "\n\n".join([head, *floats]) + "\n"


def _verdicts(comparison: Comparison) -> str:
    shown = compare_columns.narrow(compare_columns.shown())
    header = [column.heading(comparison.contrast) for column in shown]
    rows = [[column.cell(row) for column in shown] for row in comparison.shown]
    caption = (
        f"Every {comparison.contrast} against {comparison.baseline}: ratio of geometric means, "
        "paired t interval on within-block log ratios, n runs per side"
    )
    return _table(comparison, "verdicts", caption, header, rows)


def _tenants(comparison: Comparison) -> str:
    _, table = words.summary_of(comparison.runs, not_hardware=comparison.pool.not_hardware)
    caption = (
        "Every tenant beside the others against itself running alone: how many times less "
        "throughput and longer latency, paired t interval on within-block log ratios, n blocks"
    )
    return _table(comparison, "slowdowns", caption, *table)


def _other(other: OtherCampaign, number: int) -> str:
    comparison = other.comparison
    skipped = "".join(f" {line[0].upper()}{line[1:]}." for line in other_rigs.gaps(other))
    caption = (
        f"{other_rigs.TITLE}: every {comparison.contrast} of {comparison.campaign.plan.campaign} "
        f"against {comparison.baseline} of the same campaign. "
        f"{other_rigs.place(comparison.campaign)} {other_rigs.metric(other)}{skipped}"
    )
    return _table(comparison, f"other-rigs-{number}", caption, *other_rigs.table(other))


def _table(
    comparison: Comparison,
    name: str,
    caption: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
) -> str:
    """Return a table, in several floats if it is longer than a page."""
    numeric = numeric_columns(rows)
    columns = "".join("r" if index in numeric else "l" for index in range(len(header)))
    mark = watermark(comparison.pool)
    floats = []
    for begin in range(0, max(1, len(rows)), _MOST_ROWS):
        notes = [note for note in ("continued" if begin else "", mark) if note]
        text = caption + (f" ({'; '.join(notes)})" if notes else "")
        label = f"\\label{{tab:{comparison.campaign.plan.campaign}-{name}}}" if not begin else ""
        body = rows[begin : begin + _MOST_ROWS]
        lines = [
            r"\begin{table*}",
            r"  \centering\footnotesize",
            f"  \\caption{{{escape(text)}}}{label}",
            f"  {_NO_WIDER}{{!}}{{\\begin{{tabular}}{{{columns}}}",
            r"    \toprule",
            f"    {_line(map(escape, header))}",
            r"    \midrule",
            *(f"    {_line(map(cell, row))}" for row in body),
            r"    \bottomrule",
            r"  \end{tabular}}",
            r"\end{table*}",
        ]
        floats.append("\n".join(lines))
    return "\n\n".join(floats)


def _line(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def cell(text: str) -> str:
    """Return a cell: numbers, quantities and ranges in siunitx's commands, other text escaped."""
    ends = [_NUMBER.fullmatch(part) for part in text.split(_RANGE)]
    found = [end for end in ends if end is not None]
    if len(found) != len(ends) or len(found) > 2:  # noqa: PLR2004 - a range has two ends
        return escape(text)
    numbers = "".join(f"{{{end['number'].replace(',', '')}}}" for end in found)
    units = {end["unit"] or "" for end in found}
    if len(units) > 1:
        return escape(text)
    kind = "range" if len(found) > 1 else ""
    unit = _unit(units.pop())
    return f"\\qty{kind}{numbers}{{{unit}}}" if unit else f"\\num{kind}{numbers}"


def _unit(name: str) -> str:
    known, per = name.removesuffix(_PER_SECOND), name.endswith(_PER_SECOND)
    if known in _UNITS:
        return _UNITS[known] + (r"\per\second" if per else "")
    return escape(name)


def escape(text: str) -> str:
    """Return text with LaTeX's special characters escaped."""
    return "".join(_SPECIAL.get(char, char) for char in text)
