"""Docstrings, comments, messages, pages and settings are plain English."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fixtures.prose import MOST_WORDS_OF_A_SENTENCE, sentences, words

ROOT = Path(__file__).parents[2]
PYTHON = sorted(
    path for folder in ("harness", "analysis", "tests") for path in (ROOT / folder).rglob("*.py")
)
CPP = sorted(path for path in (ROOT / "harness/native").rglob("*") if path.suffix in {".cc", ".h"})
TEXTS = sorted(
    path
    for pattern in (
        "README.md",
        "CONTRIBUTING.md",
        "Makefile",
        "docs/*.md",
        "configs/**/*.yml",
        "roles/**/*.yml",
    )
    for path in ROOT.glob(pattern)
)
# A program prints, reports or records; it does not speak. "That of" needs a noun.
FORBIDDEN = re.compile(
    r"\b(?:told|tells|says|said|that of)\b|\bwhat is \w+(?: \w+)? by\b"
    r"|\b(?:program|process|level|server|kernel|runner|tenant|db_bench)s? who\b",
    re.IGNORECASE,
)
COMMENT = re.compile(r"//(.*)$", re.MULTILINE)


def docstrings(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        if isinstance(node, kinds) and (text := ast.get_docstring(node)):
            yield text


def unwanted(source: str) -> list[str]:
    """Return the forbidden words, also across the lines of a docstring or comment."""
    return [match[0] for match in FORBIDDEN.finditer(re.sub(r"\s*\n\s*(?:#+ )?", " ", source))]


def long(source: str) -> list[str]:
    quoted = (re.sub(r"``.*?``", "`x`", text, flags=re.DOTALL) for text in docstrings(source))
    found = (sentence for text in quoted for sentence in sentences(text))
    return [sentence for sentence in found if len(words(sentence)) > MOST_WORDS_OF_A_SENTENCE]


@pytest.mark.slow
@pytest.mark.parametrize("check", [unwanted, long])
def test_python_is_plain(check: Callable[[str], list[str]]) -> None:
    files = [file for file in PYTHON if file != Path(__file__)]
    found = {str(file.relative_to(ROOT)): check(file.read_text()) for file in files}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_pages_and_settings_are_plain() -> None:
    assert {"README.md", "methods.md", "Makefile", "xfs.yml"} <= {path.name for path in TEXTS}
    found = {str(file.relative_to(ROOT)): unwanted(file.read_text()) for file in TEXTS}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_comments_of_cpp_are_plain() -> None:
    found = {
        str(file.relative_to(ROOT)): [match[0] for match in FORBIDDEN.finditer(comment)]
        for file in CPP
        for comment in COMMENT.findall(file.read_text())
        if FORBIDDEN.search(comment)
    }
    assert found == {}


def test_the_checks_find_what_they_forbid() -> None:
    source = (
        '"""A page that of\n\nmen."""\nx = "it Says so"  # what is shown by it\n'
        'f"a server who {x}"\n'
        'y = 1  # Tells\n"""not a docstring"""\n'
    )
    assert unwanted(source) == ["that of", "Says", "what is shown by", "server who", "Tells"]
    assert long(f'"""{"a " * 25}``b c``."""') == [f"{'a ' * 25}CODE."]
    assert long(f'"""{"a " * 24}``b c``."""') == []
