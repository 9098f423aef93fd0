"""A level's own counts at the last barrier, against its own ledger of the whole run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.store.ledger import OwnCounts
from harness.store.result import Status
from harness.verify import stored_numbers

AT_BARRIER = OwnCounts(
    {"flush": 10}, {"flush": 1}, {}, finishes=2, resets=3, space={}, metadata_zones=3
)


def contradictions(
    status: Status, stored: OwnCounts, monkeypatch: pytest.MonkeyPatch, raw: Path
) -> list[str]:
    """Compare counts at the last barrier with a ledger that goes on after it."""
    later = replace(AT_BARRIER, payload={"flush": 12, "gc": 4}, resets=4)
    level = SimpleNamespace(own_ledger="own", own_totals=lambda _lines, _device: (later, None))
    monkeypatch.setattr(stored_numbers, "LEVELS", {"toy": level})
    (raw / "own").write_text("")
    usage = SimpleNamespace(own=stored, gc_seconds=None)
    tenant = SimpleNamespace(level="toy", name="")
    given: list[Any] = [
        raw,
        SimpleNamespace(spec=tenant, snapshots=[SimpleNamespace(usage=usage)]),
        SimpleNamespace(status=status, device=None),
    ]
    return list(stored_numbers.own_counts(*given))


@pytest.mark.parametrize("status", [Status.FAILED, Status.ABORTED])
def test_the_ledger_goes_on_where_a_run_ends_in_a_phase(
    status: Status, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert contradictions(status, AT_BARRIER, monkeypatch, tmp_path) == []


@pytest.mark.parametrize("status", [Status.OK, Status.INVALID])
def test_both_end_together_where_all_phases_ended(
    status: Status, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = contradictions(status, AT_BARRIER, monkeypatch, tmp_path)
    assert [line.split(" {")[0].split(" 3")[0] for line in found] == [
        "the last usage.json has payload",
        "the last usage.json has resets",
    ]


@pytest.mark.parametrize(
    "change", [{"payload": {"flush": 13}}, {"payload": {"wal": 1}}, {"finishes": 3}]
)
def test_a_count_above_that_of_the_end_is_wrong_in_any_run(
    change: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stored = replace(AT_BARRIER, **change)
    (line,) = contradictions(Status.FAILED, stored, monkeypatch, tmp_path)
    assert f"has {next(iter(change))} " in line
