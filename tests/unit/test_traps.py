"""``docs/traps.md`` matches the code: each code is in use, each test exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = [
    [cell.strip() for cell in line.split("|")[1:-1]]
    for line in (ROOT / "docs/traps.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| trap ")
]
SOURCE = "".join(path.read_text() for path in sorted((ROOT / "harness").rglob("*.py")))
TESTS = "".join(path.read_text() for path in sorted((ROOT / "tests").rglob("test_*.py")))
# A string that could be a code; the one word that an f-string may put in may be any.
TEXTS = {
    re.sub(r"\{\w+\}", "[a-z]+", text)
    for text in re.findall(r'"([a-z{][\w{}-]*-[\w{}-]*)"', SOURCE)
    if text.count("{") < 2
}


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_the_table_is_read() -> None:
    assert len(ROWS) > 30
    assert {len(row) for row in ROWS} == {4}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_each_trap_has_an_answer_a_code_in_use_and_a_test(row: list[str]) -> None:
    _, answer, codes, tests = row
    assert answer
    for code in quoted(codes):
        assert any(re.fullmatch(text, code) for text in TEXTS), code
    assert quoted(tests)
    for name in quoted(tests):
        assert f"def {name}(" in TESTS, name
