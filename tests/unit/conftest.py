"""What tests of bad input share: how a command must refuse, and a synthetic campaign."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.cli import main as cli
from tests.fixtures.campaigns import write_campaign

ROOT = Path(__file__).parents[2]
RIG = ROOT / "tests/fixtures/plan/synthetic-rig.json"
READERS = ("compare", "report", "status", "verify")

Refused = Callable[..., str]


def tree(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder, with its content."""
    return {
        str(path): b"" if path.is_symlink() or not path.is_file() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Refused:
    """Return a call of the command that checks how it refuses; it returns the first line."""

    def call(code: int, *words: str | Path, keeps: Path = tmp_path) -> str:
        before = tree(keeps)
        assert cli.main([str(word) for word in words]) == code
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 2, lines
        assert lines[0].startswith("zonelab: ")
        assert lines[1].startswith("hint: ")
        assert tree(keeps) == before
        return lines[0]

    return call


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    return write_campaign(tmp_path / "c", repetitions=1, series=False)
