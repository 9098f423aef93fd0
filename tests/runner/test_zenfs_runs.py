"""The level zenfs under the whole runner: fake_zenfs.py and a db_bench that knows zenfs://."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from harness.levels import zenfs
from harness.store.result import Status
from tests.runner import fakes
from tests.runner.conftest import DATABASE, Machine

pytestmark = pytest.mark.slow  # every test starts the runner

ZONES = 32
CAPACITY = ZONES * fakes.ZONE_CAPACITY
COLD = int(CAPACITY * 0.8) - DATABASE


class Zoned(Machine):
    """The fake machine with 32 zones and the user's parts; its one run is of zenfs."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        sysfs = root / "sys/class/block/nvme0n2"
        (sysfs / "queue/nr_zones").write_text(str(ZONES))
        (sysfs / "size").write_text(str(ZONES * fakes.ZONE_SIZE // 512))
        self.host.reset_zones(self.host.device("nvme0n2"))  # the node is as long as that
        self.plan = self._plan()
        parts = root / "zenfs"
        parts.mkdir()
        here = Path(__file__).parent
        (parts / "zenfs").symlink_to(here / "fake_zenfs.py")
        (parts / "db_bench").symlink_to(here / "fake_zenfs_db_bench.py")
        self.keep_first_run()
        self.change_runs(run="zenfs--r01", cell="zenfs", level="zenfs")
        self.change_cold(bytes=COLD)


@pytest.fixture
def zoned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Zoned:
    monkeypatch.setenv("ZONELAB_ZENFS", str(tmp_path / "zenfs"))
    return Zoned(tmp_path)


def test_a_run(zoned: Zoned) -> None:
    zoned.change_runs(level_options={"finish_remaining_pct": 10})
    done = zoned.run()
    assert done.returncode == 0, done.stderr
    found = zoned.result
    assert found.status is Status.OK
    assert found.utilisation is not None
    assert found.utilisation.cold_bytes == pytest.approx(COLD, rel=0.001)
    assert found.utilisation.database_bytes == DATABASE
    assert found.metrics["run.max_utilisation"].value == pytest.approx(29 / 32)
    # The one full zone of the report is one of metadata.
    assert found.metrics["overwrite.zones_full"].value == 0
    assert found.metrics["overwrite.gc_events"].value is None
    level = found.manifest["level"]
    assert level["program"] == f"{zoned.root}/zenfs/db_bench"
    # The level's own db_bench is recorded as another build.
    build = found.manifest["host"]["rocksdb_build"]
    assert (build["kind"], level["rocksdb_build"]["kind"]) == ("program", "program")
    assert level["rocksdb_build"]["id"] != build["id"]
    assert level["facts"]["zenfs_version"] == "v2.1.0-65-g919c2eb"
    assert (level["facts"]["finish_remaining_pct"], level["facts"]["finish_occupancy_pct"]) == (
        10,
        90,
    )
    assert level["direct_io"]["effective"] == {"reads": True, "writes": True}
    assert "own-db-bench" in {issue.code for issue in found.issues}
    for phase in found.phases:
        assert phase.argv[0] == f"{zoned.root}/zenfs/db_bench"
        assert "--fs_uri=zenfs://dev:nvme0n2" in phase.argv
    started = (zoned.root / "started").read_text().split()
    assert started[:3] == ["fillseq", "of", "cold"]
    assert list((zoned.root / "run").iterdir()) == []


def series(zoned: Zoned, name: str) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of a series of the run."""
    text = (zoned.runs / "zenfs--r01" / "series" / f"{name}.csv").read_text()
    header, *rows = [line.split(",") for line in text.splitlines()]
    return header, rows


def test_df_and_dump_are_sampled_while_db_bench_works(zoned: Zoned) -> None:
    (zoned.root / "behave.json").write_text('{"overwrite": "slow", "fillrandom": "slow"}')
    done = zoned.run()
    assert done.returncode == 0, done.stderr
    assert zoned.result.status is Status.OK
    header, rows = series(zoned, "zenfs-df")
    assert header == ["t", "seconds", "read_bytes", "free", "used", "reclaimable"]
    captured = [[2805, 58, 0], [2662, 111, 63], [2644, 168, 60], [2639, 179, 101]]
    sampled = [[int(field) // fakes.MIB for field in row[3:]] for row in rows]
    assert sampled
    assert all(row in captured for row in sampled)
    header, others = series(zoned, "zenfs-dump")
    assert header[3:] == ["free", "live", "garbage", "zones_empty", "zones_full", "files"]
    # 29 zones of data: what the three of metadata are like is no part of it.
    live = DATABASE + found_cold(zoned)
    full = live // fakes.ZONE_CAPACITY
    sampled = [[int(field) for field in row[3:]] for row in others]
    capacity = 29 * fakes.ZONE_CAPACITY
    assert sampled == [[capacity - live, live, 0, 29 - full - 1, full, 2]] * len(sampled)
    # One program a second, in turn, and only in the measured phase: fillrandom took as long.
    times = sorted(float(row[0]) for row in rows + others)
    assert rows
    assert others
    assert all(b - a > 0.9 for a, b in itertools.pairwise(times))
    begin = float(overwrites(zoned)[0][0]) - 1
    assert begin < times[0]
    assert abs(len(rows) - len(others)) <= 1


def found_cold(zoned: Zoned) -> int:
    assert zoned.result.utilisation is not None
    return zoned.result.utilisation.cold_bytes or 0


def overwrites(zoned: Zoned) -> list[list[str]]:
    return series(zoned, "overwrite")[1]


def test_multipath_is_refused_before_anything_is_formatted(zoned: Zoned) -> None:
    queue = zoned.root / "sys/class/block/nvme0n2/queue"
    (queue / "max_active_zones").write_text("0")
    path = zoned.root / "sys/class/block/nvme0c0n2/queue"
    path.mkdir(parents=True)
    (path / "max_active_zones").write_text("14")
    (path / "scheduler").write_text("[none] mq-deadline")
    assert zoned.run().returncode == 0
    reason = zoned.result.reason
    assert zoned.result.status is Status.SKIPPED
    assert reason is not None
    assert (reason.code, reason.hint) == ("multipath-head", "boot with nvme_core.multipath=N")
    assert not (zoned.root / "zenfs.json").exists()


def test_another_scheduler_stops_the_run_before_mkfs(zoned: Zoned) -> None:
    zoned.change_runs(scheduler="none")
    assert zoned.run().returncode == 4
    reason = zoned.result.reason
    assert reason is not None
    assert reason.code == "scheduler"
    assert not (zoned.root / "zenfs.json").exists()


@pytest.mark.parametrize("command", ["mkfs", "fs-info", "df", "dump"])
def test_a_refusal_keeps_the_programs_message(zoned: Zoned, command: str) -> None:
    (zoned.root / "refuse").write_text(command)
    assert zoned.run().returncode == 4
    reason = zoned.result.reason
    assert reason is not None
    assert "Failed to open zoned block device: nvme0n2, error: busy" in reason.message
    assert list((zoned.root / "run").iterdir()) == []


def test_kill_nine_then_resume(zoned: Zoned) -> None:
    zoned.kill_in_overwrite()
    assert json.loads((zoned.root / "zenfs.json").read_text())["aux"].startswith(
        f"{zoned.root}/run/zenfs--r01/aux/zl-"
    )
    done = zoned.run()
    assert done.returncode == 0, done.stderr
    assert "zenfs--r01 of campaign c was killed there" in done.stderr
    assert zoned.result.status is Status.OK


def test_a_foreign_zenfs_after_a_kill_is_refused(zoned: Zoned) -> None:
    zoned.kill_in_overwrite()
    node = zoned.root / "dev/nvme0n2"
    with node.open("r+b") as file:
        file.seek(zenfs.SIGNATURE.label_offset)
        file.write(b"/home/somebody/aux/precious\0".ljust(256, b"\0"))
    content = node.read_bytes()
    done = zoned.run()
    assert done.returncode == 3
    assert "carries zenfs labelled 'precious' that zonelab did not write" in done.stderr
    assert node.read_bytes() == content
