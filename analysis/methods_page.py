"""docs/methods.md as HTML, so that the page has every formula in it.

Knows the Markdown that this one document uses: headings, paragraphs, lists, tables, code, bold
and italics, links. Links to other files lose their target: the page stands alone.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

DOCUMENT = Path(__file__).parents[1] / "docs" / "methods.md"
_INLINE = (
    (re.compile(r"\[([^\]]+)\]\(#([^)]+)\)"), r'<a href="#doc-\2">\1</a>'),
    (re.compile(r"\[([^\]]+)\]\([^)]+\)"), r"\1"),
    (re.compile(r"\*\*([^*]+)\*\*"), r"<b>\1</b>"),
    (re.compile(r"(?<![*\w])\*([^*\s][^*]*)\*"), r"<i>\1</i>"),
)


def to_html(text: str) -> str:
    """Return the document, its first heading left out; headings are two levels deeper."""
    blocks = [list(block) for blank, block in groupby(text.splitlines(), _is_blank) if not blank]
    return "\n".join(part for block in blocks for part in _block(block))


def anchors(text: str) -> set[str]:
    """Return the anchors of all headings, as ``to_html`` gives them."""
    return {_anchor(line.lstrip("# ")) for line in text.splitlines() if line.startswith("##")}


def _is_blank(line: str) -> bool:
    return not line.strip()


def _anchor(heading: str) -> str:
    """Return the anchor that GitHub gives, with a prefix of its own."""
    return "doc-" + re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-")


def _block(lines: Sequence[str]) -> Iterator[str]:
    first, *rest = lines
    if first.startswith("#"):
        marks, _, heading = first.partition(" ")
        if len(marks) > 1:
            level = min(6, len(marks) + 1)
            yield f'<h{level} id="{_anchor(heading)}">{_inline(heading)}</h{level}>'
        if rest:
            yield from _block(rest)
    elif first.startswith("|"):
        yield _table(lines)
    elif first.startswith("- "):
        items = re.split(r"^- ", "\n".join(lines), flags=re.MULTILINE)[1:]
        yield f"<ul>{''.join(f'<li>{_inline(item)}</li>' for item in items)}</ul>"
    else:
        until = next(
            (i for i, line in enumerate(lines) if line.startswith(("- ", "|"))), len(lines)
        )
        yield f"<p>{_inline(' '.join(lines[:until]))}</p>"
        if until < len(lines):
            yield from _block(lines[until:])


def _table(lines: Sequence[str]) -> str:
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]
    head, _, *body = rows
    header = "".join(f"<th>{_inline(cell)}</th>" for cell in head)
    text = "".join(
        f"<tr>{''.join(f'<td>{_inline(cell)}</td>' for cell in row)}</tr>\n" for row in body
    )
    return (
        f'<div class="scroll"><table><thead><tr>{header}</tr></thead>\n'
        f"<tbody>{text}</tbody></table></div>"
    )


def _inline(text: str) -> str:
    """Return a text with its code, emphasis and links; nothing is marked up inside code."""
    parts = re.split(r"`([^`]+)`", text)
    return "".join(
        f"<code>{html.escape(part)}</code>" if index % 2 else _marked(html.escape(part))
        for index, part in enumerate(parts)
    )


def _marked(text: str) -> str:
    for pattern, replacement in _INLINE:
        text = pattern.sub(replacement, text)
    return text
