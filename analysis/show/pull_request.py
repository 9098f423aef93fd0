"""The report for a pull request: verdicts and their evidence, details folded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from analysis.judge.compare import Comparison, watermark
from analysis.judge.other_campaigns import OtherCampaign
from analysis.judge.rows import Row
from analysis.show import compare_columns, footer, other_rigs, page, repeat
from analysis.show.compare_columns import Column
from analysis.show.headline import answers
from analysis.show.tables import tables_of
from analysis.tenants import mix, words
from harness import tables as text_tables

_FOLDED = ("issues", "differences", "steady", "cells", "environment")


def markdown(comparison: Comparison, others: Sequence[OtherCampaign] = ()) -> str:
    """Return Markdown for GitHub, GitLab and Gitea, newline-terminated.

    ``others`` are campaigns on other rigs, which get a section.
    """
    plan = comparison.campaign.plan
    parts = [f"## {plan.question}"]
    if mark := watermark(comparison.pool):
        parts.append(f"> **{mark}**")
    parts.append(page.summary(comparison))
    parts += _tenants(comparison) if comparison.contrast == mix.FACTOR else _verdicts(comparison)
    parts += _items(footer.skipped(comparison))
    tables = tables_of(comparison)
    for name in _FOLDED:
        table = tables[name]
        if table.rows:
            title = f"<details><summary>{name}: {len(table.rows)}</summary>"
            parts += [title, _table(*table), "</details>"]
    if others:
        parts += [f"### {other_rigs.TITLE}", _escaped(other_rigs.about(comparison))]
    for other in others:
        parts.append(f"#### {other.comparison.campaign.plan.campaign}")
        parts += map(_escaped, other_rigs.paragraphs(other))
        parts += [_table(*other_rigs.table(other)), *_items(other_rigs.gaps(other))]
    command = repeat.command(comparison, others, "md")
    parts.append(f"Campaign `{plan.campaign}`, written by `{command}`.")
    return "\n\n".join(part for part in parts if part) + "\n"


def _tenants(comparison: Comparison) -> list[str]:
    """Return the sentences and the slowdowns of tenants, which have no verdicts against others."""
    sentences, table = words.summary_of(comparison.runs, not_hardware=comparison.pool.not_hardware)
    return ["\n".join(_items(sentences)), _table(*table)]


def _verdicts(comparison: Comparison) -> list[str]:
    """Return the answers, the table of verdicts, and the sentence about left-out times."""
    lines = [f"- **{item.topic}.** {_escaped(item.text)}" for item in answers(comparison)]
    shown = compare_columns.narrow(compare_columns.ranked())
    header = [column.heading(comparison.contrast) for column in shown]
    rows = [[_marked_up(column, row) for column in shown] for row in comparison.shown]
    return ["\n".join(lines), _table(header, rows), comparison.untimed]


def _items(lines: Iterable[str]) -> list[str]:
    return [f"- {_escaped(line)}" for line in lines]


def _marked_up(column: Column, row: Row) -> str:
    return f"`{row.metric}`" if column.name == "metric" else column.cell(row)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    return text_tables.markdown(header, [[_on_one_line(cell) for cell in row] for row in rows])


def _escaped(text: str) -> str:
    return _on_one_line(text).replace("|", "\\|")


def _on_one_line(text: str) -> str:
    return text.replace("<", "&lt;").replace("\n", " ")
