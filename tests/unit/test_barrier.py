"""All counters of a barrier belong to one moment, although reading them takes time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.levels.level import LevelUsage
from harness.observe.diskstats import DiskCounters
from harness.run import barrier as barriers
from harness.run.context import RunContext, RunningLevel
from harness.run.ledger import BarrierSnapshot
from harness.store.ledger import Completions, Snapshot
from harness.store.rundir import RunWriter

NAME, SECTION = "nvme0n2", 4 << 20
TOOL_READS, READ_AHEAD = 12_288, 4096


class Host:
    """A host whose device is written to during the first ``times`` queries of the witness."""

    def __init__(self, times: int) -> None:
        self._left = times
        self.moved = 0
        self.read = 0
        self.late = 0  # bytes of a read-ahead that ends only after the tool that caused it

    def disk_counters(self, names: list[str]) -> dict[str, DiskCounters]:
        read, moved = self.read, self.moved
        disk = DiskCounters(read, read, moved, moved * SECTION, int(bool(self.late)), read)
        self.read, self.late = read + self.late, 0
        return dict.fromkeys(names, disk)

    def witness(self, names: list[str]) -> Any:
        if self._left:
            self._left -= 1
            self.moved += 1
        return None

    def writes_during(self, times: int) -> None:
        """Let the next ``times`` readings of a barrier be disturbed."""
        self._left = times

    def media(self, names: list[str]) -> None:
        return None

    def completions(self, names: list[str]) -> dict[str, Completions]:
        return {}

    def smart(self, name: str) -> None:
        return None

    def zeroes(self, name: str) -> bool:
        return False


def barrier(host: Host, folder: Path) -> Snapshot:
    return take(host, run(host, folder)).counters


def run(host: Host, folder: Path, *, dilation: int = 1) -> RunningLevel:
    """Return a level whose tools read from the device, a part of it ahead."""

    def usage(_: Any) -> LevelUsage:
        host.read += TOOL_READS
        host.late += READ_AHEAD
        return LevelUsage(1, 0, 0, "")

    level = SimpleNamespace(
        uses_zoned=False, sync=lambda _: None, database_bytes=lambda _: 0, usage=usage
    )
    device = SimpleNamespace(path=f"/dev/{NAME}", name=NAME, native=False)
    up = SimpleNamespace(dilation=dilation)
    writer = RunWriter(folder, "x--r01")
    return RunningLevel(*(cast("Any", one) for one in (level, up, device, device)), writer, 0.0)


def take(host: Host, running: RunningLevel, name: str = "overwrite") -> BarrierSnapshot:
    context = cast("RunContext", SimpleNamespace(host=host))
    return barriers.take(context, running, name, 0)


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


class BusyHost(Host):
    """A host whose device still has a reset under way during the first ``looks`` at it."""

    def __init__(self, looks: int) -> None:
        super().__init__(0)
        self._looks = looks

    def disk_counters(self, names: list[str]) -> dict[str, DiskCounters]:
        self._looks -= 1
        under_way = int(self._looks >= 0)
        return {
            name: replace(disk, in_flight=under_way)
            for name, disk in super().disk_counters(names).items()
        }


@pytest.mark.parametrize(("dilation", "settled"), [(1, False), (2, False), (3, True)])
def test_a_slowed_drive_has_more_time_to_settle(
    tmp_path: Path, dilation: int, settled: bool
) -> None:
    host = BusyHost(looks=41)
    found = take(host, run(host, tmp_path, dilation=dilation)).counters
    assert found.settled is settled


@pytest.mark.parametrize("repeated", [0, 2])
def test_no_phase_is_charged_with_reads_of_the_barriers_tools(
    tmp_path: Path, repeated: int
) -> None:
    host = Host(0)
    running = run(host, tmp_path)
    before = take(host, running, "fill")
    host.read += 5 * SECTION  # the phase
    host.writes_during(repeated)
    after = take(host, running)
    first, last = before.counters, after.counters
    assert last.read_for_run(NAME) - first.read_for_run(NAME) == 5 * SECTION
    assert last.busy_for_run(NAME) - first.busy_for_run(NAME) == 5 * SECTION
    # The counters themselves stay in the record.
    runs_of_tools = 1 + repeated
    assert last.read == {NAME: 5 * SECTION + runs_of_tools * (TOOL_READS + READ_AHEAD)}
    assert last.tools_read == {NAME: runs_of_tools * (TOOL_READS + READ_AHEAD)}


def test_tenants_on_one_device_are_not_charged_with_each_others_barriers(tmp_path: Path) -> None:
    host = Host(0)
    one = run(host, tmp_path)
    other = replace(one)
    before = take(host, one, "one")
    take(host, other, "other")
    host.read += SECTION
    after = take(host, one, "end")
    first, last = before.counters, after.counters
    assert last.read_for_run(NAME) - first.read_for_run(NAME) == SECTION
