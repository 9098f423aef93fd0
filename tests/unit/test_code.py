"""Which code produced a run: stamp of the zipapp, digest of its source, digests of programs."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from harness import pack
from harness.machine import code
from harness.tools import proc

PACKAGE = Path(pack.__file__).parent
PRINT = "import json; from harness.machine import code; print(json.dumps(dict(code.runner())))"


def git(folder: Path, *arguments: str) -> str:
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    return proc.run(["git", "-C", folder, *author, *arguments], timeout=60).stdout.strip()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small tree with a runner's source: the harness folder below a repository's top."""
    package = tmp_path / "tree" / "harness"
    package.mkdir(parents=True)
    (package / "__main__.py").write_text("print(1)\n")
    return package


@pytest.fixture
def repository(tree: Path) -> Path:
    git(tree.parent, "init", "--quiet")
    git(tree.parent, "add", "-A")
    git(tree.parent, "commit", "--quiet", "-m", "first")
    return tree


def test_a_tree_without_git_has_no_commit(tree: Path) -> None:
    assert pack.stamp(tree) == {"commit": None, "uncommitted": None}


@pytest.mark.needs("git")
def test_a_clean_tree_has_its_commit(repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    assert pack.stamp(repository) == {"commit": commit, "uncommitted": False}
    (repository.parent / "notes.txt").write_text("not of the runner")
    assert pack.stamp(repository) == {"commit": commit, "uncommitted": False}


@pytest.mark.needs("git")
@pytest.mark.parametrize("name", ["__main__.py", "new.py"])
def test_a_changed_or_new_file_is_uncommitted(repository: Path, name: str) -> None:
    (repository / name).write_text("print(2)\n")
    assert pack.stamp(repository)["uncommitted"] is True


@pytest.mark.needs("git")
def test_a_tree_inside_a_foreign_repository_has_no_commit(repository: Path) -> None:
    inner = repository.parent / "vendor" / "harness"
    shutil.copytree(repository, inner)
    assert pack.stamp(inner) == {"commit": None, "uncommitted": None}


def unpacked(archive: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(archive) as bundle:
        return {name: bundle.read(name) for name in bundle.namelist()}


def test_the_zipapp_knows_itself(tmp_path: Path) -> None:
    archive = tmp_path / "zonelab.pyz"
    archive.write_bytes(pack.archive(PACKAGE))
    code_ = f"import sys; sys.path.insert(0, {str(archive)!r}); {PRINT}"
    # -I -S: no site-packages, no user paths: exactly what a measured machine offers.
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code_], capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    files = unpacked(archive)
    sources = {name: content for name, content in files.items() if name.endswith(".py")}
    assert len(sources) == len(pack.sources(PACKAGE)) + 1  # and __main__.py at the top
    runner = {
        name: content
        for name, content in sources.items()
        if name != "__main__.py" and not name.startswith("harness/cli/")
    }
    assert found == {
        "version": found["version"],
        "zipapp": hashlib.sha256(archive.read_bytes()).hexdigest(),
        "source": code.digest(runner),
        **json.loads(files[code.STAMP]),
    }


def test_a_tree_and_its_zipapp_have_one_source(tmp_path: Path) -> None:
    """Otherwise a checkout could never know that its own code produced a run."""
    archive = tmp_path / "zonelab.pyz"
    archive.write_bytes(pack.archive(PACKAGE))
    of_archive = {
        name: content
        for name, content in unpacked(archive).items()
        if name.endswith(".py") and not name.startswith(("harness/cli/", "__main__"))
    }
    assert code.runner()["source"] == code.digest(of_archive)
    assert code.recorded({"host": {"code": {"runner": code.runner()}}}) == code.digest(of_archive)
    assert code.planner() != code.digest(of_archive)  # the planner stays on the controller


@pytest.mark.parametrize("manifest", [{}, {"host": None}, {"host": {"code": []}}])
def test_an_old_manifest_has_no_source(manifest: dict[str, Any]) -> None:
    assert code.recorded(manifest) is None


def test_the_stamp_is_no_source(tmp_path: Path) -> None:
    """A commit that leaves the runner as it is does not make it another runner."""
    one, other = tmp_path / "one.pyz", tmp_path / "other.pyz"
    for path, commit in ((one, "a" * 40), (other, "b" * 40)):
        with zipfile.ZipFile(path, "w") as bundle:
            bundle.writestr("harness/__init__.py", '__version__ = "1"\n')
            for file in ("machine/__init__.py", "machine/code.py", "store/__init__.py"):
                bundle.writestr(f"harness/{file}", (PACKAGE / file).read_text())
            bundle.writestr(
                "harness/store/checksums.py", (PACKAGE / "store/checksums.py").read_text()
            )
            bundle.writestr(code.STAMP, json.dumps({"commit": commit, "uncommitted": False}))
    found = []
    for path in (one, other):
        code_ = f"import sys; sys.path.insert(0, {str(path)!r}); {PRINT}"
        argv = [sys.executable, "-I", "-S", "-c", code_]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        found.append(json.loads(done.stdout))
    assert found[0]["source"] == found[1]["source"]
    assert found[0]["zipapp"] != found[1]["zipapp"]
    assert [one["commit"][0] for one in found] == ["a", "b"]


def test_names_contents_and_borders_make_the_digest() -> None:
    digests = [
        code.digest(files)
        for files in (
            {"a.py": b"x", "b.py": b"y"},
            {"a.py": b"y", "b.py": b"x"},
            {"a.py": b"x"},
            {"a.py": b"x\0b.py\0001\0y"},
            {},
        )
    ]
    assert len(set(digests)) == len(digests)
    assert code.digest({"b.py": b"y", "a.py": b"x"}) == digests[0]


def test_a_runner_in_a_source_tree_is_no_zipapp() -> None:
    found = code.runner()
    assert (found["zipapp"], found["commit"]) == (None, None)
    assert len(found["source"]) == 64


def test_programs_by_name_with_the_source_of_native_ones(tmp_path: Path) -> None:
    native, user = tmp_path / "native", tmp_path / "user"
    for folder, name in (
        (native / "bin", "kvmix"),
        (native / "lib", "libzlfs.so"),
        (user, "kvmix"),
    ):
        folder.mkdir(parents=True)
        (folder / name).write_text(f"{folder.name} {name}")
    (native / "SOURCE_HASH").write_text("0" * 64 + "\n")
    (tmp_path / "link").symlink_to(native / "bin" / "kvmix")
    files = [native / "bin/kvmix", tmp_path / "link", native / "lib/libzlfs.so", user / "kvmix"]
    found = code.programs([*files, tmp_path / "absent"])
    assert set(found) == {"kvmix", "libzlfs.so", str(user / "kvmix")}
    assert found["kvmix"] == {
        "path": str(native / "bin/kvmix"),
        "sha256": hashlib.sha256(b"bin kvmix").hexdigest(),
        "source": "0" * 64,
    }
    assert found[str(user / "kvmix")]["source"] is None


def test_a_program_that_was_replaced_has_another_digest(tmp_path: Path) -> None:
    file = tmp_path / "kvmix"
    file.write_text("one")
    before = code.programs([file])["kvmix"]["sha256"]
    (tmp_path / "new").write_text("two")
    (tmp_path / "new").rename(file)
    assert code.programs([file])["kvmix"]["sha256"] != before
