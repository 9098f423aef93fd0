"""``zonelab rocksdb``: fetch and identify a RocksDB source tree, build a plug-in."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from harness.cli.output import add_action, add_repeatable
from harness.errors import ConfigError, ExitCode, UsageError
from harness.observe import rocksdb_build
from harness.store.codec import decode, encode
from harness.store.files import dumps
from harness.tools import apt_source, db_bench, rocksdb_plugin, rocksdb_source
from harness.tools.rocksdb_source import SourceFacts

SUMMARY = "fetch and identify a RocksDB source tree; build a plug-in to preload"
GROUP = "playbooks"
SHIPPED = True
HELP = """Fetch RocksDB's source package, describe a source tree, give its build an id,
build a plug-in.

examples:
  zonelab rocksdb fetch /usr/local/lib/zonelab/rocksdb/source
  zonelab rocksdb describe TREE --plugin zenfs=/src/zenfs --cxxflags=-O3 --option WITH_LZ4=ON
  zonelab rocksdb identify --patches patches/rocksdb < description.json
  zonelab rocksdb plugin zenfs=/src/zenfs --into /usr/local/lib/zonelab/rocksdb

Each step prints JSON: fetch {path, fetched}; describe the description that identify reads; identify
the content of build.json; plugin {id, path, new, library, tool}."""

_SOURCE = "rocksdb"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare sub-commands."""
    commands = parser.add_subparsers(dest="step", required=True, metavar="STEP")
    fetch = add_action(commands, "fetch", "fetch the source of the installed package")
    fetch.add_argument("folder", type=Path, metavar="FOLDER", help="folder for the source tree")
    describe = add_action(commands, "describe", "describe a build (on the host that builds)")
    describe.add_argument("source", type=Path, metavar="TREE", help="source of RocksDB")
    add_repeatable(describe, "--plugin", "NAME=FOLDER", "plug-in and its source; repeatable")
    describe.add_argument("--cxxflags", default="", metavar="FLAGS", help="flags of the compiler")
    add_repeatable(describe, "--option", "NAME=VALUE", "option of CMake; repeatable")
    identify = add_action(commands, "identify", "print the build's id (where the patches are)")
    identify.add_argument(
        "--patches", type=Path, metavar="FOLDER", help="folder with VERSION/*.patch"
    )
    plugin = add_action(commands, "plugin", "build a plug-in that this host's db_bench preloads")
    plugin.add_argument("plugin", metavar="NAME=FOLDER", help="plug-in and its source")
    plugin.add_argument(
        "--into", type=Path, required=True, metavar="FOLDER", help="folder of builds and sources"
    )
    plugin.add_argument(
        "--source", type=Path, metavar="TREE", help="source of RocksDB (default: db_bench's)"
    )
    plugin.add_argument(
        "--program-path",
        type=Path,
        metavar="DB_BENCH",
        help="path of the db_bench that preloads it",
    )
    plugin.add_argument("--cxxflags", default="", metavar="FLAGS", help="flags of the compiler")
    plugin.add_argument(
        "--jobs", type=int, default=0, help="compilers at once; 0: one per processor"
    )


def execute(arguments: argparse.Namespace) -> int:
    """Run one step."""
    if arguments.step == "fetch":
        print(json.dumps(_fetch(arguments.folder)))
    elif arguments.step == "describe":
        plugins = dict(_plugin(text) for text in arguments.plugin)
        facts = rocksdb_source.describe(
            arguments.source, plugins, cxxflags=arguments.cxxflags, cmake_options=arguments.option
        )
        print(dumps(facts), end="")
    elif arguments.step == "plugin":
        print(json.dumps(encode(_build(arguments))))
    else:
        facts = _facts(sys.stdin.read())
        patches = rocksdb_source.series(arguments.patches, facts)
        print(dumps(rocksdb_source.identify(facts, patches)), end="")
    return ExitCode.OK


def _fetch(folder: Path) -> dict[str, str | bool]:
    version = apt_source.installed_version(rocksdb_build.PACKAGE)
    tree = folder / f"{_SOURCE}-{version}"
    wanted = not tree.is_dir()
    if wanted:
        apt_source.fetch(_SOURCE, version, tree)
    return {"path": str(tree), "fetched": wanted}


def _build(arguments: argparse.Namespace) -> rocksdb_plugin.Built:
    name, folder = _plugin(arguments.plugin)
    program = db_bench.find(arguments.program_path)
    into = arguments.into.absolute()
    tree = (arguments.source or _tree(program, into)).absolute()
    return rocksdb_plugin.build(
        name,
        folder,
        rocksdb=rocksdb_plugin.rocksdb_of(program, tree),
        into=into / "plugins",
        cxxflags=arguments.cxxflags,
        jobs=arguments.jobs or len(os.sched_getaffinity(0)),
    )


def _tree(program: Path, into: Path) -> Path:
    """Return the source of the RocksDB that a db_bench was built from."""
    build = rocksdb_build.of_program(program)
    if build["kind"] == "source":
        return Path(build["build"]["facts"]["source"]["path"])
    if build["kind"] == "package":
        return Path(str(_fetch(into / "source")["path"]))
    raise UsageError(
        f"the source of {program} is unknown",
        hint="name the source tree of this db_bench: -e rocksdb_source=FOLDER",
    )


def _plugin(text: str) -> tuple[str, Path]:
    name, separator, folder = text.partition("=")
    if not (name and separator and folder) or "/" in name:
        raise UsageError(f"--plugin {text} is not NAME=FOLDER", hint="for example zenfs=/src/zenfs")
    return name, Path(folder)


def _facts(text: str) -> SourceFacts:
    try:
        return decode(SourceFacts, json.loads(text))
    except ValueError:
        raise ConfigError("stdin is not the output of `zonelab rocksdb describe`") from None
