"""Journal, lock, run directories and progress, also after a crash."""

from __future__ import annotations

import errno
import fcntl
import json
import math
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
from harness.store.files import descriptor, dumps, read_json, write_atomic
from harness.store.rundir import RunWriter, attempts, split_attempt
from tests.fixtures.campaigns import write_campaign


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
        path.write_text(json.dumps(record | {"since": record["since"] - 7200}))
        assert f"on {os.uname().nodename} for 2 h 0 min: " in holder(path)
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


def test_the_lock_names_its_last_holder_only(tmp_path: Path) -> None:
    path = tmp_path / "lock" / "machine"
    with exclusive(path, "campaign " + "x" * 1000):
        pass
    with exclusive(path, "campaign c"):
        assert holder(path).startswith("campaign c (pid ")


def test_a_holder_that_is_not_recorded_yet_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "lock" / "machine"
    with exclusive(path, "campaign c"):
        path.write_text("")
        assert holder(path) == ""
        with (
            pytest.raises(HostError, match="another run is under way: unknown"),
            exclusive(path, "campaign d"),
        ):
            pass


def test_a_path_that_cannot_be_a_lock_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    tmp_path.chmod(0o700)
    for path in (tmp_path / "file" / "machine", tmp_path / "link"):
        with pytest.raises(HostError) as caught, exclusive(path, "campaign c"):
            pass
        assert caught.value.hint == "run as root"
    assert (tmp_path / "file").read_text() == "kept"


def test_a_lock_that_only_root_can_see_counts_as_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", denied)
    assert is_held(tmp_path / "machine")


def test_questions_and_refusals_leave_no_open_file(tmp_path: Path) -> None:
    def open_files() -> set[str]:
        return {path.name for path in Path("/proc/self/fd").iterdir()}

    path = tmp_path / "lock" / "machine"
    with exclusive(path, "campaign c"):
        before = open_files()
        assert is_held(path)
        path.chmod(0o644)
        with pytest.raises(HostError), exclusive(path, "campaign d"):
            pass
        assert open_files() == before


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
    assert read_columns(final / "series/long.csv") == (["t", "n"], [[1.0] * 1000, [2.0] * 1000])
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


@pytest.mark.parametrize(
    ("code", "error"),
    [(errno.ENOSPC, HostError), (errno.EDQUOT, HostError), (errno.EIO, OSError)],
)
def test_only_a_full_disk_is_reported_as_one(
    tmp_path: Path, code: int, error: type[Exception]
) -> None:
    with pytest.raises(error), rundir.full_disk_is_clear(tmp_path):
        raise OSError(code, os.strerror(code))


def test_a_run_begins_without_the_files_of_a_killed_one(tmp_path: Path) -> None:
    RunWriter(tmp_path, "x--r01").write("raw/old", "text")
    writer = RunWriter(tmp_path, "x--r01")
    writer.write("raw/new", b"\xff\n")
    assert [path.name for path in (writer.commit() / "raw").iterdir()] == ["new"]
    assert (writer.final / "raw/new").read_bytes() == b"\xff\n"


def test_a_file_of_another_program_is_packed_if_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "LOG").write_text("printed\n")
    writer = RunWriter(tmp_path / "runs", "x--r01")
    writer.pack(tmp_path / "LOG", "raw/LOG.xz")
    writer.pack(tmp_path / "none", "raw/none.xz")
    assert packed.text(writer.path / "raw/LOG") == "printed\n"
    assert [path.name for path in (writer.path / "raw").iterdir()] == ["LOG.xz"]

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(packed, "copy", full)
    with pytest.raises(HostError, match="no space left"):
        writer.pack(tmp_path / "LOG", "raw/LOG2.xz")


def test_only_folders_without_a_dot_are_runs(tmp_path: Path) -> None:
    (tmp_path / "x--r01").mkdir()
    (tmp_path / ".x--r02.partial").mkdir()
    (tmp_path / "x--r03").write_text("")
    assert rundir.completed(tmp_path) == [tmp_path / "x--r01"]
    assert rundir.completed(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("name", "parts"), [("x--r01", ("x--r01", 1)), ("x--r01.a2", ("x--r01", 2))]
)
def test_the_name_of_an_attempt(name: str, parts: tuple[str, int]) -> None:
    assert split_attempt(name) == parts
    assert rundir.attempt_name(*parts) == name


def _edited(path: Path, **values: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))
    checksums.write(path.parent)


def test_a_run_directory_is_checked_for_names_and_files(tmp_path: Path) -> None:
    write_campaign(tmp_path / "c", levels=("zlfs",), repetitions=2, series=False)
    runs = tmp_path / "c/hosts/rig/runs"
    first, second = rundir.completed(runs)
    for phase in rundir.load_result(first).phases:
        for name in filter(None, (phase.stdout, phase.stderr, phase.histogram)):
            (first / name).parent.mkdir(exist_ok=True)
            (first / name).write_text("x")
    checksums.write(first)
    assert rundir.problems(first) == []
    missing = [line for line in rundir.problems(second) if line.endswith("but missing")]
    named = [p.stdout for p in rundir.load_result(second).phases if p.stdout]
    assert named
    assert {f"{name}: named in result.json but missing" for name in named} <= set(missing)

    moved = first.rename(runs / "zlfs--r03")
    wrong = "result.json belongs to run 'zlfs--r01', run.json to 'zlfs--r01'"
    assert rundir.problems(moved) == [wrong]
    first = moved.rename(first)
    _edited(first / "run.json", attempt=2)
    assert rundir.problems(first) == [wrong]


def test_a_damaged_record_is_corrupt_and_one_of_another_version_is_not(tmp_path: Path) -> None:
    write_campaign(tmp_path / "c", levels=("zlfs",), repetitions=1, series=False)
    (run,) = rundir.completed(tmp_path / "c/hosts/rig/runs")
    _edited(run / "result.json", schema_version=999)
    with pytest.raises(ConfigError) as version:
        rundir.load_result(run)
    assert version.value.code == "schema-version"
    assert len(rundir.problems(run)) == 1
    (run / "result.json").write_text("{")
    with pytest.raises(RunFailed) as caught:
        rundir.load_result(run)
    assert caught.value.code == rundir.CORRUPT
    (run / "result.json").unlink()
    with pytest.raises(RunFailed, match="does not exist"):
        rundir.load_result(run)
    os.mkfifo(run / "result.json")  # opening it would block
    with pytest.raises(RunFailed, match="is not a regular file"):
        rundir.load_result(run)


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


def test_a_disk_without_room_for_a_name_is_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(OSError, match="No space"):
        write_atomic(tmp_path / "file", "new")


def test_a_descriptor_is_closed_and_only_the_owner_writes_its_file(tmp_path: Path) -> None:
    with descriptor(tmp_path / "file", os.O_RDWR | os.O_CREAT) as fd:
        assert stat.S_IMODE(os.fstat(fd).st_mode) in (0o644, 0o640, 0o600)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_a_record_never_holds_a_number_that_is_no_json(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(dumps({"value": 1.5}))
    assert read_json(path) == {"value": 1.5}
    for value in (math.nan, math.inf):
        with pytest.raises(ValueError, match="not JSON compliant"):
            dumps({"value": value})


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff{}")
    (tmp_path / "cut").write_text('{"a": ')
    (tmp_path / "deep").write_text("[" * 100_000)
    codes = {}
    for name in ("none", ".", "binary", "cut", "deep"):
        with pytest.raises(ConfigError) as caught:
            read_json(tmp_path / name)
        codes[name] = caught.value.code
    assert codes == {
        "none": "file-missing",
        ".": "file-unreadable",
        "binary": "not-json",
        "cut": "not-json",
        "deep": "not-json",
    }


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
