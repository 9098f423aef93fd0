"""Which code produced a run: the runner, its source, and every program that the run used."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from zipimport import zipimporter

import harness
from harness.store import checksums

# In the zipapp: commit and state of the tree from which it was packed.
STAMP = "source.json"
# roles/native writes it beside the folders bin and lib of our programs.
NATIVE_SOURCE = "SOURCE_HASH"


@cache
def runner() -> Mapping[str, Any]:
    """Return version, SHA-256 of the zipapp and of its source, commit and state of the tree.

    Null: a runner that was started from a source tree is no zipapp, and a tree without git has no
    commit. ``uncommitted``: the source differs from the commit.
    """
    loader = harness.__loader__
    if not isinstance(loader, zipimporter):
        package = Path(harness.__file__).parent
        found = {str(p.relative_to(package.parent)): p.read_bytes() for p in package.rglob("*.py")}
        return _record(None, found, {})
    archive = Path(loader.archive)
    with zipfile.ZipFile(archive) as bundle:
        names = bundle.namelist()
        found = {name: bundle.read(name) for name in names if name.endswith(".py")}
        stamp = json.loads(bundle.read(STAMP)) if STAMP in names else {}
    return _record(checksums.digest(archive), found, stamp)


def digest(files: Mapping[str, bytes]) -> str:
    """Return the SHA-256 over names and contents of source files."""
    total = hashlib.sha256()
    for name, content in sorted(files.items()):
        total.update(f"{name}\0{len(content)}\0".encode() + content)
    return total.hexdigest()


def programs(files: Iterable[Path]) -> dict[str, dict[str, str | None]]:
    """Return path, SHA-256 and source hash by file name; by path where names are equal.

    The source hash is null for programs that roles/native did not build.
    """
    found: dict[str, dict[str, str | None]] = {}
    for path in dict.fromkeys(file.resolve() for file in files):
        if path.is_file():
            status = path.stat()
            sha256 = _digest(path, status.st_ino, status.st_size, status.st_mtime_ns)
            record = {"path": str(path), "sha256": sha256, "source": _source(path)}
            found[str(path) if path.name in found else path.name] = record
    return found


def _record(
    zipapp: str | None, files: Mapping[str, bytes], stamp: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "version": harness.__version__,
        "zipapp": zipapp,
        "source": digest(files),
        "commit": stamp.get("commit"),
        "uncommitted": stamp.get("uncommitted"),
    }


@cache
def _digest(path: Path, *_: int) -> str:
    """Return the SHA-256 of a file; its inode, size and time tell when to compute it again."""
    return checksums.digest(path)


def _source(path: Path) -> str | None:
    try:
        return (path.parent.parent / NATIVE_SOURCE).read_text(encoding="ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None
