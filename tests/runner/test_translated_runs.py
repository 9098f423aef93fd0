"""dm-zap and dm-zoned under the whole runner, over synthetic targets: fake_tools.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.machine.claim import run_label
from harness.store.result import Severity, Status
from tests.fixtures.level_host import FIXTURES
from tests.runner import fakes
from tests.runner.conftest import Machine, consent_in

PROGRAMS = (
    "dmsetup",
    "dmzadm",
    "mkfs.ext4",
    "mkfs.xfs",
    "mount",
    "umount",
    "sync",
    "modprobe",
    "coldfill",
)
TARGETS = "zap              v1.0.0\nzoned            v3.0.0\nlinear           v1.4.0\n"
CONVENTIONAL = 18 * fakes.ZONE_CAPACITY  # what dm-zoned asks for: two of metadata, 16 for reclaim


class Whole(Machine):
    """The fake machine with zones that hold as much as they are large, and one run of a level."""

    level = "dm-zap"

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
        self.keep_first_run()
        self.change_runs(run=f"{self.level}--r01", cell=self.level, level=self.level)

    def tools(self, name: str) -> list[str]:
        lines = (self.root / "tools.log").read_text().splitlines()
        return [line.partition(" ")[2] for line in lines if line.startswith(f"{name} ")]


class Buffered(Whole):
    """The same with a run of dm-zoned, and a conventional device of which it takes a slice."""

    level = "dm-zoned"

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        (root / "sys/class/block/nvme0n1/size").write_text(str(2 * CONVENTIONAL // 512))
        with (root / "dev/nvme0n1").open("r+b") as node:
            node.truncate(2 * CONVENTIONAL)
        self.use_conventional()

    @property
    def target(self) -> str:
        """The mapped device's name, which is the run's label."""
        return run_label(self.plan.hosts[0].runs[0])


@pytest.fixture
def buffered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Buffered:
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("ZONELAB_NATIVE", str(tmp_path / "bin"))
    return Buffered(tmp_path)


@pytest.fixture
def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Whole:
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("ZONELAB_NATIVE", str(tmp_path / "bin"))
    return Whole(tmp_path)


@pytest.mark.slow
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
        "create zonelab-zap-nvme0n2 --uuid zonelab-zap-nvme0n2 --table"
        f" 0 {sectors} zap {device} 0 25 125 25 1 10 30",
        "create zonelab-split-nvme0n2 --uuid zonelab-split-nvme0n2 --table"
        f" 0 {sectors * 75 // 100} striped 1 8 {mapped} 0",
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


def test_a_refused_table_fails_with_the_reason_of_the_kernel(whole: Whole) -> None:
    captured = (FIXTURES / "dm-zap-refused.kmsg").read_text().splitlines(keepends=True)
    (whole.root / "refuse-striped").write_text("".join(captured[1:]))
    reason = "device-mapper: table: 253:1: zoned model is not consistent across all devices"
    assert whole.run().returncode == 4
    found = whole.result
    assert found.status is Status.FAILED
    assert found.reason is not None
    quoted = f"dmsetup failed (exit 1): Command failed.; kernel: {reason}"
    assert found.reason.message.startswith(quoted)
    assert found.reason.hint.startswith("dmsetup create zonelab-split-nvme0n2 ")
    assert list((whole.root / "dev/mapper").iterdir()) == []


def test_a_second_bring_up_of_an_unpatched_module_is_refused_before_it(whole: Whole) -> None:
    (whole.root / "sys/kernel/zap").mkdir(parents=True)
    assert whole.run().returncode == 0
    reason = whole.result.reason
    assert whole.result.status is Status.SKIPPED
    assert reason is not None
    assert reason.code == "reboot-needed"
    assert not [line for line in whole.tools("dmsetup") if line.startswith("create")]


def test_too_small_zones_are_skipped(whole: Whole) -> None:
    sysfs = whole.root / "sys/class/block/nvme0n2"
    (sysfs / "queue/chunk_sectors").write_text(str(fakes.ZONE_SIZE // 512))
    whole.change_runs(device=whole.host.device("nvme0n2"))
    assert whole.run().returncode == 0
    reason = whole.result.reason
    assert reason is not None
    assert reason.code == "capacity-below-size"


@pytest.mark.slow
def test_kill_nine_leaves_nothing_mapped_but_asks_before_it_wipes(whole: Whole) -> None:
    """Its mapping is gone with the target, and the device has no zonelab label."""
    whole.kill_in_overwrite()
    done = whole.run()
    assert done.returncode == 3
    assert "removed device-mapper zonelab-split-nvme0n2" in done.stderr
    removed = [line for line in whole.tools("dmsetup") if line.startswith("remove")]
    assert removed == ["remove zonelab-split-nvme0n2", "remove zonelab-zap-nvme0n2"]
    assert whole.run("--erase", consent_in(done.stderr)).returncode == 0
    assert whole.result.status is Status.OK


@pytest.mark.slow
@pytest.mark.parametrize("filesystem", ["ext4", "xfs"])
def test_a_run_of_dm_zoned(buffered: Buffered, filesystem: str) -> None:
    buffered.change_runs(level_options={"filesystem": filesystem})
    done = buffered.run()
    assert done.returncode == 0, done.stderr
    found = buffered.result
    assert found.status is Status.OK
    caveats = {issue.code: issue for issue in found.issues}
    assert caveats["active-limit-ignored"].severity is Severity.WARNING
    assert caveats["active-limit-ignored"].expected == 14
    (made,) = buffered.tools(f"mkfs.{filesystem}")
    assert made.endswith(f"/dev/mapper/{buffered.target}")
    formatted, started = buffered.tools("dmzadm")
    devices = f"{buffered.root}/dev/mapper/zonelab-nvme0n1 {buffered.root}/dev/nvme0n2"
    assert formatted == f"--format {devices} --force --label={buffered.target} --seq=16"
    assert started == f"--start {devices}"
    removed = [line for line in buffered.tools("dmsetup") if line.startswith("remove")]
    assert removed == [f"remove {buffered.target}", "remove zonelab-nvme0n1"]
    assert list((buffered.root / "run").iterdir()) == []
    assert list((buffered.root / "dev/mapper").iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(("reads", "writes"), [(True, False), (False, True)])
def test_direct_io_is_recorded_as_requested_and_as_used(
    buffered: Buffered, *, reads: bool, writes: bool
) -> None:
    flags = {"use_direct_reads": reads, "use_direct_io_for_flush_and_compaction": writes}
    buffered.change_phases(flags={"num": 20000, **flags})
    assert buffered.run().returncode == 0
    direct_io = buffered.result.manifest["level"]["direct_io"]
    assert direct_io["requested"] == {"reads": reads, "writes": writes}
    # The probe's own file was on this machine's file system: what it found is not known here.
    assert direct_io["effective"].keys() == {"reads", "writes"}
    assert direct_io["source"]


@pytest.mark.slow
def test_kill_nine_in_dm_zoned_then_resume(buffered: Buffered) -> None:
    """Its superblocks carry the run's label, so they are wiped without a question."""
    buffered.kill_in_overwrite()
    mapper = buffered.root / "dev/mapper"
    assert {node.name for node in mapper.iterdir()} == {buffered.target, "zonelab-nvme0n1"}
    done = buffered.run()
    assert done.returncode == 0, done.stderr
    messages = [line for line in done.stderr.splitlines() if "device-mapper" in line]
    assert [line.split()[-1] for line in messages] == [buffered.target, "zonelab-nvme0n1"]
    assert f"{buffered.level}--r01 of campaign c was killed there" in done.stderr
    assert buffered.result.status is Status.OK
    assert [path.name for path in buffered.runs.iterdir()] == ["dm-zoned--r01"]
    assert list(mapper.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("node", ["nvme0n1", "nvme0n2"])
def test_a_foreign_dm_zoned_after_a_kill_is_refused(buffered: Buffered, node: str) -> None:
    buffered.kill_in_overwrite()
    with (buffered.root / "dev" / node).open("r+b") as file:
        file.seek(48)
        file.write(b"precious".ljust(32, b"\0"))
    content = (buffered.root / "dev" / node).read_bytes()
    done = buffered.run()
    assert done.returncode == 3
    assert "carries dm-zoned labelled 'precious' that zonelab did not write" in done.stderr
    assert (buffered.root / "dev" / node).read_bytes() == content
