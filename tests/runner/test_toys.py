"""Each kind of change touches the files that its recipe in CONTRIBUTING names, and no other.

A copy of zonelab gets a toy of each kind, and plans, runs, compares and verifies a study with them
(toy_study.py). The checks of rooms and pages pass in it, too. No module is patched.
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
# Tests that fail if a toy breaks a rule of the house, or is missing on a page.
CHECKS = (
    "tests/unit/test_boundaries.py",
    "tests/unit/test_rows_of_pages.py",
    "tests/unit/test_metrics.py::test_every_entry_is_complete",
    "tests/unit/test_rig_model.py::test_rigs_with_nvme_drives_repeat_nothing_of_the_default_rig",
)
PARTS = (
    "harness",
    "analysis",
    "configs",
    "docs",
    "requirements",
    "tests/runner",
    "tests/fixtures",
    "tests/conftest.py",
    *(check.partition("::")[0] for check in CHECKS),
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
# A file with a table, the table's name, and the files with new entries.
ENTRIES = {
    "harness/metrics/catalogue.py": ("_ENTRIES", "toy_metric.py", "toy_run_metric.py"),
    "analysis/show/compare_columns.py": ("COLUMNS", "toy_column.py"),
    "analysis/judge/bottleneck.py": ("SIGNS", "toy_label.py"),
}
# A file, one of its lines, and the line that follows it then.
LINES = {
    "harness/run/run_metrics.py": (
        '        "run.utilisation": Metric(used, "1"),',
        '        "run.toy_phases": Metric(len(facts), "1"),',
    ),
}
# A page and its new rows.
ROWS = {
    "docs/levels.md": "| `toy` | `mkdir` | zoned | `colour` |",
    "docs/rigs.md": "| `toy` | this test | 32 zones of 8 MiB that hold 4 MiB |",
    "docs/methods.md": "| `toy-bound` | toys come in batches |",
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
            (root / part).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / part, root / part)
    for target, source in NEW.items():
        assert not (root / target).exists()
        shutil.copy(FIXTURES / source, root / target)
    for target, (table, *sources) in ENTRIES.items():
        new = "".join(f"    {entry(FIXTURES / source)},\n" for source in sources)
        add(root / target, f"\n{table} = (\n", new)
    for target, (line, new) in LINES.items():
        add(root / target, f"\n{line}\n", f"{new}\n")
    for page, row in ROWS.items():
        with (root / page).open("a") as file:
            file.write(f"\n{row}\n")
    return root


def add(file: Path, place: str, new: str) -> None:
    """Insert text after the one place."""
    text = file.read_text()
    assert text.count(place) == 1, f"{file} has {text.count(place)} of {place!r}"
    file.write_text(text.replace(place, place + new))


# Ten kinds of change, and what the recipe of each names.
RECIPES = {
    "A level.": ("harness/levels/", "docs/levels.md"),
    "A program for phases": ("harness/workloads/",),
    "A rig.": ("configs/rigs/", "docs/rigs.md"),
    "A release of a distribution.": ("configs/releases/",),
    "A validity rule.": ("harness/rules/",),
    "A metric.": ("harness/metrics/catalogue.py", "harness/run/run_metrics.py"),
    "A column of `compare`.": ("analysis/show/compare_columns.py",),
    "A bottleneck label.": ("analysis/judge/bottleneck.py", "docs/methods.md"),
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
    touched = {f"{Path(target).parent}/" for target in NEW} | {*ENTRIES, *LINES, *ROWS}
    assert touched <= named
    assert len(named - touched) == 2  # the policy of zlfs is compiled; no toy tries it


def in_house(house: Path, *tests: str) -> None:
    """Run tests of the copy; none may fail or be skipped."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *tests],
        cwd=house,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout


@pytest.mark.slow
def test_a_study_with_toys(house: Path) -> None:
    in_house(house, "tests/runner/toy_study.py")


@pytest.mark.slow
def test_no_other_file_must_list_the_toys(house: Path) -> None:
    in_house(house, *CHECKS)
