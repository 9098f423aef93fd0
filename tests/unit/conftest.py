"""Fixtures of the unit tests: commands that refuse, a synthetic campaign, simulated hosts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.cli import main as cli
from harness.rules.facts import RunFacts
from harness.tools import dmsetup, proc, zone_reset
from tests.fixtures.campaigns import write_campaign
from tests.fixtures.level_host import Host, map_to
from tests.fixtures.planner import Planner
from tests.fixtures.run_facts import good_run

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
    """Return a function that runs a command, checks how it refuses, and returns the first line."""

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


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    fake = Host(tmp_path / "root")
    monkeypatch.setattr(proc, "run", fake.run)
    monkeypatch.setattr(proc, "which", lambda program: Path("/sbin", program))
    monkeypatch.setattr(dmsetup, "node", lambda name: tmp_path if name in fake.slices else Path())
    monkeypatch.setattr(dmsetup, "map_to", map_to)
    monkeypatch.setattr(
        zone_reset, "reset_all", lambda device, _: fake.calls.append(["reset", str(device)])
    )
    return fake


@pytest.fixture
def planner(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Planner:
    return Planner(tmp_path, capsys)


@pytest.fixture
def good(tmp_path: Path) -> RunFacts:
    """Return the facts of a run that no rule objects to."""
    return good_run(tmp_path)
