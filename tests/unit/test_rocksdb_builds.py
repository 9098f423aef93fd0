"""Builds of RocksDB: source packages, build ids, patches, recognition of a db_bench."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.errors import ToolFailed, UsageError
from harness.observe import rocksdb_build
from harness.rig import apt
from harness.rig.releases import releases
from harness.store.files import dumps
from harness.tools import apt_source, db_bench, rocksdb_source, trees
from harness.tools.rocksdb_source import SourceFacts, Tree

ROOT = Path(__file__).parents[2]
PATCHES = ROOT / "patches" / "rocksdb"
STAND_IN = ROOT / "tests" / "fixtures" / "rocksdb"
FACTS = SourceFacts(
    version="7.8.3",
    source=Tree("/src/rocksdb", "aa"),
    plugins={"zenfs": Tree("/src/zenfs", "bb")},
    cxxflags="",
    cmake_options=("WITH_LZ4=ON",),
    compiler="g++ 12",
    target_sha256="cc",
    cpus=2,
)


def test_sources_of_apt_become_sources_of_source_packages() -> None:
    stanza = "# a mirror\nTypes: deb deb-src\nURIs: http://a.invalid/debian\nSuites: s\n"
    expected = "# a mirror\nTypes: deb-src\nURIs: http://a.invalid/debian\nSuites: s\n"
    assert apt_source.source_lines("debian.sources", stanza) == expected
    lines = "# deb http://b.invalid s main\ndeb [arch=amd64] http://a.invalid s main\n"
    lines += "deb-src [arch=amd64] http://a.invalid s main\n"
    assert (
        apt_source.source_lines("sources.list", lines)
        == "deb-src [arch=amd64] http://a.invalid s main\n"
    )


def test_a_package_that_is_not_installed_has_no_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Exception, match="no-such-package is not installed"):
        apt_source.installed_version("no-such-package")


def test_a_missing_archive_is_reported_and_leaves_nothing(tmp_path: Path) -> None:
    sources = {"x.list": f"deb-src [trusted=yes] file:{tmp_path}/nowhere s main\n"}
    with pytest.raises(ToolFailed, match="apt-get failed") as caught:
        apt_source.download("rocksdb", tmp_path, sources)
    assert caught.value.code == "source-unreachable"
    assert list(tmp_path.iterdir()) == []


def test_the_digest_of_a_tree_covers_its_visible_files(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.cc").write_text("one")
    before = trees.digest(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("x")
    (tmp_path / "deep" / ".a.cc.swp").write_text("x")
    assert trees.digest(tmp_path) == before
    (tmp_path / "deep" / "a.cc").write_text("two")
    assert trees.digest(tmp_path) != before


@pytest.mark.parametrize(
    "change",
    [
        {"version": "7.8.4"},
        {"source": Tree("/src/rocksdb", "ab")},
        {"plugins": {}},
        {"plugins": {"zenfs": Tree("/src/zenfs", "bc")}},
        {"plugins": {"other": Tree("/src/zenfs", "bb")}},
        {"cxxflags": "-O2"},
        {"cmake_options": ()},
        {"compiler": "g++ 14"},
        {"target_sha256": "cd"},
    ],
)
def test_all_that_decides_a_build_changes_its_id(change: dict[str, object]) -> None:
    patches = rocksdb_source.series(PATCHES, FACTS)
    build = rocksdb_source.identify(FACTS, patches)
    assert build.id.startswith("7.8.3-")
    assert rocksdb_source.identify(replace(FACTS, **change), patches).id != build.id  # type: ignore[arg-type]
    assert rocksdb_source.identify(FACTS, ()).id != build.id
    changed = replace(patches[0], sha256="0")
    assert rocksdb_source.identify(FACTS, (changed,)).id != build.id


def test_where_a_tree_lies_and_how_many_processors_build_it_do_not() -> None:
    moved = replace(
        FACTS,
        source=Tree("/other", "aa"),
        plugins={"zenfs": Tree("/elsewhere", "bb")},
        cpus=64,
    )
    assert rocksdb_source.identify(moved, ()).id == rocksdb_source.identify(FACTS, ()).id


def test_versions_without_patches_are_built_as_they_are() -> None:
    assert rocksdb_source.series(PATCHES, replace(FACTS, version="11.1.0")) == ()
    assert rocksdb_source.series(None, FACTS) == ()


@pytest.mark.needs("g++")
def test_flags_change_the_compilers_description() -> None:
    def target(flags: str, *options: str) -> str:
        source = STAND_IN / "source"
        return rocksdb_source.describe(
            source, {}, cxxflags=flags, cmake_options=options
        ).target_sha256

    assert target("", "PORTABLE=ON") == target("", "PORTABLE=1")
    assert target("", "PORTABLE=ON") != target("-O3", "PORTABLE=ON")
    assert target("") == target("-march=native", "PORTABLE=ON")


def test_a_tree_without_rocksdb_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a RocksDB source tree"):
        rocksdb_source.version_of(tmp_path)
    header = tmp_path / rocksdb_source.VERSION_HEADER
    header.parent.mkdir(parents=True)
    header.write_text("#define ROCKSDB_MAJOR 7\n")
    with pytest.raises(UsageError, match="does not define RocksDB's version"):
        rocksdb_source.version_of(tmp_path)
    with pytest.raises(UsageError, match=r"plug-in toy: .* is not a folder"):
        rocksdb_source.describe(
            STAND_IN / "source", {"toy": tmp_path / "no"}, cxxflags="", cmake_options=()
        )


def test_plumbing_refuses_bad_arguments_and_bad_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert main(["rocksdb", "describe", str(tmp_path), "--plugin", "zenfs"]) == 2
    assert "not NAME=FOLDER" in capsys.readouterr().err
    text = tmp_path / "stdin"
    text.write_text("nothing")
    with text.open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert main(["rocksdb", "identify"]) == 2
    assert "not the output of `zonelab rocksdb describe`" in capsys.readouterr().err


def tree_of(folder: Path, package: str, sources: dict[str, str]) -> Path:
    """Return an archive of upstream's tree of a version; skip if it cannot be downloaded."""
    try:
        files = apt_source.download(package, folder, sources)
    except ToolFailed as error:
        pytest.skip(f"the archive of source packages cannot be reached: {error.message}")
    (archive,) = (file for file in files if ".orig.tar" in file.name)
    tree = folder / "tree"
    tree.mkdir()
    argv = ["tar", "-xf", str(archive), "-C", str(tree), "--strip-components=1"]
    subprocess.run(argv, check=True)
    return tree


def applies(tree: Path) -> None:
    """Every patch for the tree's version applies, in order, without fuzz."""
    found = rocksdb_source.version_of(tree).rpartition(".")[0]
    patches = sorted((PATCHES / found).glob("*.patch"))
    if not patches:
        pytest.skip(f"there are no patches for RocksDB {found}, and it is built as it is")
    for patch in patches:
        argv = ["patch", "--strip=1", "--forward", "--fuzz=0", f"--input={patch}"]
        dry = subprocess.run([*argv, "--dry-run"], cwd=tree, capture_output=True, text=True)  # noqa: PLW1510
        assert dry.returncode == 0, f"{patch}: {dry.stdout}"
        subprocess.run(argv, cwd=tree, check=True, capture_output=True)


@pytest.mark.slow
def test_patches_apply_to_this_distributions_source(tmp_path: Path) -> None:
    version = apt_source.installed_version("rocksdb-tools")
    try:
        apt_source.fetch("rocksdb", version, tmp_path / "tree")
    except ToolFailed as error:
        pytest.skip(f"the archive of source packages cannot be reached: {error.message}")
    assert [path.name for path in tmp_path.iterdir()] == ["tree"]
    assert (tmp_path / "tree" / "debian").is_dir(), "the distribution's own changes are missing"
    applies(tmp_path / "tree")


@pytest.mark.slow
@pytest.mark.parametrize(("suite", "series"), [(n, s.rocksdb) for n, s in releases().items()])
def test_patches_apply_to_debians_source(tmp_path: Path, suite: str, series: str) -> None:
    mirror = apt.mirror()
    if mirror is None or not apt.KEYRING.is_file():
        pytest.skip("this host is no Debian and has no mirror of it")
    line = f"deb-src [signed-by={apt.KEYRING}] {mirror} {suite} main\n"
    tree = tree_of(tmp_path, "rocksdb", {"debian.list": line})
    assert rocksdb_source.version_of(tree).rpartition(".")[0] == series
    applies(tree)


def test_each_patch_states_its_reason_and_upstream_status() -> None:
    files = sorted(PATCHES.rglob("*.patch"))
    assert {file.parent.name for file in files} == {"7.8", "9.10"}
    for file in files:
        text, _, _ = file.read_text().partition("\n--- ")
        assert "\nReason: " in text
        assert "\nUpstream status: " in text


def program(folder: Path, text: str = "#!/bin/sh\n") -> Path:
    file = folder / "bin" / "db_bench"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    file.chmod(0o755)
    return file


def test_a_build_by_zonelab_is_recognised_by_its_record(tmp_path: Path) -> None:
    built = program(tmp_path / "7.8.3-0123")
    record = rocksdb_source.identify(FACTS, ())
    (tmp_path / "7.8.3-0123" / "build.json").write_text(dumps(record))
    link = tmp_path / "db_bench"
    link.symlink_to(built)
    found = rocksdb_build.of_program(link)
    assert (found["id"], found["kind"]) == (record.id, "source")
    assert found["build"]["facts"]["plugins"]["zenfs"]["sha256"] == "bb"


def test_the_distributions_is_known_by_its_package() -> None:
    there = Path("/usr/bin/db_bench")
    if not there.is_file():
        pytest.skip("rocksdb-tools is not installed")
    query = ["dpkg-query", "-W", "-f", "rocksdb-tools_${Version}_${Architecture}", "rocksdb-tools"]
    version = subprocess.run(query, check=True, capture_output=True, text=True).stdout
    assert rocksdb_build.of_program(there) == {"id": version, "kind": "package"}


def test_any_other_is_known_by_its_contents(tmp_path: Path) -> None:
    one, two = program(tmp_path / "one"), program(tmp_path / "two", "#!/bin/sh\nexit 0\n")
    (tmp_path / "two" / "build.json").write_text('{"id": "of another project"}')
    found = [rocksdb_build.of_program(file) for file in (one, two)]
    assert [record["kind"] for record in found] == ["program", "program"]
    assert found[0]["id"] != found[1]["id"]
    assert rocksdb_build.of_program(one) == found[0]


def test_the_linked_db_bench_is_found_before_the_one_on_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ZONELAB_DB_BENCH", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path / 'path' / 'bin'}:{os.environ['PATH']}")
    on_path = program(tmp_path / "path")
    built = program(tmp_path / "7.8.3-0123")
    monkeypatch.setattr(db_bench, "INSTALLED", tmp_path / "db_bench")
    assert db_bench.find() == on_path
    (tmp_path / "db_bench").symlink_to(built)
    assert db_bench.find() == built
    built.unlink()  # never silently another one than was asked for
    with pytest.raises(Exception, match="db_bench is not there"):
        db_bench.find()


def test_fetch_of_a_present_archive_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(apt_source, "installed_version", lambda _: "7.8.3-2")
    monkeypatch.setattr(apt_source, "fetch", lambda *_: pytest.fail("fetched again"))
    (tmp_path / "rocksdb-7.8.3-2").mkdir()
    assert main(["rocksdb", "fetch", str(tmp_path)]) == 0
    output = json.loads(capsys.readouterr().out)
    assert output == {"path": str(tmp_path / "rocksdb-7.8.3-2"), "fetched": False}
