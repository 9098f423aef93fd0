"""docs/methods.md on the page: no Markdown is left, and each linked anchor exists."""

import re

from analysis.show import methods_page
from analysis.show.methods_page import DOCUMENT, to_html

TEXT = DOCUMENT.read_text(encoding="utf-8")


def test_every_kind_of_block() -> None:
    page = to_html(
        "# Title\n\nA *b* **c** `d*e*<f>` [g](#h) [i](j.md).\n\n## Two words (x)\n\n"
        "before:\n- one\n- two\n  more\n\n| a | b |\n|---|---|\n| 1 < 2 | `x` |\n"
    )
    assert "Title" not in page
    assert "<p>A <em>b</em> <strong>c</strong> <code>d*e*&lt;f&gt;</code> " in page
    assert '</code> <a href="#doc-h">g</a> i.</p>' in page
    assert '<h3 id="doc-two-words-x">Two words (x)</h3>' in page
    assert "<p>before:</p>" in page
    assert "<ul>\n<li>one</li>\n<li>two\nmore</li>\n</ul>" in page
    assert "<thead>\n<tr>\n<th>a</th>\n<th>b</th>\n</tr>\n</thead>" in page
    assert "<td>1 &lt; 2</td>\n<td><code>x</code></td>" in page


def test_the_document_leaves_no_markdown_behind() -> None:
    page = re.sub(r"<code>.*?</code>", "", to_html(TEXT))
    text = re.sub(r"<[^>]+>", "", page)
    assert not re.findall(r"\*\*|\]\(|^#|^\||^- |`|\|---", text, flags=re.MULTILINE)
    tables = re.findall(r"<table>.*?</table>", to_html(TEXT), flags=re.DOTALL)
    for table in tables:
        widths = {len(re.findall(r"<t[dh]>", row)) for row in table.split("<tr>")[1:]}
        assert len(widths) == 1, table[:200]


def test_anchors_equal_those_made_from_headings() -> None:
    headings = re.findall(r"^##+ (.*)", TEXT, flags=re.MULTILINE)
    found = set(re.findall(r'<h\d id="([^"]+)"', to_html(TEXT)))
    assert len(found) == len(headings) > 10
    assert "doc-block-level-guidelines" in found
    assert methods_page.DOCUMENT.name == "methods.md"
