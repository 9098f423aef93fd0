"""``-e zenfs_source=`` and ``rocksdb_plugins`` with the real ansible, compiler and db_bench."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.tools import proc, zenfs
from tests.fixtures.roles import ROOT, play

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs("db_bench", "g++", "make", "nm", "pkg-config", "ldd"),
]

HEADERS = Path("/usr/include/rocksdb")


class Host:
    """This machine as the roles see it: toy plug-ins as the user's source, a prefix of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.lib = folder, folder / "lib"
        self.zenfs = folder / "zenfs"
        self._write_zenfs()
        (folder / "tree/include").mkdir(parents=True)
        (folder / "tree/include/rocksdb").symlink_to(HEADERS)
        argv = [sys.executable, "-m", "harness.pack", str(folder / "zonelab.pyz")]
        subprocess.run(argv, cwd=ROOT, check=True)

    def _write_zenfs(self) -> None:
        """Write plugin-toy under the name of ZenFS."""
        toy = ROOT / "tests/fixtures/plugin-toy"
        for file in [toy / "scheme", *toy.glob("**/toy.*")]:
            target = self.zenfs / str(file.relative_to(toy)).replace("toy", "zenfs")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(file.read_text().replace("toy", "zenfs"))

    def play(self, *roles: str, **variables: Any) -> tuple[int, int, str]:
        """Run roles; return (changed, failed, output)."""
        own = {"name": "Plug-in", "hosts": "all", "gather_facts": False, "roles": list(roles)}
        (self.folder / "play.yml").write_text(yaml.safe_dump([own]))
        given = {
            "zonelab_lib": str(self.lib),
            "zonelab_python": sys.executable,
            "zonelab_runner": str(self.folder / "zonelab.pyz"),
            "rocksdb_source": str(self.folder / "tree"),
            "rocksdb_plugin_packages": [],
            "zenfs_packages": [],
            **variables,
        }
        return play(self.folder / "play.yml", given)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    if not HEADERS.is_dir():
        pytest.skip("librocksdb-dev is not installed")
    return Host(tmp_path)


def test_one_variable_builds_zenfs_and_links_it(host: Host) -> None:
    source = {"zenfs_source": str(host.zenfs)}
    changed, failed, output = host.play("rocksdb", "zenfs", **source)
    assert failed == 0, output
    assert changed > 0
    links = {link.name: link.resolve() for link in (host.lib / "zenfs").iterdir()}
    assert links.keys() == {"zenfs", "libzenfs.so"}
    assert host.lib / "rocksdb/plugins" in links["zenfs"].parents
    tool = proc.run([host.lib / "zenfs/zenfs"])  # through the link, as the runner starts it
    assert tool.stdout == "zenfs\n"
    program = proc.which("db_bench")
    assert program is not None
    assert zenfs.probe(program, links["libzenfs.so"]) is None
    assert host.play("rocksdb", "zenfs", **source)[:2] == (0, 0), "a second run must do nothing"
    _, failed, output = host.play("zenfs", **source, zenfs_plugin="/opt/libzenfs.so")
    assert failed == 1
    assert "zenfs_source builds plug-in and tool" in output


def test_other_plug_ins_are_built_by_the_same_step(host: Host) -> None:
    plugins = {"func": str(ROOT / "tests/fixtures/plugin-func")}
    changed, failed, output = host.play("rocksdb", rocksdb_plugins=plugins)
    assert failed == 0, output
    assert changed > 0
    (library,) = (host.lib / "rocksdb/plugins").glob("func-*/lib/libfunc.so")
    program = proc.which("db_bench")
    assert program is not None
    assert zenfs.probe(program, library) is None
