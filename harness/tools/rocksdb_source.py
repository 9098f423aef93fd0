"""A RocksDB source tree to be built: what decides the result, and the build id that follows."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from harness.store import checksums
from harness.store.codec import SCHEMA_VERSION, encode
from harness.tools import proc, trees

VERSION_HEADER = Path("include/rocksdb/version.h")
_COMPILER = "g++"
_TIMEOUT_SECONDS = 60.0
_DEFINE = re.compile(r"^#define ROCKSDB_(MAJOR|MINOR|PATCH)\s+(\d+)", re.MULTILINE)
# Without it RocksDB's CMake project compiles for the processor it finds (-march=native).
_PORTABLE = re.compile(r"PORTABLE=(1|ON|YES|TRUE|Y)", re.IGNORECASE)
_NATIVE = "-march=native"
_ID_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Tree:
    """A folder of sources and the digest of its files (harness/tools/trees.py)."""

    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """What the host knows of a build to come.

    ``target_sha256`` is of the macros that the compiler predefines under these flags: its version,
    the processor's features it may use, whether it optimises. ``cpus`` is how many there are for
    the build, and not part of it.
    """

    version: str
    source: Tree
    plugins: dict[str, Tree]
    cxxflags: str
    cmake_options: tuple[str, ...]
    compiler: str
    target_sha256: str
    cpus: int

    @property
    def series(self) -> str:
        """Major and minor version: the name of the folder that has its patches."""
        return self.version.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class Patch:
    """A file of a patch series."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Build:
    """``build.json`` beside the programs: what they were made of, and the id of that."""

    id: str
    facts: SourceFacts
    patches: tuple[Patch, ...]
    schema_version: int = SCHEMA_VERSION


def version_of(source: Path) -> str:
    """Return ``7.8.3`` from a tree's version header.

    Raises:
        UsageError: it is no RocksDB source tree.
    """
    try:
        text = (source / VERSION_HEADER).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"{source} is no RocksDB source tree: {VERSION_HEADER}: {error.strerror}",
            hint="rocksdb_source names the folder that has include/ and CMakeLists.txt",
        ) from None
    found = dict(_DEFINE.findall(text))
    if len(found) != 3:  # noqa: PLR2004 - major, minor, patch
        raise UsageError(f"{source / VERSION_HEADER} does not define RocksDB's version")
    return ".".join(found[part] for part in ("MAJOR", "MINOR", "PATCH"))


def describe(
    source: Path, plugins: Mapping[str, Path], *, cxxflags: str, cmake_options: Sequence[str]
) -> SourceFacts:
    """Read trees and ask the compiler, on the host that is to build.

    Raises:
        UsageError: a tree is missing or no RocksDB.
        HostError: there is no compiler.
        ToolFailed: it refuses the flags.
    """
    for name, path in plugins.items():
        if not path.is_dir():
            raise UsageError(f"plug-in {name}: {path} is no folder", hint="rocksdb_plugins")
    native = [] if any(map(_PORTABLE.fullmatch, cmake_options)) else [_NATIVE]
    macros = [_COMPILER, *native, *cxxflags.split(), "-dM", "-E", "-x", "c++", "/dev/null"]
    told = proc.run(macros, timeout=_TIMEOUT_SECONDS).stdout
    name = proc.run([_COMPILER, "--version"], timeout=_TIMEOUT_SECONDS).stdout.splitlines()[0]
    return SourceFacts(
        version=version_of(source),
        source=_tree(source),
        plugins={name: _tree(path) for name, path in sorted(plugins.items())},
        cxxflags=cxxflags,
        cmake_options=tuple(cmake_options),
        compiler=name,
        target_sha256=hashlib.sha256("\n".join(sorted(told.splitlines())).encode()).hexdigest(),
        cpus=len(os.sched_getaffinity(0)),
    )


def series(patches: Path | None, facts: SourceFacts) -> tuple[Patch, ...]:
    """Return the patches for this version, in order; none where there is no folder for it."""
    if patches is None:
        return ()
    files = sorted((patches / facts.series).glob("*.patch"))
    return tuple(Patch(file.name, checksums.digest(file)) for file in files)


def identify(facts: SourceFacts, patches: Sequence[Patch]) -> Build:
    """Return the build with its id: upstream's version and a digest of all that decides it."""
    told = encode(facts)
    told["source"], told["plugins"] = facts.source.sha256, _digests(facts.plugins)
    del told["cpus"]
    told["patches"] = encode(tuple(patches))
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
    return Build(f"{facts.version}-{digest[:_ID_DIGITS]}", facts, tuple(patches))


def _digests(plugins: Mapping[str, Tree]) -> dict[str, str]:
    return {name: tree.sha256 for name, tree in plugins.items()}


def _tree(path: Path) -> Tree:
    return Tree(str(path), trees.digest(path))
