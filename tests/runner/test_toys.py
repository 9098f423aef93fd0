"""A level, a program, a metric, a rule and a column take one file each.

A copy of zonelab gets five toys as CONTRIBUTING describes it, and plans, runs, compares and
verifies a study with them (toy_study.py). No module is patched.
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
}
# A file with a table, the table's name, and the file with the new entry.
ENTRIES = {
    "harness/metrics.py": ("_ENTRIES", "toy_metric.py"),
    "analysis/judge/columns.py": ("COLUMNS", "toy_column.py"),
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


def test_contributing_names_these_files_and_no_other() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for target in NEW:
        assert f"One file in `{Path(target).parent}/`" in text or (
            f"in `{Path(target).parent}/`" in text
        )
    for target in ENTRIES:
        assert f"One entry in `{target}`" in text


@pytest.mark.slow
def test_a_study_with_five_toys(house: Path) -> None:
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
