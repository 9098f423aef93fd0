"""dm-zap under the whole runner, over a synthetic target: fake_tools.py."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from harness.store.result import Result, Status
from harness.store.rundir import load_result
from tests.runner import fakes
from tests.runner.conftest import Machine

PROGRAMS = ("dmsetup", "mkfs.ext4", "mkfs.xfs", "mount", "umount", "sync", "modprobe", "coldfill")
TARGETS = "zap              v1.0.0\nlinear           v1.4.0\n"


class Whole(Machine):
    """The fake machine with zones that hold as much as they are large, and one run of dm-zap."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        sysfs = root / "sys/class/block/nvme0n2"
        (sysfs / "queue/chunk_sectors").write_text(str(fakes.ZONE_CAPACITY // 512))
        (sysfs / "size").write_text(str(fakes.ZONES * fakes.ZONE_CAPACITY // 512))
        self.plan = self._plan()
        (root / "bin").mkdir()
        for name in PROGRAMS:
            (root / "bin" / name).symlink_to(Path(__file__).parent / "fake_tools.py")
        (root / "targets").write_text(TARGETS)
        host = self.plan.hosts[0]
        self.change_plan(hosts=(type(host)(host.host, host.inspection, host.runs[:1]),))
        self.change_runs(run="dm-zap--r01", cell="dm-zap", level="dm-zap")

    @property
    def result(self) -> Result:
        return load_result(self.runs / "dm-zap--r01")

    def tools(self, name: str) -> list[str]:
        lines = (self.root / "tools.log").read_text().splitlines()
        return [line.partition(" ")[2] for line in lines if line.startswith(f"{name} ")]


@pytest.fixture
def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Whole:
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("ZONELAB_NATIVE", str(tmp_path / "bin"))
    return Whole(tmp_path)


def test_a_run(whole: Whole) -> None:
    whole.change_runs(level_options={"overprovisioning_rate": 25, "victim_selection_method": 1})
    done = whole.run()
    assert done.returncode == 0, done.stderr
    found = whole.result
    assert found.status is Status.OK
    assert {issue.code for issue in found.issues} >= {"mapping-volatile", "gc-counter-missing"}
    create = [line for line in whole.tools("dmsetup") if line.startswith("create")]
    sectors = fakes.ZONES * fakes.ZONE_CAPACITY // 512
    device = f"{whole.root}/dev/nvme0n2"
    mapped = f"{whole.root}/dev/mapper/zonelab-zap-nvme0n2"
    assert create == [
        f"create zonelab-zap-nvme0n2 --table 0 {sectors} zap {device} 0 25 125 25 1 10 30",
        f"create zonelab-split-nvme0n2 --table 0 {sectors * 75 // 100} striped 1 8 {mapped} 0",
    ]
    assert found.manifest["level"]["direct_io"]["requested"] == {"reads": False, "writes": False}
    assert found.manifest["level"]["gc_source"].endswith("nothing was traced")
    assert list((whole.root / "run").iterdir()) == []
    assert list((whole.root / "dev/mapper").iterdir()) == []


def test_without_the_module_it_is_skipped(whole: Whole) -> None:
    (whole.root / "targets").write_text("linear           v1.4.0\n")
    assert whole.run().returncode == 0
    reason = whole.result.reason
    assert whole.result.status is Status.SKIPPED
    assert reason is not None
    assert reason.code == "kernel-target"
    assert "-e dm_zap_source=" in reason.hint
    assert not (whole.root / "started").exists()


def test_too_small_zones_are_skipped(whole: Whole) -> None:
    sysfs = whole.root / "sys/class/block/nvme0n2"
    (sysfs / "queue/chunk_sectors").write_text(str(fakes.ZONE_SIZE // 512))
    whole.change_runs(device=whole.host.device("nvme0n2"))
    assert whole.run().returncode == 0
    reason = whole.result.reason
    assert reason is not None
    assert reason.code == "capacity-below-size"


def test_kill_nine_leaves_nothing_mapped_but_asks_before_it_wipes(whole: Whole) -> None:
    """Its mapping is gone with the target, and no label of ours is on the device."""
    (whole.root / "behave.json").write_text('{"overwrite": "hang"}')
    child = whole.start()
    started, deadline = whole.root / "started", time.monotonic() + 30
    while not started.exists() or "overwrite" not in started.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    child.kill()
    child.communicate(timeout=30)
    (whole.root / "behave.json").unlink()
    done = whole.run()
    assert done.returncode == 3
    assert "removed device-mapper zonelab-split-nvme0n2" in done.stderr
    removed = [line for line in whole.tools("dmsetup") if line.startswith("remove")]
    assert removed == ["remove zonelab-split-nvme0n2", "remove zonelab-zap-nvme0n2"]
    assert "erase=eui.5254000000000002" in done.stderr
    assert whole.run("--erase", "eui.5254000000000002").returncode == 0
    assert whole.result.status is Status.OK
