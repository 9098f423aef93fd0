"""docs/methods.md as HTML, so that the report page contains every formula."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

DOCUMENT = Path(__file__).parents[2] / "docs" / "methods.md"

_PARSER = MarkdownIt("commonmark", {"html": False}).enable("table")
_PARSER.add_render_rule("table_open", lambda *_: '<div class="scroll"><table>\n')
_PARSER.add_render_rule("table_close", lambda *_: "</table></div>\n")


def to_html(text: str) -> str:
    """Return a document as a part of the page.

    The document's title is left out, other headings move one level down. Links inside the document
    stay. Links to other files become plain text, because the page stands alone.
    """
    tokens = _PARSER.parse(text)
    if tokens and tokens[0].tag == "h1":
        del tokens[:3]  # opening tag, text, closing tag
    for token, content in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1:]) + 1)}"
        if token.type == "heading_open" and content is not None:
            token.attrSet("id", _anchor(content.content))
        _keep_inner_links(token.children or ())
    return str(_PARSER.renderer.render(tokens, _PARSER.options, {}))


def _anchor(heading: str) -> str:
    """Return GitHub's anchor for a heading, with the prefix ``doc-``."""
    return "doc-" + re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-")


def _keep_inner_links(tokens: Iterable[Token]) -> None:
    inner = False
    for token in tokens:
        if token.type == "link_open":
            target = str(token.attrGet("href"))
            inner = target.startswith("#")
            token.attrSet("href", f"#doc-{target[1:]}")
        if token.type in ("link_open", "link_close"):
            token.hidden = not inner
