"""Counters of a barrier belong to one moment, although reading them takes a while."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.levels.base import LevelUsage
from harness.observe.diskstats import DiskCounters
from harness.run import phases
from harness.run.bench import Bench
from harness.run.phases import Stage
from harness.store.ledger import Snapshot
from harness.store.rundir import RunWriter

NAME, SECTION = "nvme0n2", 4 << 20


class Host:
    """Its device is written to ``times`` times, each time while the witness is asked."""

    def __init__(self, times: int) -> None:
        self._left = times
        self.moved = 0

    def disk_counters(self, names: list[str]) -> dict[str, DiskCounters]:
        return {name: DiskCounters(0, 0, self.moved, self.moved * SECTION, 0, 0) for name in names}

    def witness(self, names: list[str]) -> Any:
        if self._left:
            self._left -= 1
            self.moved += 1
        return None

    def media(self, names: list[str]) -> None:
        return None

    def smart(self, name: str) -> None:
        return None

    def zeroes(self, name: str) -> bool:
        return False


def barrier(host: Host, folder: Path) -> Snapshot:
    level = SimpleNamespace(
        uses_zoned=False, sync=lambda _: None, database_bytes=lambda _: 0,
        usage=lambda _: LevelUsage(1, 0, 0, ""),
    )  # fmt: skip
    device = SimpleNamespace(path=f"/dev/{NAME}")
    up = SimpleNamespace()
    writer = RunWriter(folder, "x--r01")
    stage = Stage(*(cast("Any", one) for one in (level, up, device, device)), writer, 0.0)
    bench = cast("Bench", SimpleNamespace(host=host))
    return phases.barrier(bench, stage, "overwrite", 0).point.snapshot


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "_SETTLE_SECONDS", 0)


@pytest.mark.parametrize("times", [0, 1, 3])
def test_what_was_written_to_meanwhile_is_read_again(tmp_path: Path, times: int) -> None:
    host = Host(times)
    found = barrier(host, tmp_path)
    assert found.settled
    assert found.written == {NAME: times * SECTION} == {NAME: host.moved * SECTION}


def test_a_device_that_never_rests_is_said_to_be_unsettled(tmp_path: Path) -> None:
    assert not barrier(Host(1000), tmp_path).settled
