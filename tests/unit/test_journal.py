"""The journal of devices: which run was killed, and lines that a crash cut off."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.machine.journal import Journal, JournalEntry, JournalEvent

CLAIM, UP, RELEASE = JournalEvent.CLAIM, JournalEvent.UP, JournalEvent.RELEASE


def entry(event: JournalEvent, run: str, identity: str, campaign: str = "c") -> JournalEntry:
    return JournalEntry(event, identity, campaign, run, "fake", "zl-1", "", None, "t", "b")


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "state" / "journal.jsonl")  # its folder is made


@pytest.mark.parametrize(
    ("entries", "unfinished"),
    [
        ([], []),
        ([entry(CLAIM, "r1", "a")], [entry(CLAIM, "r1", "a")]),
        # The last entry of each of its devices.
        (
            [entry(CLAIM, "r1", "a"), entry(CLAIM, "r1", "b"), entry(UP, "r1", "a")],
            [entry(UP, "r1", "a"), entry(CLAIM, "r1", "b")],
        ),
        # A run releases its devices at once, so one entry is enough.
        ([entry(UP, "r1", "a"), entry(UP, "r1", "b"), entry(RELEASE, "r1", "a")], []),
        # An older run was released; a device that only it used is not of the newest run.
        ([entry(RELEASE, "r1", "b"), entry(UP, "r2", "a")], [entry(UP, "r2", "a")]),
        ([entry(UP, "r1", "b"), entry(UP, "r2", "a"), entry(RELEASE, "r2", "a")], []),
        # Runs of two campaigns have the same names.
        (
            [entry(RELEASE, "r1", "b", "before"), entry(UP, "r1", "a")],
            [entry(UP, "r1", "a")],
        ),
    ],
)
def test_the_entries_of_a_killed_run(
    journal: Journal, entries: list[JournalEntry], unfinished: list[JournalEntry]
) -> None:
    for one in entries:
        journal.append(one)
    assert journal.unfinished() == unfinished


def test_an_incomplete_line_has_no_effect_and_is_removed(tmp_path: Path, journal: Journal) -> None:
    journal.append(entry(CLAIM, "r1", "a"))
    path = tmp_path / "state" / "journal.jsonl"
    # Longer than the next entry, which would leave its end behind.
    path.write_bytes(path.read_bytes() + b'{"event": "up", ' + b" " * 1000)
    assert journal.entries() == [entry(CLAIM, "r1", "a")]
    journal.append(entry(UP, "r1", "a"))
    assert journal.entries() == [entry(CLAIM, "r1", "a"), entry(UP, "r1", "a")]
    assert path.read_bytes().endswith(b"}\n")
