"""``zonelab rocksdb``: fetch and identify a RocksDB source tree; for roles/rocksdb."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from harness.errors import ConfigError, ExitCode, UsageError
from harness.observe.rocksdb_build import PACKAGE
from harness.store.codec import decode
from harness.store.files import dumps
from harness.tools import apt_source, rocksdb_source
from harness.tools.rocksdb_source import SourceFacts

SUMMARY = "fetch and identify a RocksDB source tree that is to be built"
GROUP = "playbooks"
SHIPPED = True
HELP = """Fetch RocksDB's source package, describe a source tree, and give its build an id.

examples:
  zonelab rocksdb fetch /usr/local/lib/zonelab/rocksdb/source
  zonelab rocksdb describe TREE --plugin zenfs=/src/zenfs --cxxflags=-O3 --option WITH_LZ4=ON
  zonelab rocksdb identify --patches patches/rocksdb < description.json

Each step prints JSON: fetch {path, fetched}; describe the description that identify reads; identify
the content of build.json."""

_SOURCE = "rocksdb"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare sub-commands."""
    commands = parser.add_subparsers(dest="step", required=True, metavar="STEP")
    fetch = commands.add_parser("fetch", help="fetch the source of the installed package")
    fetch.add_argument("folder", type=Path)
    describe = commands.add_parser("describe", help="describe a build (on the host that builds)")
    describe.add_argument("source", type=Path, metavar="TREE")
    describe.add_argument("--plugin", action="append", default=[], metavar="NAME=FOLDER")
    describe.add_argument("--cxxflags", default="", metavar="FLAGS")
    describe.add_argument("--option", action="append", default=[], metavar="NAME=VALUE")
    identify = commands.add_parser("identify", help="print the build's id (where the patches are)")
    identify.add_argument("--patches", type=Path, metavar="FOLDER", help="contains VERSION/*.patch")


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
    else:
        facts = _facts(sys.stdin.read())
        patches = rocksdb_source.series(arguments.patches, facts)
        print(dumps(rocksdb_source.identify(facts, patches)), end="")
    return ExitCode.OK


def _fetch(folder: Path) -> dict[str, str | bool]:
    version = apt_source.installed_version(PACKAGE)
    tree = folder / f"{_SOURCE}-{version}"
    wanted = not tree.is_dir()
    if wanted:
        apt_source.fetch(_SOURCE, version, tree)
    return {"path": str(tree), "fetched": wanted}


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
