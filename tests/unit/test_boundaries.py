"""The order of rooms in docs/architecture.md holds: imports, circles and libraries."""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from harness import pack

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| `((?:harness|analysis)[a-z/]*)` \| [^|]+ \| ([^|]*)\|$", re.MULTILINE)


def rooms() -> dict[str, set[str]]:
    """Return the table's rooms, low to high, with the libraries that each may import."""
    text = (ROOT / "docs/architecture.md").read_text()
    chapter = text.partition("## Rooms\n")[2].partition("\n## ")[0]
    return {
        match[1]: {name for name in re.split(r"[,\s]+", match[2]) if name}
        for match in ROW.finditer(chapter)
    }


ROOMS = rooms()
ORDER = list(ROOMS)
FILES = sorted([*(ROOT / "harness").rglob("*.py"), *(ROOT / "analysis").rglob("*.py")])


ENTRY_POINTS = {ROOT / "harness/__main__.py", ROOT / "harness/pack.py"}  # above all rooms


@cache  # several checks ask for the same files
def names(file: Path, root: Path = ROOT) -> set[str]:
    """Return every module that a file imports, at any depth, also for type checking only."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            package = node.module or ""
            for alias in node.names:  # a module of a package, or a name inside a module
                module = f"{package}.{alias.name}"
                found.add(module if path_of(module, root) else package)
    return found


def libraries(file: Path) -> set[str]:
    """Return the top-level names of imports from outside the project and standard library."""
    tops = {name.partition(".")[0] for name in names(file)}
    return tops - set(sys.stdlib_module_names) - {"harness", "analysis", "__future__"}


def room(file: Path) -> str:
    """Return the room of a file: its folder, or the nearest folder above it in the table."""
    folder = file.relative_to(ROOT).parent
    while str(folder) not in ROOMS:
        assert folder != folder.parent, f"{file} lies in no room of docs/architecture.md"
        folder = folder.parent
    return str(folder)


def path_of(name: str, root: Path = ROOT) -> Path | None:
    """Return the file of a module of this project, None for any other module."""
    base = root / name.replace(".", "/")
    candidates = (base.with_suffix(".py"), base / "__init__.py")
    return next((path for path in candidates if path.is_file()), None)


@cache
def imported(file: Path, root: Path = ROOT) -> set[Path]:
    """Return the files of this project that a file imports."""
    found = {path for name in names(file, root) if (path := path_of(name, root))}
    return found - {file}


def circle(graph: dict[Path, set[Path]]) -> list[Path]:
    """Return the files of one circle of imports, an empty list when there is none."""
    done: set[Path] = set()

    def walk(file: Path, trail: list[Path]) -> list[Path]:
        if file in trail:
            return trail[trail.index(file) :]
        if file in done:
            return []
        for other in sorted(graph.get(file, ())):
            if found := walk(other, [*trail, file]):
                return found
        done.add(file)
        return []

    return next((found for file in graph if (found := walk(file, []))), [])


def upward(file: Path) -> Iterator[str]:
    """Return the imports of a file from rooms above its own."""
    for other in imported(file):
        if ORDER.index(room(other)) > ORDER.index(room(file)):
            yield f"{file.relative_to(ROOT)} imports {other.relative_to(ROOT)}"


def ident(file: Path) -> str:
    return str(file.relative_to(ROOT))


@pytest.mark.parametrize("file", FILES, ids=ident)
def test_a_room_imports_only_rooms_below_it(file: Path) -> None:
    assert file in ENTRY_POINTS or list(upward(file)) == []
    assert libraries(file) <= ROOMS[room(file)]


@pytest.mark.parametrize(
    ("text", "place"), [("csv.writer(", "harness/tables.py"), ("fmt: skip", "")]
)
def test_one_place_writes_csv_and_none_escapes_the_formatter(text: str, place: str) -> None:
    assert [ident(file) for file in FILES if text in file.read_text()] == [place] * bool(place)


def test_no_files_import_each_other_in_a_circle() -> None:
    found = circle({file: imported(file) for file in FILES})
    assert [ident(file) for file in found] == []


def test_every_folder_is_a_room() -> None:
    """A folder that the table forgets would not be in the runner either."""
    folders = {"/".join(file.relative_to(ROOT).parent.parts[:2]) for file in FILES}
    assert folders == set(ROOMS)


def test_the_runner_is_the_rooms_up_to_verify() -> None:
    shipped = {room(ROOT / file) for file in pack.sources(ROOT / "harness")}
    below = set(ORDER[: ORDER.index("harness/verify") + 1])
    assert shipped == below | {"harness/cli"}
    for file in pack.sources(ROOT / "harness"):
        used = {room(other) for other in imported(ROOT / file)}
        assert used <= below | {"harness/cli"}, file
        assert libraries(ROOT / file) == set(), file


def test_the_check_sees_nested_imports(tmp_path: Path) -> None:
    file = tmp_path / "late.py"
    file.write_text("def f():\n    import pydantic.main\n")
    assert libraries(file) == {"pydantic"}


def test_the_check_sees_circles(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import b\n\nX = 1\n")
    (tmp_path / "b.py").write_text("def f():\n    from c import y\n")
    (tmp_path / "c.py").write_text("if False:\n    from a import X\n")
    files = sorted(tmp_path.glob("*.py"))
    graph = {file: imported(file, tmp_path) for file in files}
    assert [file.name for file in circle(graph)] == ["a.py", "b.py", "c.py"]


def public_types(file: Path) -> Iterator[str]:
    """Return the public classes and type aliases that a module defines; no type variables."""
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name
        if isinstance(node, ast.Assign) and not ast.unparse(node.value).startswith("TypeVar("):
            written = [ast.unparse(target) for target in node.targets]
            yield from (name for name in written if re.fullmatch("[A-Z]+[a-z][A-Za-z0-9]*", name))


def defined_twice(files: Iterable[Path]) -> dict[str, list[str]]:
    """Return the names of public types that several of the files define, with these files."""
    found = defaultdict(list)
    for file in files:
        for name in public_types(file):
            found[name].append(str(file))
    return {name: where for name, where in found.items() if len(where) > 1}


def test_the_name_of_a_public_type_is_defined_once() -> None:
    assert defined_twice(FILES) == {}


def test_the_check_sees_a_name_of_two_types(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("class Entry:\n    pass\n\n\nclass _Row:\n    pass\n")
    (tmp_path / "b.py").write_text("class _Row:\n    pass\n\n\nEntry = tuple[int, str]\n")
    files = sorted(tmp_path.iterdir())
    assert defined_twice(files) == {"Entry": list(map(str, files))}


LIBRARY = re.compile(r"^\s*(?:from|import) .*\btest_\w+", re.MULTILINE)


def test_no_test_module_is_the_library_of_another() -> None:
    files = sorted((ROOT / "tests").rglob("*.py"))
    found = {ident(file): LIBRARY.findall(file.read_text()) for file in files}
    assert {name: lines for name, lines in found.items() if lines} == {}
