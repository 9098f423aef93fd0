"""Cleaning up after a killed runner: everything of zonelab goes, in order, and nothing else."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.machine.journal import Journal, JournalEntry, JournalEvent
from harness.machine.paths import Paths
from harness.run.recover import mounts_below, recover
from harness.tools import dmsetup, mount
from tests.runner.fakes import FakeHost, make_machine, write_tree


@dataclass
class Killed:
    """A machine, and the programs that the recovery starts."""

    host: FakeHost
    paths: Paths
    steps: list[str] = field(default_factory=list)

    def mounted(self, *targets: str) -> None:
        lines = [f"{n} 1 259:1 / {target} rw - f2fs /dev/x rw" for n, target in enumerate(targets)]
        (self.host.proc / "self/mountinfo").write_text("\n".join(lines))


@pytest.fixture
def killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Killed:
    make_machine(tmp_path)
    machine = Killed(FakeHost(tmp_path), Paths(tmp_path / "state", tmp_path / "run"))
    monkeypatch.setattr(mount, "umount", lambda target: machine.steps.append(f"umount {target}"))
    monkeypatch.setattr(dmsetup, "remove", lambda name: machine.steps.append(f"remove {name}"))
    return machine


def test_nothing_is_left_to_do_on_a_machine_without_traces(killed: Killed) -> None:
    assert recover(killed.host, killed.paths) == []


def test_only_mounts_of_runs_in_the_runtime_folder_are_unmounted(killed: Killed) -> None:
    run = killed.paths.runtime
    inner = [f"{run}/x--r01/mnt", f"{run}/x--r01/mnt/deep", rf"{run}/a\040b--r01.a2.one/mnt"]
    killed.mounted("/", f"{run}", f"{run}-other/mnt", *inner, f"{run}/theirs", "/srv")
    with (killed.host.proc / "self/mountinfo").open("a") as file:
        file.write(f"\n7 1 259:1 /\n8 1 259:1 / {run}/x--r02/short")  # cut off
    expected = [Path(one.replace(r"\040", " ")) for one in [*inner, f"{run}/x--r02/short"]]
    assert mounts_below(killed.host, run) == expected
    done = recover(killed.host, killed.paths)
    assert killed.steps == [f"umount {target}" for target in reversed(expected)]
    assert done == [f"unmounted {target}" for target in reversed(expected)]


def test_mappings_are_removed_after_the_unmounting_and_upper_ones_first(killed: Killed) -> None:
    host, run = killed.host, killed.paths.runtime
    names = {"dm-0": "zonelab-low", "dm-1": "zonelab-top", "dm-2": "zl-run", "dm-3": "zl-other"}
    uuids = {"dm-0": "zonelab-low", "dm-1": "zonelab-top", "dm-2": "dmz-1", "dm-3": "dmz-2"}
    for node, name in names.items():
        write_tree(host.sysfs.block(node), {"dm/name": name, "dm/uuid": uuids[node]})
    write_tree(host.sysfs.block("dm-4"), {"dm/name": "zonelab-theirs", "dm/uuid": "LVM-1"})
    (host.sysfs.block("dm-0") / "holders/dm-1").mkdir(parents=True)
    Journal(killed.paths.journal).append(
        JournalEntry(JournalEvent.UP, "eui.1", "c", "r", "dm-zap", "zl-run", "", None, "t", "b")
    )
    killed.mounted(f"{run}/x--r01/mnt")
    recover(host, killed.paths)
    assert killed.steps[0] == f"umount {run}/x--r01/mnt"
    assert sorted(killed.steps[1:]) == ["remove zl-run", "remove zonelab-low", "remove zonelab-top"]
    assert killed.steps.index("remove zonelab-top") < killed.steps.index("remove zonelab-low")


def test_a_failed_unmounting_removes_nothing(
    killed: Killed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files below would be those of the database, on the device."""
    mnt = killed.paths.runtime / "x--r01/aux/mnt"
    mnt.mkdir(parents=True)
    killed.mounted(str(mnt))

    def busy(target: Path) -> None:
        raise OSError(f"{target} is busy")

    monkeypatch.setattr(mount, "umount", busy)
    with pytest.raises(OSError, match="is busy"):
        recover(killed.host, killed.paths)
    assert mnt.is_dir()


def test_files_of_a_killed_runner_are_removed_and_no_others(killed: Killed) -> None:
    run, runs = killed.paths.runtime, killed.paths.runs("c")
    files = {
        "x--r01/aux/zenfs.lock": "",
        "y--r01/mnt/results": "of the user",
        "x--r01.tenant.go": "",
        "main.go": "of the user",
        "theirs/aux/notes": "of the user",
        "hung.json": "{}",
    }
    folders = ("x--r01/aux", "x--r01/mnt/deep/empty", "y--r01/mnt", "z--r01", "empty", "theirs/aux")
    for name in folders:
        (run / name).mkdir(parents=True)
    write_tree(run, files)
    outside = killed.host.root / "outside"
    outside.mkdir()
    (run / "z--r01/link").symlink_to(outside)
    for name in (".x--r02.partial", "x--r01"):
        (runs / name / "raw").mkdir(parents=True)
    saved = {"boot_id": killed.host.boot_id(), "schedulers": {"nvme0n2": "mq-deadline"}}
    killed.paths.schedulers.write_text(json.dumps(saved))
    assert recover(killed.host, killed.paths) == [
        "restored schedulers",
        "removed half-written x--r02",
    ]
    left = sorted(str(path.relative_to(run)) for path in run.rglob("*"))
    kept = ["empty", "hung.json", "main.go", "theirs", "theirs/aux", "theirs/aux/notes", "y--r01"]
    kept += ["y--r01/mnt", "y--r01/mnt/results", "z--r01", "z--r01/link"]
    assert left == kept
    assert outside.is_dir()
    assert [path.name for path in runs.iterdir()] == ["x--r01"]
    assert killed.host.sysfs.schedulers("nvme0n2")[0] == "mq-deadline"
    assert recover(killed.host, killed.paths) == []
