"""Pages have a row for each level, rig, study, bottleneck label, and policy of zlfs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from analysis.judge.bottleneck import SIGNS
from harness.levels import LEVELS
from harness.levels.options import OneOf

ROOT = Path(__file__).parents[2]


def files(folder: str) -> set[str]:
    return {path.stem for path in (ROOT / "configs" / folder).glob("*.yml")}


def first_cells(page: str) -> set[str]:
    """Return the words in code type in the first column of a page's tables."""
    rows = re.findall(r"^\|([^|]*)\|", (ROOT / "docs" / page).read_text(), re.MULTILINE)
    return {name for cell in rows for name in re.findall(r"`([^`]+)`", cell)}


NAMES = {
    "levels.md": set(LEVELS),
    "rigs.md": files("rigs"),
    "studies.md": files("studies"),
    "methods.md": {sign.label for sign in SIGNS},
    "zlfs.md": set(LEVELS["zlfs"].options),
}


@pytest.mark.parametrize("page", NAMES)
def test_each_name_has_a_row(page: str) -> None:
    assert NAMES[page] - first_cells(page) == set()


def test_each_option_of_a_level_is_on_its_page() -> None:
    page = (ROOT / "docs/levels.md").read_text()
    options = {option for level in LEVELS.values() for option in level.options}
    assert {option for option in options if f"`{option}`" not in page} == set()


def test_each_word_of_a_policy_is_in_its_row() -> None:
    text = (ROOT / "docs/zlfs.md").read_text()
    for name, option in LEVELS["zlfs"].options.items():
        row = re.search(rf"^\| `{name}` \|([^|]*)\|", text, re.MULTILINE)
        assert row
        if isinstance(option, OneOf):
            assert {*option.choices} <= {*re.findall(r"`([\w-]+)`", row[1])}, name


def test_a_missing_row_is_found() -> None:
    assert {"f2fs", "no such level"} - first_cells("levels.md") == {"no such level"}
