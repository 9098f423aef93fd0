"""The guest's Python keeps compiled modules of ZIP archives (harness/rig/image_files)."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from harness.rig.recipe import GUEST

FOLDER = GUEST / "files/usr/lib/python3/dist-packages"
PROGRAM = """\
import sys
sys.path[:0] = [{hooks!r}, {archive!r}]
import zonelab_compiled_archives as hook
hook._FOLDER = {kept!r}
compiled = []
wrapped = hook._compile
hook._compile = lambda path, source: compiled.append(path) or wrapped(path, source)
import module
print(module.value(), module.__file__, len(compiled))
"""


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return pack(tmp_path, "def value(): return 41\n")


def pack(folder: Path, source: str) -> Path:
    archive = folder / "modules.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("module.py", source)
    return archive


def run(archive: Path) -> str:
    """Return the module's value, its file, and how many modules were compiled."""
    names = {"hooks": str(FOLDER), "archive": str(archive), "kept": str(archive.parent / "kept")}
    program = PROGRAM.format(**names)
    done = subprocess.run(
        [sys.executable, "-B", "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout.replace(f"{archive}/", "").strip()


def test_a_module_is_compiled_once(archive: Path) -> None:
    assert run(archive) == "41 module.py 1"
    assert run(archive) == "41 module.py 0"


def test_a_changed_module_is_compiled_again(archive: Path, tmp_path: Path) -> None:
    run(archive)
    assert run(pack(tmp_path, "def value(): return 42\n")) == "42 module.py 1"


def test_a_torn_file_is_compiled_again(archive: Path, tmp_path: Path) -> None:
    run(archive)
    (kept,) = (tmp_path / "kept").iterdir()
    kept.write_bytes(kept.read_bytes()[:9])
    assert run(archive) == "41 module.py 1"
    assert run(archive) == "41 module.py 0"


def test_without_its_folder_modules_still_run(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("a file")
    assert run(archive) == "41 module.py 2"  # zipimport compiles for the file's name as well


def test_python_loads_it_at_its_start() -> None:
    (line,) = (FOLDER / "zonelab_compiled_archives.pth").read_text().splitlines()
    assert line == "import zonelab_compiled_archives"
    assert (FOLDER / "zonelab_compiled_archives.py").is_file()
