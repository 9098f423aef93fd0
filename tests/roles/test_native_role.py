"""``roles/native`` with the real ansible and a stand-in for CMake."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.fixtures.roles import play

pytestmark = pytest.mark.slow

CMAKE = """\
#!/bin/sh
echo "$*" >>{calls}
mkdir -p {lib}/native
"""


def test_programs_are_built_again_for_another_rocksdb_of_the_distribution(tmp_path: Path) -> None:
    if not list(Path("/var/lib/dpkg/info").glob("librocksdb-dev*.list")):
        pytest.skip("librocksdb-dev is not installed")
    lib, calls, programs = tmp_path / "lib", tmp_path / "calls", tmp_path / "programs"
    for folder in (lib, programs, tmp_path / "source"):
        folder.mkdir()
    (programs / "cmake").write_text(CMAKE.format(calls=calls, lib=lib))
    (programs / "cmake").chmod(0o755)
    (tmp_path / "source/a.cc").write_text("int main() {}\n")
    (tmp_path / "play.yml").write_text(
        json.dumps([{"hosts": "all", "gather_facts": False, "roles": ["native"]}])
    )
    variables = {
        "zonelab_python": sys.executable,
        "zonelab_lib": str(lib),
        "native_source": str(tmp_path / "source"),
        "native_packages": [],
    }

    def builds(**more: str) -> list[str]:
        calls.write_text("")
        _, failed, output = play(tmp_path / "play.yml", variables | more, programs)
        assert failed == 0, output
        return [line for line in calls.read_text().splitlines() if "--build" in line]

    (first,) = builds()
    assert "--clean-first" not in first
    assert builds() == []
    os.utime(lib / "native/SOURCE_HASH", (0, 0))  # the package is newer
    (again,) = builds()
    assert again == f"{first} --clean-first"
    assert builds() == []
    (other,) = builds(native_rocksdb="/opt/rocksdb")
    os.utime(lib / "native/SOURCE_HASH", (0, 0))
    assert other == first
    assert builds(native_rocksdb="/opt/rocksdb") == []
