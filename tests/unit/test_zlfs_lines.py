"""zlfs stays small enough to be read: its lines are counted (docs/decisions.md, "Structure")."""

from __future__ import annotations

from tests.unit.conftest import ROOT

ZLFS = ROOT / "harness/native/zlfs"
NOT_COUNTED = {"tests", "crash"}
# What it has, rounded up to the next 50. It only ever becomes less.
MOST = 4700


def lines() -> dict[str, int]:
    """Return lines of C++ by folder, without blank ones and those that are a comment only."""
    count: dict[str, int] = {}
    for path in [*ZLFS.rglob("*.cc"), *ZLFS.rglob("*.h")]:
        folder = path.relative_to(ZLFS).parts[0]
        if folder not in NOT_COUNTED:
            own = (line.strip() for line in path.read_text().splitlines())
            count[folder] = count.get(folder, 0) + sum(
                1 for line in own if line and not line.startswith("//")
            )
    return count


def test_zlfs_does_not_grow() -> None:
    count = lines()
    assert sum(count.values()) <= MOST, count


def test_the_limit_follows_the_count() -> None:
    count = lines()
    assert sum(count.values()) > MOST - 50, f"{count}: lower MOST"
