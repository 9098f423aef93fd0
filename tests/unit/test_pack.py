"""The zipapp: reproducible, complete, and runnable by a Python without any library."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness import pack
from harness.cli import commands

PACKAGE = Path(pack.__file__).parent


@pytest.mark.slow
def test_the_archive_is_reproducible_and_starts(tmp_path: Path) -> None:
    target = tmp_path / "zonelab.pyz"
    target.write_bytes(pack.archive(PACKAGE))
    assert pack.archive(PACKAGE) == target.read_bytes()
    shipped = [name for name, command in commands.discover().items() if command.shipped]
    assert {"run", "inspect", "collect"} <= set(shipped)
    for command in shipped:
        # -I -S: no site-packages, no user paths: exactly what a measured machine offers.
        done = subprocess.run(  # noqa: PLW1510 - the return code is asserted below
            [sys.executable, "-I", "-S", str(target), command, "--help"],
            capture_output=True,
            text=True,
            env={"PATH": os.environ["PATH"]},
        )
        assert done.returncode == 0, done.stderr
        assert f"zonelab {command}" in done.stdout


def test_two_plays_write_one_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "zonelab.pyz"
    monkeypatch.setattr(sys, "argv", ["pack", str(target)])
    monkeypatch.setattr(pack, "archive", lambda _: b"content")
    monkeypatch.setattr(os, "getpid", lambda: 7)
    during: list[list[Path]] = []

    def other(_: int) -> None:
        monkeypatch.setattr(os, "fsync", lambda _: None)
        monkeypatch.setattr(os, "getpid", lambda: 8)
        pack.main()
        during.append(list(tmp_path.iterdir()))

    monkeypatch.setattr(os, "fsync", other)
    pack.main()
    assert [len(files) for files in during] == [2], "the file of the first play is still there"
    assert list(tmp_path.iterdir()) == [target]
    assert target.read_bytes() == b"content"
    assert target.stat().st_mode & 0o777 == 0o755


def test_an_archive_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys, "argv", ["pack", str(tmp_path / "zonelab.pyz")])
    monkeypatch.setattr(pack, "archive", lambda _: b"content")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        pack.main()
    assert list(tmp_path.iterdir()) == []


def test_controller_rooms_stay_out() -> None:
    names = {str(file.relative_to(PACKAGE)) for file in pack.sources(PACKAGE)}
    assert "machine/guard.py" in names
    assert not any(name.startswith(("plan/", "rig/", "native/")) for name in names)
    assert "cli/plan.py" not in names
