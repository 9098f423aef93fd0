"""A RocksDB build: the inputs that decide its result, and the build id made from them."""

from __future__ import annotations

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
# Without this option RocksDB's CMake project compiles for the host's processor (-march=native).
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
    """The inputs of a build, as found on the host that builds."""

    version: str  # of RocksDB
    source: Tree
    plugins: dict[str, Tree]  # by name
    cxxflags: str
    cmake_options: tuple[str, ...]
    compiler: str  # first line of its --version
    target_sha256: str  # of the macros that the compiler predefines with these flags
    cpus: int  # for a parallel build; not part of the build id


@dataclass(frozen=True, slots=True)
class Patch:
    """A file of a patch series."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Build:
    """``build.json`` beside the programs: the inputs of the build and its id."""

    id: str
    facts: SourceFacts
    patches: tuple[Patch, ...]
    schema_version: int = SCHEMA_VERSION


def version_of(source: Path) -> str:
    """Return ``7.8.3`` from a tree's version header.

    Raises:
        UsageError: the folder is not a RocksDB source tree.
    """
    try:
        text = (source / VERSION_HEADER).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"{source} is not a RocksDB source tree: {VERSION_HEADER}: {error.strerror}",
            hint="set rocksdb_source to the folder with include/ and CMakeLists.txt",
        ) from None
    parts = dict(_DEFINE.findall(text))
    if len(parts) != 3:  # noqa: PLR2004 - major, minor, patch
        raise UsageError(f"{source / VERSION_HEADER} does not define RocksDB's version")
    return ".".join(parts[part] for part in ("MAJOR", "MINOR", "PATCH"))


def describe(
    source: Path, plugins: Mapping[str, Path], *, cxxflags: str, cmake_options: Sequence[str]
) -> SourceFacts:
    """Return the inputs of a build on this host.

    Raises:
        UsageError: a tree is missing, or the source is not RocksDB.
        HostError: there is no compiler.
        ToolFailed: the compiler refuses the flags.
    """
    for name, path in plugins.items():
        if not path.is_dir():
            raise UsageError(f"plug-in {name}: {path} is not a folder", hint="set rocksdb_plugins")
    native = [] if any(map(_PORTABLE.fullmatch, cmake_options)) else [_NATIVE]
    macros = [_COMPILER, *native, *cxxflags.split(), "-dM", "-E", "-x", "c++", "/dev/null"]
    predefined = proc.run(macros, timeout=_TIMEOUT_SECONDS).stdout.splitlines()
    name = proc.run([_COMPILER, "--version"], timeout=_TIMEOUT_SECONDS).stdout.splitlines()[0]
    return SourceFacts(
        version=version_of(source),
        source=_tree(source),
        plugins={name: _tree(path) for name, path in sorted(plugins.items())},
        cxxflags=cxxflags,
        cmake_options=tuple(cmake_options),
        compiler=name,
        target_sha256=checksums.of_text("\n".join(sorted(predefined))),
        cpus=len(os.sched_getaffinity(0)),
    )


def series(patches: Path | None, facts: SourceFacts) -> tuple[Patch, ...]:
    """Return the patches for this version, in order; the version may have no folder.

    The folder's name is the major and minor version.
    """
    if patches is None:
        return ()
    files = sorted((patches / facts.version.rpartition(".")[0]).glob("*.patch"))
    return tuple(Patch(file.name, checksums.digest(file)) for file in files)


def identify(facts: SourceFacts, patches: Sequence[Patch]) -> Build:
    """Return the build with its id: upstream's version and a digest of all inputs."""
    inputs = encode(facts)
    inputs["source"] = facts.source.sha256
    inputs["plugins"] = {name: tree.sha256 for name, tree in facts.plugins.items()}
    del inputs["cpus"]
    inputs["patches"] = encode(tuple(patches))
    digest = checksums.of_json(inputs)
    return Build(f"{facts.version}-{digest[:_ID_DIGITS]}", facts, tuple(patches))


def _tree(path: Path) -> Tree:
    return Tree(str(path), trees.digest(path))
