"""Each kind of change touches the files that its recipe in CONTRIBUTING names, and no other.

A copy of zonelab gets a toy of each kind, and plans, runs, compares and verifies a study with them
(toy_study.py). No module is patched.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests/fixtures"
PARTS = (
    "harness",
    "analysis",
    "configs",
    "requirements",
    "tests/runner",
    "tests/fixtures",
    "tests/conftest.py",
    "pyproject.toml",
)
NEW = {
    "harness/levels/toy.py": "toy_level.py",
    "harness/workloads/toy_program.py": "toy_program.py",
    "harness/rules/toy_rule.py": "toy_rule.py",
    "harness/cli/toy.py": "toy_command.py",
    "configs/releases/toy.yml": "toy_release.yml",
    "configs/rigs/toy.yml": "toy_rig.yml",
}
# A file with a table, the table's name, and the file with the new entry.
ENTRIES = {
    "harness/metrics/catalogue.py": ("_ENTRIES", "toy_metric.py"),
    "analysis/show/compare_columns.py": ("COLUMNS", "toy_column.py"),
    "analysis/judge/bottleneck.py": ("SIGNS", "toy_label.py"),
}


def entry(file: Path) -> str:
    """Return the source of the value of ENTRY."""
    text = file.read_text()
    (found,) = (
        node.value
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ENTRY"
    )
    return ast.get_source_segment(text, found) or ""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of zonelab with the toys."""
    root = tmp_path_factory.mktemp("house")
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(
                ROOT / part, root / part, ignore=shutil.ignore_patterns("native", "__pycache__")
            )
        else:
            shutil.copy(ROOT / part, root / part)
    for target, source in NEW.items():
        assert not (root / target).exists()
        shutil.copy(FIXTURES / source, root / target)
    for target, (table, source) in ENTRIES.items():
        file = root / target
        head, begin, rest = file.read_text().partition(f"\n{table} = (\n")
        assert begin, f"{target} has no {table}"
        file.write_text(f"{head}{begin}    {entry(FIXTURES / source)},\n{rest}")
    return root


# Ten kinds of change, and what the recipe of each names.
RECIPES = {
    "A level.": ("harness/levels/",),
    "A program for phases": ("harness/workloads/",),
    "A rig.": ("configs/rigs/",),
    "A release of a distribution.": ("configs/releases/",),
    "A validity rule.": ("harness/rules/",),
    "A metric.": ("harness/metrics/catalogue.py",),
    "A column of `compare`.": ("analysis/show/compare_columns.py",),
    "A bottleneck label.": ("analysis/judge/bottleneck.py",),
    "A garbage-collection policy of zlfs.": (
        "harness/native/zlfs/collect/victim.h",  # test_level_options.py reads it
        "harness/levels/zlfs.py",
    ),
    "A sub-command.": ("harness/cli/",),
}


@pytest.mark.parametrize("kind", RECIPES)
def test_the_recipe_names_the_files_of_a_change(kind: str) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    recipe = text.partition(f"\n**{kind}")[2].partition("\n\n")[0]
    assert [name for name in RECIPES[kind] if f"`{name}`" not in recipe] == []


def test_each_toy_is_where_a_recipe_puts_it() -> None:
    named = {name for names in RECIPES.values() for name in names}
    touched = {f"{Path(target).parent}/" for target in NEW} | set(ENTRIES)
    assert touched <= named
    assert len(named - touched) == 2  # the policy of zlfs is compiled; no toy tries it


@pytest.mark.slow
def test_a_study_with_toys(house: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/runner/toy_study.py"],
        cwd=house,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
