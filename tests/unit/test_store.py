"""Journal, lock, run directories and progress, also after a crash."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import stat
from functools import partial
from pathlib import Path

import pytest

from analysis.read.series import read_columns
from harness.errors import ConfigError, HostError, RunFailed
from harness.machine.journal import Journal, JournalEntry, JournalEvent
from harness.machine.lock import exclusive, holder, is_held
from harness.machine.paths import Paths
from harness.run.progress import ProgressPublisher, announcement, human_seconds, load, write
from harness.store import checksums, packed, rundir
from harness.store.files import write_atomic
from harness.store.rundir import RunWriter, attempts, split_attempt


def entry(event: JournalEvent, identity: str = "eui.1") -> JournalEntry:
    return JournalEntry(event, identity, "c", "r", "l", "zl", "", None, "t", "b")


def test_journal_last_entry_of_a_device(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "state" / "journal.jsonl")
    assert journal.last("eui.1") is None
    journal.append(entry(JournalEvent.CLAIM))
    journal.append(entry(JournalEvent.CLAIM, "eui.2"))
    journal.append(entry(JournalEvent.RELEASE))
    assert journal.last("eui.1") == entry(JournalEvent.RELEASE)
    assert journal.last("eui.2") == entry(JournalEvent.CLAIM, "eui.2")


def test_journal_ignores_and_repairs_a_torn_append(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    journal.append(entry(JournalEvent.CLAIM))
    with path.open("a") as file:
        file.write('{"event": "rele')
    assert journal.last("eui.1") == entry(JournalEvent.CLAIM)
    journal.append(entry(JournalEvent.UP))
    assert [found.event for found in journal.entries()] == [JournalEvent.CLAIM, JournalEvent.UP]


def test_damaged_journal_is_no_proof(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text("nonsense\n")
    with pytest.raises(HostError, match="is damaged") as caught:
        Journal(path).last("eui.1")
    assert caught.value.code == "journal-damaged"


def test_lock_names_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock" / "machine"
    assert not is_held(path)
    with exclusive(path, "campaign c"):
        assert is_held(path)
        with (
            pytest.raises(HostError) as caught,
            exclusive(path, "campaign d"),
        ):
            pass
        assert re.fullmatch(
            rf"another run is under way: campaign c \(pid {os.getpid()} on {os.uname().nodename} "
            r"for 0 h 0 min: .*python.*\)",
            caught.value.message,
        )
        record = json.loads(path.read_text())
        path.write_text(json.dumps(record | {"since": record["since"] - 7500}))
        assert f"on {os.uname().nodename} for 2 h 5 min: " in holder(path)
    assert not is_held(path)


def test_a_reader_cannot_hold_the_lock(tmp_path: Path) -> None:
    """Neither through the file's mode, nor by asking who holds it."""
    path = tmp_path / "lock" / "machine"
    with exclusive(path, "campaign c"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    with path.open("rb") as reader:
        fcntl.flock(reader, fcntl.LOCK_SH)
        assert not is_held(path)
        with exclusive(path, "campaign d"):
            assert is_held(path)
    for shared, mode in ((path, 0o604), (path, 0o640), (path.parent, 0o755)):
        old = stat.S_IMODE(shared.stat().st_mode)
        shared.chmod(mode)
        with pytest.raises(HostError) as caught, exclusive(path, "campaign e"):
            pass
        assert caught.value.code == "lock-open"
        shared.chmod(old)


def test_a_lock_of_another_user_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lock" / "machine"
    with exclusive(path, "campaign c"):
        pass
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    with pytest.raises(HostError) as caught, exclusive(path, "campaign d"):
        pass
    assert caught.value.code == "lock-open"


def test_the_lock_is_the_machines(tmp_path: Path) -> None:
    folders = [Paths(tmp_path / "a", tmp_path / "r"), Paths(tmp_path / "b", tmp_path / "s")]
    assert len({one.lock for one in folders}) == 1


def test_run_directory_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path, "x--r01")
    writer.write("raw/text", "hello")
    assert rundir.completed(tmp_path) == []
    final = writer.commit()
    assert rundir.completed(tmp_path) == [final]
    with pytest.raises(RunFailed, match="exists already and is never overwritten"):
        RunWriter(tmp_path, "x--r01")


def test_large_raw_files_are_packed_under_the_checksums(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path, "x--r01")
    writer.write("raw/printed", "hello\n" * 1000)
    writer.write("series/long.csv", "t,n\n" + "1.0,2\n" * 1000)
    final = writer.commit()
    assert packed.text(final / "raw/printed") == "hello\n" * 1000
    assert read_columns(final / "series/long.csv") == (["t", "n"], [[1.0, 2.0]] * 1000)
    sums = (final / "SHA256SUMS").read_text().splitlines()
    assert [line.split()[1] for line in sums] == ["raw/printed.xz", "series/long.csv.xz"]
    assert checksums.problems(final) == []


@pytest.mark.parametrize("place", ["write", "commit"])
def test_full_disk_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    writer = RunWriter(tmp_path, "x--r01")
    if place == "write":
        monkeypatch.setattr(Path, "write_text", full)
        with pytest.raises(HostError, match="no space left") as caught:
            writer.write("raw/text", "hello")
        writer.discard()
    else:
        monkeypatch.setattr("harness.store.checksums.write", full)
        with pytest.raises(HostError, match="no space left") as caught:
            writer.commit()
    assert caught.value.code == "disk-full"
    assert caught.value.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_attempts_in_order(tmp_path: Path) -> None:
    for name in ("x--r01", "x--r01.a10", "x--r01.a2", "x--r011", ".x--r01.a3.partial"):
        (tmp_path / name).mkdir()
    found = [path.name for path in attempts(tmp_path, "x--r01")]
    assert found == ["x--r01", "x--r01.a2", "x--r01.a10"]
    with pytest.raises(ConfigError, match="is not a run name"):
        split_attempt("lost+found")


def test_partials_are_removed(tmp_path: Path) -> None:
    RunWriter(tmp_path, "x--r01")
    assert rundir.remove_partials(tmp_path) == ["x--r01"]
    assert list(tmp_path.iterdir()) == []


def test_atomic_write_keeps_the_old_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomic(path, "old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_eta_follows_what_runs_really_took(tmp_path: Path) -> None:
    from tests.runner.conftest import Machine  # noqa: PLC0415 - builds a plan

    runs = Machine(tmp_path).plan.hosts[0].runs  # two runs, 10 s predicted each
    now = [0.0]
    path = tmp_path / "progress.json"
    progress = ProgressPublisher(partial(write, path), "c", ["ok"], runs, clock=lambda: now[0])
    assert progress.eta() == 20
    progress.begin(runs[0])
    now[0] = 4.0
    assert progress.eta() == 16
    now[0] = 30.0
    progress.end("ok")
    assert progress.eta() == 30
    record = load(path)
    assert (record.runs_total, record.runs_done, record.state) == (3, 2, "running")
    assert record.line == "c: running, 2/3 runs (2 ok), about 30s left"
    write(path, announcement(path, "c", "failed", "no space"))
    assert load(path).line == "c: failed, 2/3 runs: no space"


def test_eta_follows_a_phase_that_is_slower_than_predicted(tmp_path: Path) -> None:
    from tests.runner.conftest import Machine  # noqa: PLC0415 - builds a plan

    runs = Machine(tmp_path).plan.hosts[0].runs  # two runs, 10 s predicted each
    now = [0.0]
    path = tmp_path / "progress.json"
    progress = ProgressPublisher(partial(write, path), "c", [], runs, clock=lambda: now[0])
    progress.begin(runs[0])
    now[0] = 3.0
    progress.phase("overwrite")
    assert progress.eta() == 7 + 10
    now[0] = 8.0
    progress.tick(lambda: 0.04, force=True)  # too early to tell
    assert progress.eta() == 2 + 10
    progress.tick(lambda: 0.25, force=True)  # 5 s for a quarter
    assert progress.eta() == 15 + 10
    assert load(path).eta_seconds == 25
    now[0] = 23.0
    progress.tick(lambda: 0.5, force=True)
    assert progress.eta() == 20 + 10  # where it once stood still at the other run's 10 s
    progress.tick(lambda: 0.9, force=True)
    now[0] = 50.0
    progress.phase("readrandom")  # nothing is known of it yet
    assert progress.eta() == 10


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59.9, "59s"), (95, "1m35s"), (3700, "1h01m"), (-3, "0s")]
)
def test_human_seconds(seconds: float, text: str) -> None:
    assert human_seconds(seconds) == text
