"""The import boundary of docs/architecture.md: what each room may import."""

import ast
import sys
from pathlib import Path

import pytest

from harness import pack

ROOT = Path(__file__).parents[2]
PLAN_LIBRARIES = {"pydantic", "yaml"}
ANALYSIS_LIBRARIES = {"polars", "scipy", "numpy", "matplotlib", "jinja2", "markupsafe"}


def imported(file: Path) -> set[str]:
    """Return every module a file imports, at any depth of nesting."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            names.add(node.module or "")
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def libraries(file: Path) -> set[str]:
    """Return the top-level names of a file's imports from outside the standard library."""
    tops = {name.partition(".")[0] for name in imported(file)}
    return tops - set(sys.stdlib_module_names) - {"harness", "__future__"}


RUNNER = [ROOT / file for file in pack.sources(ROOT / "harness")]
CONTROLLER = sorted({*(ROOT / "harness").rglob("*.py")} - {*RUNNER})


@pytest.mark.parametrize("file", RUNNER, ids=lambda f: str(f.relative_to(ROOT)))
def test_runner_imports_the_standard_library_only(file: Path) -> None:
    assert libraries(file) == set()
    rooms = {name.split(".")[1] for name in imported(file) if name.startswith("harness.")}
    assert rooms.isdisjoint({"plan", "rig", "pack"})


@pytest.mark.parametrize("file", CONTROLLER, ids=lambda f: str(f.relative_to(ROOT)))
def test_only_analysis_imports_analysis_libraries(file: Path) -> None:
    allowed = PLAN_LIBRARIES | ({"analysis"} if file.parent.name == "cli" else set())
    assert libraries(file) <= allowed


@pytest.mark.parametrize("file", sorted((ROOT / "analysis").rglob("*.py")), ids=lambda f: f.name)
def test_analysis_uses_its_libraries_and_no_others(file: Path) -> None:
    assert libraries(file) <= ANALYSIS_LIBRARIES | {"analysis"}


def test_the_boundary_check_sees_nested_imports(tmp_path: Path) -> None:
    file = tmp_path / "late.py"
    file.write_text("def f():\n    import pydantic.main\n")
    assert libraries(file) == {"pydantic"}
