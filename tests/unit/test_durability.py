"""Data that must survive a power cut is synced, in the order that recovery relies on."""

from __future__ import annotations

import dataclasses
import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.drive import precondition
from harness.errors import HostError
from harness.machine.journal import Journal, JournalEntry, JournalEvent
from harness.run import life
from harness.store.collected import collect
from harness.store.files import write_atomic
from harness.store.rundir import RunWriter
from tests.fixtures.claims import TwoDevices


class Disk:
    """Records syncs and renames as ``("sync" | "rename", path)``, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[tuple[str, Path]] = []
        fsync, rename, replace = os.fsync, Path.rename, Path.replace

        def noted_fsync(fd: int) -> None:
            self.steps.append(("sync", Path(f"/proc/self/fd/{fd}").readlink()))
            fsync(fd)

        def noted_rename(path: Path, target: Path) -> Path:
            self.steps.append(("rename", Path(target)))
            return rename(path, target)

        def noted_replace(path: Path, target: Path) -> Path:
            self.steps.append(("rename", Path(target)))
            return replace(path, target)

        monkeypatch.setattr(os, "fsync", noted_fsync)
        monkeypatch.setattr(Path, "rename", noted_rename)
        monkeypatch.setattr(Path, "replace", noted_replace)

    def at(self, step: str, path: Path) -> int:
        """Return the position of a step; ValueError when it is missing."""
        return self.steps.index((step, path))


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def test_a_journal_entry_is_synced_before_append_returns(tmp_path: Path, disk: Disk) -> None:
    path = tmp_path / "journal.jsonl"
    entry = JournalEntry(JournalEvent.CLAIM, "eui.1", "c", "r", "fake", "zl-1", "", None, "t", "b")
    for number in (1, 2):
        disk.steps.clear()
        Journal(path).append(entry)
        assert disk.at("sync", path) < disk.at("sync", tmp_path)
        assert len(Journal(path).entries()) == number


@contextmanager
def a_disk_with_room_for(size: int) -> Iterator[None]:
    """Let files grow to ``size`` bytes only: the kernel then writes a part, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_short_write_of_the_journal_is_an_error_and_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    claim = JournalEntry(JournalEvent.CLAIM, "eui.1", "c", "r", "fake", "zl-1", "", None, "t", "b")
    up = dataclasses.replace(claim, event=JournalEvent.UP)
    Journal(path).append(claim)
    before = path.read_bytes()
    with (
        a_disk_with_room_for(len(before) + 40),
        pytest.raises(HostError, match="only 40 of ") as caught,
    ):
        Journal(path).append(up)
    assert caught.value.code == "disk-full"
    assert path.read_bytes() == before
    assert Journal(path).last("eui.1") == claim
    Journal(path).append(up)
    assert Journal(path).entries() == [claim, up]


def test_a_wipe_is_synced_when_everything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry of the release follows, and states that no signature is left."""
    lab, seen = TwoDevices(tmp_path), list[bytes]()
    node = Path(lab.conventional.path)
    head, tail = b"x" * 4096, b"y" * 4096
    node.write_bytes(head + bytes(lab.conventional.size - 8192) + tail)
    monkeypatch.setattr(os, "fsync", lambda _: seen.append(node.read_bytes().strip(b"\0")))
    lab.host.wipe(lab.conventional)
    assert seen == [b""]


def test_a_forgotten_condition_does_not_come_back(tmp_path: Path, disk: Disk) -> None:
    """A deletion without a sync can be undone by a power cut, and the device is emptied next."""
    device = TwoDevices(tmp_path).conventional
    record = precondition.record_file(tmp_path, device)
    record.parent.mkdir()
    record.write_text("{}")
    precondition.forget(tmp_path, device)
    assert not record.exists()
    assert disk.steps == [("sync", record.parent)]


def test_an_atomic_file_is_synced_before_and_after_its_rename(tmp_path: Path, disk: Disk) -> None:
    path = tmp_path / "plan.json"
    write_atomic(path, "{}")
    synced = disk.at("sync", tmp_path / ".plan.json.new")
    assert synced < disk.at("rename", path) < disk.at("sync", tmp_path)


def test_an_atomic_file_is_whole_when_it_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text that is still in a buffer of the process is not on the disk."""
    sizes: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda fd: sizes.append(os.fstat(fd).st_size))
    write_atomic(tmp_path / "plan.json", "0123456789")
    assert sizes[0] == 10


def test_a_file_that_need_not_last_is_not_synced(tmp_path: Path, disk: Disk) -> None:
    path = tmp_path / "progress.json"
    write_atomic(path, "{}", durable=False)
    assert disk.steps == [("rename", path)]


def test_every_file_of_a_run_is_synced_before_the_run_gets_its_name(
    tmp_path: Path, disk: Disk
) -> None:
    writer = RunWriter(tmp_path, "f2fs--r01")
    writer.write("result.json", {"schema_version": 1})
    writer.write("raw/overwrite.stdout", "x" * 9000)
    writer.write("series/level.csv", "t\n")
    final = writer.commit()
    renamed = disk.at("rename", final)
    before = {path for step, path in disk.steps[:renamed] if step == "sync"}
    for file in final.rglob("*"):
        assert writer.path / file.relative_to(final) in before, file
    assert writer.path in before
    assert ("sync", tmp_path) in disk.steps[renamed:]


def test_every_file_of_a_collected_run_is_synced_before_the_run_gets_its_name(
    tmp_path: Path, disk: Disk
) -> None:
    writer = RunWriter(tmp_path / "host", "f2fs--r01")
    writer.write("result.json", {"schema_version": 1})
    writer.write("raw/overwrite.stdout", "x" * 9000)
    writer.commit()
    disk.steps.clear()
    assert collect(tmp_path / "host", tmp_path / "c").new == ["f2fs--r01"]
    final = tmp_path / "c/runs/f2fs--r01"
    renamed = disk.at("rename", final)
    before = [path for step, path in disk.steps[:renamed] if step == "sync"]
    staged = before[-1]  # the run itself
    assert staged.name == final.name
    assert {file.relative_to(final) for file in final.rglob("*")} == {
        path.relative_to(staged) for path in before[:-1]
    }
    assert ("sync", final.parent) in disk.steps[renamed:]


def test_a_disk_that_is_full_before_a_level_comes_up_ends_the_campaign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(life, "recording", full)
    run: Any = object.__new__(life.Life)
    run._spec = SimpleNamespace(campaign="c")
    run._claim, run._writer = SimpleNamespace(devices=()), SimpleNamespace(path=tmp_path)
    run._context = SimpleNamespace(host=None, paths=SimpleNamespace(campaign=tmp_path.joinpath))
    with pytest.raises(HostError) as caught:
        run._claimed()
    assert caught.value.code == "disk-full"
