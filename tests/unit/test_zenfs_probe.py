"""The probe of ZenFS against the distribution's db_bench, with a plug-in compiled here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.levels.zenfs import ZenFs
from harness.tools import proc, zenfs

TOY = Path(__file__).parents[1] / "fixtures/plugin-toy/toy.cc"
HEADER = Path("/usr/include/rocksdb/file_system.h")
pytestmark = [pytest.mark.slow, pytest.mark.needs("db_bench", "g++", "ldd")]


def plugin(folder: Path, scheme: str) -> None:
    """Compile plugin-toy as ``libzenfs.so``; it registers a scheme as a pattern."""
    if not HEADER.is_file():
        pytest.skip("librocksdb-dev is not installed")
    argv = ["g++", "-shared", "-fPIC", f'-DTOY_SCHEME="{scheme}"', str(TOY), "-lrocksdb"]
    subprocess.run([*argv, "-o", str(folder / zenfs.PLUGIN)], check=True)


@pytest.fixture
def db_bench() -> Path:
    program = proc.which("db_bench")
    assert program is not None
    return program


def probe(program: Path) -> tuple[str, str] | None:
    reason = ZenFs().probe_program(program, "db_bench")
    return (reason.code, reason.message) if reason else None


def test_the_real_db_bench_answers_for_a_plug_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, db_bench: Path
) -> None:
    monkeypatch.setenv("ZONELAB_ZENFS", str(tmp_path))
    plugin(tmp_path, "zenfs")
    assert b"zenfs://" not in (tmp_path / zenfs.PLUGIN).read_bytes()
    assert probe(db_bench) is None
    plugin(tmp_path, "another")
    answer = probe(db_bench)
    assert answer is not None
    assert answer[0] == "zenfs-not-registered"
    (tmp_path / zenfs.PLUGIN).unlink()
    answer = probe(db_bench)
    assert answer is not None
    assert answer[0] == "zenfs-missing"
