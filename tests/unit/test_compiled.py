"""The compiled copy of the zipapp: used, never stale, and never in the way."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import compiled

MAIN = "from harness import compiled\ncompiled.use()\nfrom harness import shown\n"


def packed(folder: Path, text: str) -> Path:
    """Make a zipapp whose module prints a text."""
    archive = folder / "z.pyz"
    with zipfile.ZipFile(archive, "w") as bundle:
        bundle.writestr("__main__.py", MAIN)
        bundle.writestr("harness/__init__.py", "")
        bundle.writestr("harness/compiled.py", Path(compiled.__file__).read_text())
        bundle.writestr("harness/shown.py", f"print({text!r})\n")
    return archive


def started(archive: Path, *flags: str, **more: str) -> str:
    env = {"PATH": os.environ["PATH"], **more}
    argv = [sys.executable, *(flags or ("-I", "-S")), str(archive)]
    done = subprocess.run(argv, capture_output=True, text=True, env=env, check=True)
    return done.stdout


def copies(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name != "z.pyz")


def test_modules_come_from_the_copy(tmp_path: Path) -> None:
    archive = packed(tmp_path, "first")
    assert started(archive) == "first\n"
    (copy,) = copies(tmp_path)
    other = packed(tmp_path / "..", "of the copy")
    copy.write_bytes(compiled.compiled(other.read_bytes(), other))
    other.unlink()
    assert started(archive) == "of the copy\n"


def test_it_holds_compiled_code_that_needs_no_source(tmp_path: Path) -> None:
    archive = packed(tmp_path, "first")
    started(archive)
    (copy,) = copies(tmp_path)
    with zipfile.ZipFile(copy) as bundle:
        content = {name: bundle.read(name) for name in bundle.namelist()}
    with zipfile.ZipFile(copy, "w") as bundle:
        for name, data in content.items():
            bundle.writestr(name, b"raise SystemExit(1)\n" if name.endswith("shown.py") else data)
    assert started(archive) == "first\n"


def test_another_archive_gets_another_copy_and_the_first_one_goes(tmp_path: Path) -> None:
    started(packed(tmp_path, "first"))
    before = copies(tmp_path)
    killed = before[0].with_name(f"{before[0].name}-x.compiled")
    killed.write_text("half")
    assert started(packed(tmp_path, "second")) == "second\n"
    (after,) = copies(tmp_path)
    assert after not in before


def scripts() -> Iterator[Mapping[str, Any]]:
    """Yield the roles' tasks that send an archive and run it once."""
    for file in (Path(__file__).parents[2] / "roles").rglob("tasks/*.yml"):
        tasks = list(yaml.safe_load(file.read_text()) or [])
        while tasks:
            task = tasks.pop()
            tasks += task.get("block", [])
            if "ansible.builtin.script" in task:
                yield task


def test_an_archive_that_runs_once_gets_no_copy(tmp_path: Path) -> None:
    tasks = list(scripts())
    assert len(tasks) > 3
    for task in tasks:
        environment = task.get("environment", {})
        assert started(packed(tmp_path, "first"), "-S", **environment) == "first\n"
        assert copies(tmp_path) == [], task["name"]


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_a_folder_of_others_gets_no_copy(tmp_path: Path, mode: int) -> None:
    archive = packed(tmp_path, "first")
    tmp_path.chmod(mode)
    assert started(archive) == "first\n"
    assert copies(tmp_path) == []


def test_a_full_disk_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    archive = packed(tmp_path, "first")
    package = type(compiled)("harness")
    package.__file__, package.__path__ = f"{archive}/harness/__init__.py", ["kept"]
    monkeypatch.setattr(compiled, "harness", package)
    monkeypatch.setattr(os, "fsync", full)
    compiled.use()
    assert (copies(tmp_path), package.__path__) == ([], ["kept"])
    monkeypatch.setattr(os, "fsync", lambda _: None)
    compiled.use()
    assert package.__path__ == [f"{copies(tmp_path)[0]}/harness"]


def test_it_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[Path]] = []
    monkeypatch.setattr(os, "fsync", lambda _: seen.append(copies(tmp_path)))
    compiled.write(tmp_path / "copy", b"content")
    assert len(seen) == 1
    assert tmp_path / "copy" not in seen[0]
    assert (tmp_path / "copy").read_bytes() == b"content"
