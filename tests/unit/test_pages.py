"""Pages written by hand are short, and so are their sentences."""

import re
import tomllib
from pathlib import Path

import pytest

from tests import excerpts, upkeep
from tests.fixtures.prose import MOST_WORDS_OF_A_SENTENCE, sentences, words

ROOT = Path(__file__).parents[2]
GENERATED = {"rules.md", "troubleshooting.md"}
TABLES_PRINTED = "simulations.md"  # programs print its tables; its text is written by hand
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted(page for page in (ROOT / "docs").glob("*.md") if page.name not in GENERATED),
]
MOST_WORDS = 20_000


def test_sentences_are_found() -> None:
    page = (
        "# Title\n\nOne `a b` [two](x).\nThree\nfour!\n\n| a | b |\n- five\n- six\n\n```\nc\n```\n"
    )
    assert sentences(page) == ["One CODE two.", "Three four!", "- five", "- six"]
    assert words("- a | `b` 1.") == ["a", "`b`", "1."]


def by_hand(page: Path) -> str:
    """Return what people wrote on a page."""
    begin = excerpts.BEGIN.format("[a-z0-9 -]+")
    text = re.sub(f"{begin}.*?{excerpts.END}", "", page.read_text(), flags=re.DOTALL)
    return re.sub(r"^\|.*$", "", text, flags=re.MULTILINE) if page.name == TABLES_PRINTED else text


def test_the_package_is_described_by_the_first_sentence_of_readme() -> None:
    description = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["description"]
    assert sentences((ROOT / "README.md").read_text())[0] == description


def test_generated_pages_have_a_generator() -> None:
    assert {f"docs/{name}" for name in GENERATED} <= set(upkeep.GENERATED)


def test_the_pages_are_short() -> None:
    assert sum(len(words(by_hand(page))) for page in PAGES) <= MOST_WORDS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sentences_are_short(page: Path) -> None:
    found = sentences(page.read_text())
    assert [line for line in found if len(words(line)) > MOST_WORDS_OF_A_SENTENCE] == []


def test_the_readme_fits_on_a_few_screens() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120
