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
# The runner's subpackages ("rooms"), which the zipapp contains.
ROOMS = (
    "drive",
    "levels",
    "machine",
    "metrics",
    "observe",
    "rules",
    "run",
    "store",
    "tools",
    "verify",
    "workloads",
)
# roles/native writes it beside the folders bin and lib of our programs.
NATIVE_SOURCE = "SOURCE_HASH"


@cache
def runner() -> Mapping[str, Any]:
    """Return version, SHA-256 of the zipapp and of its source, commit and state of the tree.

    From a source tree, the zipapp's digest is null; without git, the commit is null.
    ``uncommitted``: the source differs from the commit. The source's digest covers ``ROOMS``, so a
    tree and the zipapp that was packed from it have the same.
    """
    files, loader = _files(), harness.__loader__
    archive = Path(loader.archive) if isinstance(loader, zipimporter) else None
    stamp = json.loads(files.get(STAMP, b"{}"))
    return {
        "version": harness.__version__,
        "zipapp": checksums.digest(archive) if archive else None,
        "source": digest(_part(files, ROOMS)),
        "commit": stamp.get("commit"),
        "uncommitted": stamp.get("uncommitted"),
    }


@cache
def planner() -> str:
    """Return the SHA-256 of the source that plans a campaign."""
    return digest(_part(_files(), (*ROOMS, "plan")))


def recorded(manifest: Mapping[str, Any]) -> str | None:
    """Return the source of the runner that a result's manifest records; null: it has none."""
    value: Any = manifest
    for key in ("host", "code", "runner", "source"):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) else None


def _files() -> dict[str, bytes]:
    """Return the files of the package harness by name, from the zipapp or the source tree."""
    loader = harness.__loader__
    if isinstance(loader, zipimporter):
        with zipfile.ZipFile(loader.archive) as bundle:
            return {name: bundle.read(name) for name in bundle.namelist()}
    package = Path(harness.__file__).parent
    return {str(p.relative_to(package.parent)): p.read_bytes() for p in package.rglob("*.py")}


def _part(files: Mapping[str, bytes], rooms: Iterable[str]) -> dict[str, bytes]:
    """Return the source of some rooms and of the package itself, without ``pack.py``."""
    folders = tuple(f"harness/{room}/" for room in rooms)
    return {
        name: content
        for name, content in files.items()
        if name.endswith(".py")
        and (name.startswith(folders) or (Path(name).parent == Path("harness")))
        and name != "harness/pack.py"
    }


def digest(files: Mapping[str, bytes]) -> str:
    """Return the SHA-256 over names and contents of source files."""
    total = hashlib.sha256()
    for name, content in sorted(files.items()):
        total.update(f"{name}\0{len(content)}\0".encode() + content)
    return total.hexdigest()


def programs(files: Iterable[Path]) -> dict[str, dict[str, str | None]]:
    """Return path, SHA-256 and source hash by file name; by path if two programs have one name.

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


@cache
def _digest(path: Path, *_: int) -> str:
    """Return the SHA-256 of a file, computed again only if its inode, size or time changed."""
    return checksums.digest(path)


def _source(path: Path) -> str | None:
    try:
        return (path.parent.parent / NATIVE_SOURCE).read_text(encoding="ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None
