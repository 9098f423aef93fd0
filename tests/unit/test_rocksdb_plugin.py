"""Builds of plug-ins that a db_bench preloads: from their own .mk, with our toy plug-ins."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.errors import HostError, ToolFailed, UsageError
from harness.store.files import dumps
from harness.tools import apt_source, ldd, proc, rocksdb_plugin, rocksdb_source, zenfs
from harness.tools.rocksdb_plugin import PluginFacts
from harness.tools.rocksdb_source import SourceFacts, Tree

FIXTURES = Path(__file__).parents[1] / "fixtures"
HEADERS = Path("/usr/include/rocksdb")
FACTS = PluginFacts(
    name="toy",
    version="v1",
    source=Tree("/src/toy", "aa"),
    rocksdb="7.8.3",
    headers=Tree("/src/rocksdb", "bb"),
    library=Tree("/usr/lib/librocksdb.so.7.8.3", "cc"),
    flags="-O2",
    compiler="g++ 12",
)
with_compiler = pytest.mark.needs("db_bench", "g++", "make", "nm", "pkg-config", "ldd")


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    return shutil.copytree(FIXTURES / "plugin-toy", tmp_path / "toy")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return the public headers of the installed RocksDB as a source tree."""
    if not HEADERS.is_dir():
        pytest.skip("librocksdb-dev is not installed")
    (tmp_path / "tree/include").mkdir(parents=True)
    (tmp_path / "tree/include/rocksdb").symlink_to(HEADERS)
    return tmp_path / "tree"


def build(name: str, folder: Path, tree: Path) -> rocksdb_plugin.Built:
    program = proc.which("db_bench")
    assert program is not None
    rocksdb = rocksdb_plugin.rocksdb_of(program, tree)
    into = tree.parent / "plugins"
    return rocksdb_plugin.build(name, folder, rocksdb=rocksdb, into=into, cxxflags="", jobs=1)


def accepted(library: str) -> bool:
    """Return whether the real db_bench knows zenfs:// with the library."""
    program = proc.which("db_bench")
    assert program is not None
    return zenfs.probe(program, Path(library)) is None


@with_compiler
@pytest.mark.needs("git")
@pytest.mark.slow
def test_a_plug_in_and_its_tool_are_built_from_its_mk(toy: Path, tree: Path) -> None:
    git = ["git", "-C", str(toy), "-c", "user.name=x", "-c", "user.email=x@x.invalid"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"], ["tag", "v3"]):
        subprocess.run([*git, *command], check=True)
    built = build("toy", toy, tree)
    assert built.new
    assert accepted(built.library)
    printed = subprocess.run([built.tool], check=True, capture_output=True, text=True).stdout
    assert printed == "zenfs\n"
    record = rocksdb_plugin.recorded(Path(built.library))
    assert record is not None
    assert (record.id, record.facts.version) == (built.id, "v3")
    again = build("toy", toy, tree)
    assert (again.new, again.path) == (False, built.path)
    (toy / "scheme").write_text("another\n")
    other = build("toy", toy, tree)
    assert other.new
    assert other.id != built.id
    assert not accepted(other.library)
    assert accepted(built.library)
    assert {path.name for path in (tree.parent / "plugins").iterdir()} == {built.id, other.id}


@with_compiler
@pytest.mark.slow
def test_a_plug_in_with_a_function_registers_itself(tree: Path) -> None:
    built = build("func", FIXTURES / "plugin-func", tree)
    assert built.tool == ""
    assert accepted(built.library)


@with_compiler
@pytest.mark.slow
def test_internal_headers_come_from_the_distributions_source(
    tmp_path: Path, toy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZONELAB_DB_BENCH", "/usr/bin/db_bench")
    arguments = ["--into", str(tmp_path), "--cxxflags=-DTOY_INTERNAL", "--jobs=1"]
    status = main(["rocksdb", "plugin", f"toy={toy}", *arguments])
    output = capsys.readouterr()
    if "apt-get failed" in output.err:
        pytest.skip("the archive of source packages cannot be reached")
    assert status == 0, output.err
    built = json.loads(output.out)
    version = apt_source.installed_version("rocksdb-tools")
    record = rocksdb_plugin.recorded(Path(built["library"]))
    assert record is not None
    assert record.facts.headers.path == str(tmp_path / f"source/rocksdb-{version}")
    assert record.facts.flags.endswith("-DTOY_INTERNAL")
    assert accepted(built["library"])


@with_compiler
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scheme": None}, r"toy does not build: .*\*\*\* Reading the scheme of toy failed"),
        ({"toy.mk": "toy_HEADERS = toy.h\n"}, r"\*\*\* toy.mk sets no toy_SOURCES"),
        (
            {"toy.mk": 'toy_SOURCES = toy.cc\ntoy_PKGCONFIG_REQUIRES = "nowhere >= 1"\n'},
            "pkg-config does not find|nowhere.* not found",
        ),
        ({"toy.cc": '#include "nowhere.h"\n'}, "fatal error: nowhere.h"),
        ({"toy.cc": "int nowhere(); int toy_filesystem_reg = nowhere();\n"}, "undefined reference"),
    ],
)
def test_a_build_that_fails_quotes_its_reason(
    toy: Path, tree: Path, change: dict[str, str | None], message: str
) -> None:
    for name, text in change.items():
        if text is None:
            (toy / name).unlink()
        else:
            (toy / name).write_text(text)
    with pytest.raises(ToolFailed, match=message) as caught:
        build("toy", toy, tree)
    assert caught.value.code == "plugin-build"
    assert Path(caught.value.hint.rpartition(" ")[2]).read_text()
    assert not list((tree.parent / "plugins").rglob("build.json"))


@with_compiler
def test_a_folder_or_tree_of_something_else_is_refused(tmp_path: Path, tree: Path) -> None:
    with pytest.raises(UsageError, match=r"is not a plug-in: other\.mk is missing"):
        build("other", FIXTURES / "plugin-toy", tree)
    with pytest.raises(UsageError, match=r"is RocksDB 1\.2\.3, but .*librocksdb\.so\.\d"):
        build("toy", FIXTURES / "plugin-toy", FIXTURES / "rocksdb/source")


def test_a_static_db_bench_preloads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ldd, "rocksdb", lambda _: None)
    with pytest.raises(HostError, match="no shared librocksdb") as caught:
        rocksdb_plugin.rocksdb_of(Path("/opt/db_bench"), FIXTURES / "rocksdb/source")
    assert caught.value.code == "rocksdb-static"


@pytest.mark.needs("g++", "nm")
@pytest.mark.parametrize("release", [True, False])
def test_assertions_are_as_in_the_library(tmp_path: Path, release: bool) -> None:
    (tmp_path / "x.c").write_text("#include <assert.h>\nvoid f(int x) { assert(x); }\n")
    library = tmp_path / "librocksdb.so"
    argv = ["g++", "-shared", "-fPIC", *(["-DNDEBUG"] if release else []), "-o", str(library)]
    subprocess.run([*argv, str(tmp_path / "x.c")], check=True)
    flags = rocksdb_plugin.flags(library, "-O3").split()
    assert ("-DNDEBUG" in flags) is release
    assert flags[-1] == "-O3"


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"version": None},
        {"source": Tree("/src/toy", "ab")},
        {"rocksdb": "7.8.4"},
        {"headers": Tree("/src/rocksdb", "bc")},
        {"library": Tree("/usr/lib/librocksdb.so.7.8.3", "cd")},
        {"flags": "-O3"},
        {"compiler": "g++ 14"},
    ],
)
def test_all_inputs_change_the_id(change: dict[str, object]) -> None:
    changed = replace(FACTS, **change)  # type: ignore[arg-type]
    assert rocksdb_plugin.identify(changed).id != rocksdb_plugin.identify(FACTS).id


def test_the_places_of_the_inputs_do_not() -> None:
    moved = replace(
        FACTS, source=Tree("/a", "aa"), headers=Tree("/b", "bb"), library=Tree("/c", "cc")
    )
    assert rocksdb_plugin.identify(moved).id == rocksdb_plugin.identify(FACTS).id
    assert rocksdb_plugin.identify(FACTS).id.startswith("toy-")


def test_the_source_of_a_build_of_zonelab_is_known(
    tmp_path: Path,
    toy: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = tmp_path / "1.2.4-0123/bin/db_bench"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    source = FIXTURES / "rocksdb/source"
    facts = SourceFacts("1.2.4", Tree(str(source), "aa"), {}, "", (), "g++ 12", "bb", 1)
    (tmp_path / "1.2.4-0123/build.json").write_text(dumps(rocksdb_source.identify(facts, ())))
    monkeypatch.setattr(ldd, "rocksdb", lambda _: Path("/lib/librocksdb.so.1.2.4"))
    arguments = ["--into", str(tmp_path), "--program-path", str(program)]
    assert main(["rocksdb", "plugin", f"toy={toy}", *arguments]) == 2
    assert f"{source} is RocksDB 1.2.3, but {program} uses" in capsys.readouterr().err


def test_the_source_of_an_unknown_db_bench_must_be_named(
    tmp_path: Path, toy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "db_bench"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    arguments = ["--into", str(tmp_path), "--program-path", str(own)]
    assert main(["rocksdb", "plugin", f"toy={toy}", *arguments]) == 2
    error = capsys.readouterr().err
    assert "the source of" in error
    assert "rocksdb_source" in error
