"""All counters of a barrier belong to one moment, although reading them takes time."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.levels.level import LevelUsage
from harness.observe.diskstats import DiskCounters
from harness.run import barrier as barriers
from harness.run.context import RunContext, RunningLevel
from harness.store.ledger import Snapshot
from harness.store.rundir import RunWriter

NAME, SECTION = "nvme0n2", 4 << 20


class Host:
    """A host whose device is written to during the first ``times`` queries of the witness."""

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
        uses_zoned=False,
        sync=lambda _: None,
        database_bytes=lambda _: 0,
        usage=lambda _: LevelUsage(1, 0, 0, ""),
    )
    device = SimpleNamespace(path=f"/dev/{NAME}")
    up = SimpleNamespace()
    writer = RunWriter(folder, "x--r01")
    running = RunningLevel(*(cast("Any", one) for one in (level, up, device, device)), writer, 0.0)
    context = cast("RunContext", SimpleNamespace(host=host))
    return barriers.take(context, running, "overwrite", 0).snapshot.counters


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(barriers, "_SETTLE_SECONDS", 0)


@pytest.mark.parametrize("times", [0, 1, 3])
def test_a_device_written_to_meanwhile_is_read_again(tmp_path: Path, times: int) -> None:
    host = Host(times)
    found = barrier(host, tmp_path)
    assert found.settled
    assert found.written == {NAME: times * SECTION} == {NAME: host.moved * SECTION}


def test_a_device_that_never_rests_is_recorded_as_unsettled(tmp_path: Path) -> None:
    assert not barrier(Host(1000), tmp_path).settled
