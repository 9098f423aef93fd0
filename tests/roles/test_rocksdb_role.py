"""``roles/rocksdb`` with the real ansible, CMake and compiler on tests/fixtures/rocksdb."""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.roles import ROOT, play

pytestmark = pytest.mark.slow

FIXTURE = ROOT / "tests" / "fixtures" / "rocksdb"


class Host:
    """This machine as the role sees it: a copy of the stand-in, and a prefix of its own."""

    def __init__(self, folder: Path) -> None:
        self.source, self.plugin = folder / "source", folder / "plugin"
        self.patches, self.prefix = folder / "patches", folder / "prefix"
        for name in ("source", "plugin", "patches"):
            shutil.copytree(FIXTURE / name, folder / name)
        self.runner = folder / "zonelab.pyz"
        argv = [sys.executable, "-m", "harness.pack", str(self.runner)]
        subprocess.run(argv, cwd=ROOT, check=True)
        self.variables: dict[str, Any] = {
            "zonelab_python": sys.executable,
            "zonelab_runner": str(self.runner),
            "rocksdb_build": "source",
            "rocksdb_source": str(self.source),
            "rocksdb_plugins": {"toy": str(self.plugin)},
            "rocksdb_patches": str(self.patches),
            "rocksdb_prefix": str(self.prefix),
            "rocksdb_packages": [],
        }

    def play(self, **variables: Any) -> tuple[int, int, str]:
        """Run the role; return (changed, failed, output)."""
        return play(FIXTURE / "play.yml", self.variables | variables)

    def built(self, **variables: Any) -> str:
        """Run the role, which must succeed; return the id of the build that is linked."""
        changed, failed, output = self.play(**variables)
        assert (changed > 0, failed) == (True, 0), output
        home = (self.prefix / "db_bench").resolve().parents[1]
        identity: str = json.loads((home / "build.json").read_text())["id"]
        assert home == self.prefix / identity
        return identity

    def say(self) -> list[str]:
        argv = [str(self.prefix / "db_bench")]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Host:
    for program in ("cmake", "g++", "make", "patch"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    return Host(tmp_path_factory.mktemp("rocksdb"))


def test_a_source_tree_with_patch_and_plug_in(host: Host) -> None:
    first = host.built()
    assert first.startswith("1.2.3-")
    # A release build (no warning of assertions), patched, with the plug-in inside.
    assert host.say() == ["patched", "plug-in toy"]
    assert (host.prefix / first / "lib" / "librocksdb.so.1.2").is_file()
    assert (host.prefix / first / "include" / "rocksdb" / "version.h").is_file()
    record = json.loads((host.prefix / first / "build.json").read_text())
    assert [patch["name"] for patch in record["patches"]] == ["0001-say-patched.patch"]
    assert record["facts"]["plugins"].keys() == {"toy"}
    assert "not patched" in (host.source / "db_bench.cc").read_text(), "the user's tree was changed"

    assert host.play()[:2] == (0, 0), "a second run must do nothing"

    flagged = host.built(rocksdb_cxxflags="-DCHOSEN")
    assert host.say() == ["chosen flag", "patched", "plug-in toy"]
    patch = host.patches / "1.2" / "0001-say-patched.patch"
    patch.write_text(patch.read_text().replace('"patched"', '"patched anew"'))
    patched = host.built(rocksdb_plugins={})
    assert host.say() == ["patched anew"]
    plugin = host.plugin / "plugin.cc"
    plugin.write_text(plugin.read_text().replace('"toy"', '"other toy"'))
    plugged = host.built()
    assert host.say() == ["patched anew", "plug-in other toy"]
    assert len({first, flagged, patched, plugged}) == 4
    # Builds stay; going back to one is a link.
    assert host.built(rocksdb_plugins={}) == patched


def test_a_patch_that_does_not_apply_stops_the_build(host: Host, tmp_path: Path) -> None:
    shutil.copytree(FIXTURE / "patches", tmp_path / "patches")
    (patch,) = (tmp_path / "patches").rglob("*.patch")
    patch.write_text(patch.read_text().replace("not patched", "unheard of"))
    prefix = tmp_path / "prefix"
    _, failed, output = host.play(
        rocksdb_patches=str(tmp_path / "patches"), rocksdb_prefix=str(prefix)
    )
    assert failed == 1
    assert "1 out of 1 hunk FAILED" in output
    assert not (prefix / "db_bench").exists()
    assert not list(prefix.rglob("build.json"))


@dataclass(frozen=True)
class Own:
    """A db_bench of the user's, and the variables of the role without it."""

    path: Path
    link: Path
    package: dict[str, Any]


@pytest.fixture
def own(tmp_path: Path) -> Own:
    path, prefix = tmp_path / "db_bench", tmp_path / "prefix"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    package = {
        "rocksdb_build": "package",
        "rocksdb_source": "",
        "rocksdb_plugins": {},
        "rocksdb_prefix": str(prefix),
    }
    return Own(path, prefix / "db_bench", package)


def test_the_users_own_db_bench_is_linked(host: Host, own: Own) -> None:
    assert host.play(**own.package, rocksdb_db_bench=str(own.path))[1] == 0
    assert own.link.resolve() == own.path
    _, failed, output = host.play(**own.package, rocksdb_db_bench="/nowhere/db_bench")
    assert failed == 1
    assert "/nowhere/db_bench is not on this host" in output


@pytest.mark.needs("db_bench")
def test_the_distributions_db_bench_is_not_linked(host: Host, own: Own) -> None:
    assert host.play(**own.package, rocksdb_db_bench=str(own.path))[1] == 0
    assert host.play(**own.package)[1] == 0
    assert not own.link.is_symlink()
    assert host.play(**own.package)[:2] == (0, 0)


def test_variables_that_would_be_ignored_are_refused(host: Host) -> None:
    package = {"rocksdb_build": "package", "rocksdb_plugins": {}}
    for wrong in (package, {"rocksdb_db_bench": "/usr/bin/db_bench"}):
        _, failed, output = host.play(**wrong)
        assert failed == 1
        assert "need -e rocksdb_build=source or a plug-in" in output
