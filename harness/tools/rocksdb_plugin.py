"""A RocksDB plug-in as a shared object to preload, built against the RocksDB of a db_bench."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ConfigError, HostError, ToolFailed, UsageError
from harness.store import checksums
from harness.store.codec import SCHEMA_VERSION, encode
from harness.store.files import dumps, load_record
from harness.tools import ldd, proc, rocksdb_source, trees
from harness.tools.rocksdb_source import Tree

RECORD = "build.json"
_BUILD_TIMEOUT_SECONDS = 1800.0
_TIMEOUT_SECONDS = 60.0
_ID_DIGITS = 12
# RocksDB's internal headers need these macros. NDEBUG must be as in librocksdb: it changes classes.
_FLAGS = ("-O2", "-fPIC", "-DOS_LINUX", "-DROCKSDB_PLATFORM_POSIX", "-DROCKSDB_LIB_IO_POSIX")
_ASSERTS = re.compile(r"\b__assert_fail\b")
_WRONG = re.compile(r"fatal:|error:|undefined reference|\*\*\*|not found")

# A plug-in's .mk uses the variables of RocksDB's Makefile (its plugin/README.md).
_MAKEFILE = """\
include plugin/$(NAME)/$(NAME).mk

SOURCES := $(addprefix plugin/$(NAME)/,$($(NAME)_SOURCES))
ifeq ($(strip $(SOURCES)),)
$(error $(NAME).mk sets no $(NAME)_SOURCES)
endif
CXXFLAGS := $(FLAGS) -I. -Iinclude -I$(ROCKSDB) -I$(ROCKSDB)/include $($(NAME)_CXXFLAGS)
LIBS := $($(NAME)_LDFLAGS) $(addprefix -l,$($(NAME)_LIBS))
PACKAGES := $($(NAME)_PKGCONFIG_REQUIRES)
ifneq ($(strip $(PACKAGES)),)
CXXFLAGS += $(shell pkg-config --cflags $(PACKAGES))
LIBS += $(shell pkg-config --libs $(PACKAGES))
ifneq ($(.SHELLSTATUS),0)
$(error pkg-config does not find $(PACKAGES))
endif
endif
OBJECTS := $(SOURCES:%=objects/%.o) $(if $($(NAME)_FUNC),objects/register.o)
ROCKSDB_LIBS := $(LIBRARY) -Wl,-rpath,$(dir $(LIBRARY))

lib$(NAME).so: $(OBJECTS)
	$(CXX) -shared -Wl,--no-undefined -Wl,-soname,$@ -o $@ $(OBJECTS) $(ROCKSDB_LIBS) $(LIBS)

$(NAME): plugin/$(NAME)/util/$(NAME).cc lib$(NAME).so
	$(CXX) $(CXXFLAGS) -o $@ $^ -Wl,-rpath,'$$ORIGIN/../lib' $(ROCKSDB_LIBS) -lgflags $(LIBS)

objects/register.o: register.cc
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS) -DPLUGIN='"$(NAME)"' -DFUNC=$($(NAME)_FUNC) -c -o $@ $<

objects/%.o: %
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS) -c -o $@ $<
"""
# RocksDB calls the registration function of a built-in plug-in. A preloaded one calls it itself.
_REGISTER = """\
#include "rocksdb/utilities/object_registry.h"
extern "C" {
int FUNC(ROCKSDB_NAMESPACE::ObjectLibrary&, const std::string&);
}
static const int registered =
    ROCKSDB_NAMESPACE::ObjectRegistry::Default()->RegisterPlugin(PLUGIN, FUNC);
"""


@dataclass(frozen=True, slots=True)
class RocksDb:
    """The RocksDB of a db_bench: its source tree, version and library."""

    tree: Path
    version: str
    library: Path


@dataclass(frozen=True, slots=True)
class PluginFacts:
    """The inputs of a plug-in's build."""

    name: str
    version: str | None  # version of its git checkout; null without one
    source: Tree
    rocksdb: str  # version
    headers: Tree  # RocksDB's source
    library: Tree  # the file librocksdb.so
    flags: str
    compiler: str  # first line of its --version


@dataclass(frozen=True, slots=True)
class PluginBuild:
    """``build.json`` of a plug-in: its inputs and its id."""

    id: str
    facts: PluginFacts
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Built:
    """A finished build on this host."""

    id: str
    path: str
    new: bool
    library: str
    tool: str  # empty: the plug-in has none


def identify(facts: PluginFacts) -> PluginBuild:
    """Return the build with its id: the plug-in's name and a digest of all inputs."""
    inputs = encode(facts)
    for tree in ("source", "headers", "library"):
        del inputs[tree]["path"]
    digest = checksums.of_json(inputs)
    return PluginBuild(f"{facts.name}-{digest[:_ID_DIGITS]}", facts)


def rocksdb_of(program: Path, tree: Path) -> RocksDb:
    """Return the RocksDB of a db_bench; its library must have the version of the source tree.

    Raises:
        HostError: the program has no shared librocksdb.
        UsageError: the tree is another version.
        ToolFailed: ldd failed.
    """
    library = ldd.rocksdb(program)
    if library is None:
        raise HostError(
            f"{program} has no shared librocksdb.so, so no plug-in can be preloaded",
            hint="build both: -e rocksdb_build=source and rocksdb_plugins (docs/builds.md)",
            code="rocksdb-static",
        )
    version = rocksdb_source.version_of(tree)
    if not library.name.endswith(f".so.{version}"):
        raise UsageError(
            f"{tree} is RocksDB {version}, but {program} uses {library}",
            hint="-e rocksdb_source= names the source tree of this db_bench",
        )
    return RocksDb(tree, version, library)


def flags(library: Path, cxxflags: str) -> str:
    """Return the compiler's flags. Assertions are on if and only if they are on in librocksdb.

    Raises:
        HostError: nm is not installed.
        ToolFailed: the library is not readable.
    """
    argv = ["nm", "-D", "--undefined-only", str(library)]
    asserts = _ASSERTS.search(proc.run(argv, timeout=_TIMEOUT_SECONDS).stdout)
    return " ".join((*_FLAGS, *(() if asserts else ("-DNDEBUG",)), cxxflags)).strip()


def build(
    name: str, folder: Path, *, rocksdb: RocksDb, into: Path, cxxflags: str, jobs: int
) -> Built:
    """Build ``lib<name>.so``, and the tool in ``util/<name>.cc`` if it exists; or find the build.

    Raises:
        UsageError: the folder is not a plug-in.
        HostError: a program is missing.
        ToolFailed: make, a compiler or the linker failed.
    """
    if not (folder / f"{name}.mk").is_file():
        raise UsageError(f"{folder} is not a plug-in: {name}.mk is missing", hint="set its folder")
    work = into / f".{name}.partial"
    shutil.rmtree(work, ignore_errors=True)
    copy = work / "plugin" / name
    # The build uses a copy, because .mk files write into their folder. The copy belongs to this
    # user, as git requires.
    shutil.copytree(folder, copy, symlinks=True)
    record = identify(_facts(copy, folder, rocksdb, cxxflags))
    home = into / record.id
    new = not (home / RECORD).is_file()
    if new:
        _make(work, record.facts, jobs, has_tool=(copy / "util" / f"{name}.cc").is_file())
        _install(work, home, record)
    shutil.rmtree(work)
    library, tool = home / "lib" / f"lib{name}.so", home / "bin" / name
    return Built(record.id, str(home), new, str(library), str(tool) if tool.is_file() else "")


def recorded(file: Path) -> PluginBuild | None:
    """Return the record of the build that a library or tool belongs to, None without one."""
    try:
        return load_record(PluginBuild, file.resolve().parents[1] / RECORD)
    except ConfigError:
        return None


def _facts(copy: Path, folder: Path, rocksdb: RocksDb, cxxflags: str) -> PluginFacts:
    compiler = proc.run(["g++", "--version"], timeout=_TIMEOUT_SECONDS).stdout
    return PluginFacts(
        name=copy.name,
        version=_version(copy),
        source=Tree(str(folder), trees.digest(copy)),
        rocksdb=rocksdb.version,
        headers=Tree(str(rocksdb.tree), trees.digest(rocksdb.tree)),
        library=Tree(str(rocksdb.library), checksums.digest(rocksdb.library)),
        flags=flags(rocksdb.library, cxxflags),
        compiler=compiler.splitlines()[0],
    )


def _version(copy: Path) -> str | None:
    if proc.which("git") is None:
        return None
    argv = ["git", "-C", str(copy), "describe", "--tags", "--always", "--dirty"]
    done = proc.run(argv, timeout=_TIMEOUT_SECONDS, env=_environment(copy), check=False)
    return done.stdout.strip() if done.ok else None


def _environment(copy: Path) -> dict[str, str]:
    """Return variables that keep git from searching above the copy."""
    return {"GIT_CEILING_DIRECTORIES": str(copy.parent)}


def _make(work: Path, facts: PluginFacts, jobs: int, *, has_tool: bool) -> None:
    (work / "Makefile").write_text(_MAKEFILE, encoding="utf-8")
    (work / "register.cc").write_text(_REGISTER, encoding="utf-8")
    # The tool includes headers by the path where RocksDB would install them.
    headers = work / "include" / "rocksdb" / "plugin"
    headers.mkdir(parents=True)
    copy = work / "plugin" / facts.name
    (headers / facts.name).symlink_to(copy)
    argv = ["make", f"-j{jobs}", f"lib{facts.name}.so", *([facts.name] if has_tool else [])]
    argv += [f"NAME={facts.name}", f"ROCKSDB={facts.headers.path}", "CXX=g++"]
    argv += [f"LIBRARY={facts.library.path}", f"FLAGS={facts.flags}"]
    env = _environment(copy)
    done = proc.run(argv, timeout=_BUILD_TIMEOUT_SECONDS, cwd=work, env=env, check=False)
    log = work / "build.log"
    log.write_text(done.stdout + done.stderr, encoding="utf-8")
    if not done.ok:
        lines = [line for line in done.stderr.splitlines() if _WRONG.search(line)]
        raise ToolFailed(
            f"plug-in {facts.name} does not build: {(lines or ['make failed'])[0].strip()}",
            hint=f"make's output is in {log}",
            code="plugin-build",
        )


def _install(work: Path, home: Path, record: PluginBuild) -> None:
    """Move the results to their place; a build with a record is complete."""
    name = record.facts.name
    done = work / "home"
    (done / "lib").mkdir(parents=True)
    (work / f"lib{name}.so").rename(done / "lib" / f"lib{name}.so")
    if (work / name).is_file():
        (done / "bin").mkdir()
        (work / name).rename(done / "bin" / name)
    (done / RECORD).write_text(dumps(record), encoding="utf-8")
    shutil.rmtree(home, ignore_errors=True)
    done.rename(home)
