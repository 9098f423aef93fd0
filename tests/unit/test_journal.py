"""The journal of devices: which run was killed, and lines that a crash cut off."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import HostError
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


def test_entries_belong_to_their_device(journal: Journal) -> None:
    def erase(identity: str, consent: str) -> JournalEntry:
        return replace(entry(JournalEvent.ERASE, "r1", identity), consent=consent)

    assert journal.last("a") is None
    written = [erase("a", "1"), erase("b", "2"), erase("a", "3")]
    written += [replace(entry(UP, "r1", "a"), consent="no erase"), entry(CLAIM, "r1", "b")]
    for one in written:
        journal.append(one)
    assert journal.last("a") == written[3]
    assert journal.last("b") == written[4]
    assert journal.last("c") is None
    assert journal.erasures("a") == ["1", "3"]
    assert journal.erasures("c") == []


def test_a_damaged_line_proves_nothing(tmp_path: Path, journal: Journal) -> None:
    for identity in ("a", "b", "c"):
        journal.append(entry(CLAIM, "r1", identity))
    path = tmp_path / "state" / "journal.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], lines[1].replace("claim", "clam"), lines[2], ""]))
    for question in (lambda: journal.last("a"), journal.unfinished, lambda: journal.erasures("c")):
        with pytest.raises(HostError, match=r"journal\.jsonl:2 is damaged") as caught:
            question()
        assert caught.value.code == "journal-damaged"
