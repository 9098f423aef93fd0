"""The report for a pull request: what changed and how sure that is, the rest folded away."""

from __future__ import annotations

from collections.abc import Sequence

from analysis import headline, page, render
from analysis.compare import Comparison, watermark
from analysis.tables import tables_of

_HEADER = ("metric", "verdict", "ratio", "95 % interval", "value", "baseline", "n")
_FOLDED = ("issues", "differences", "steady", "cells", "environment")


def markdown(comparison: Comparison) -> str:
    """Return Markdown as GitHub, GitLab and Gitea render it, newline-terminated."""
    plan = comparison.campaign.plan
    parts = [f"## {plan.question}"]
    if mark := watermark(comparison.pool):
        parts.append(f"> **{mark}**")
    parts.append(page.summary(comparison))
    parts.append("\n".join(
        f"- {line.level}, `{line.metric}`: **{line.word}** {_escaped(line.text)}"
        for line in headline.lines(comparison)
    ))  # fmt: skip
    rows = []
    for row in comparison.rows:
        level, base, value, ratio, interval, n, word, _ = render.cells(row)
        rows.append((level, f"`{row.metric}`", word, ratio, interval, value, base, n))
    parts.append(_table((comparison.contrast, *_HEADER), rows))
    parts += [f"- skipped: {name}: {_escaped(why)}" for name, why in comparison.skipped.items()]
    tables = tables_of(comparison)
    for name in _FOLDED:
        header, found = tables[name]
        if found:
            title = f"<details><summary>{name}: {len(found)}</summary>"
            parts += [title, _table(header, found), "</details>"]
    command = f"zonelab report results/{plan.campaign} --format md"
    parts.append(f"Campaign `{plan.campaign}`, made by `{command}`.")
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(_escaped(cell) for cell in line)} |" for line in lines)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
