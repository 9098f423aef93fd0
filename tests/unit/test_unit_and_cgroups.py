"""The systemd unit's command line, and CPU accounting (both on fakes)."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness.errors import HostError
from harness.machine.cgroups import cgroups
from harness.machine.lock import exclusive
from harness.machine.paths import Paths
from harness.run import service
from harness.run.progress import load
from harness.tools import proc


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    calls: list[list[str]] = []

    def run(argv: list[str], **_: object) -> proc.Completed:
        calls.append(argv)
        return proc.completed(tuple(argv), 0, "", "")

    monkeypatch.setattr(proc, "run", run)
    return calls


def test_detach_restarts_the_command_without_the_flag(
    tmp_path: Path, started: list[list[str]]
) -> None:
    paths = Paths(tmp_path / "state", tmp_path / "run")
    line = service.detach(["run", "--plan", "p.json", "--detach", "--host", "h"], paths, "c")
    assert line.startswith("started zonelab-run.service")
    argv = started[-1]
    assert argv[0] == "systemd-run"
    assert "--property=Delegate=yes" in argv
    own = argv[argv.index("--") + 1 :]
    assert own[-5:] == ["run", "--plan", "p.json", "--host", "h"]
    assert own[: len(service.self_command())] == service.self_command()
    post = next(arg for arg in argv if arg.startswith("--property=ExecStopPost="))
    assert post.endswith(f'"status" "--settle" "{paths.campaign("c")}"')
    assert load(paths.progress("c")).state == "running"  # a poller never sees an older end


def test_every_user_can_read_the_progress_of_a_start(
    tmp_path: Path, started: list[list[str]]
) -> None:
    paths = Paths(tmp_path / "state", tmp_path / "run")
    before = os.umask(0o077)
    try:
        service.detach(["run"], paths, "c")
    finally:
        os.umask(before)
    assert started
    assert paths.progress("c").stat().st_mode & 0o777 == 0o644


def test_detach_while_one_is_running(tmp_path: Path, started: list[list[str]]) -> None:
    paths = Paths(tmp_path / "state", tmp_path / "run")
    with exclusive(paths.lock, "campaign c"):
        assert service.detach(["run"], paths, "c").startswith("already running: campaign c")
    assert started == []


def test_detach_while_another_campaign_is_running(tmp_path: Path, started: list[list[str]]) -> None:
    """Nothing would ever write the progress of a campaign that does not run."""
    paths = Paths(tmp_path / "state", tmp_path / "run")
    with (
        exclusive(paths.lock, "campaign c2"),
        pytest.raises(HostError, match="another run is under way: campaign c2"),
    ):
        service.detach(["run"], paths, "c")
    assert started == []


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["before the look", "after the look", ""])
def test_detach_while_an_earlier_unit_is_on_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    """The unit is about to take the lock (then follow it), or to end (then start a new one)."""
    paths = Paths(tmp_path / "state", tmp_path / "run")
    held = ExitStack()
    tries: list[str] = []

    def run(argv: list[str], **_: object) -> proc.Completed:
        if argv[0] == "systemd-run":
            tries.append(argv[0])
            failed = len(tries) == 1
            return proc.completed(tuple(argv), int(failed), "", "was already loaded")
        if argv[1] == "is-active" and not ends:
            held.enter_context(exclusive(paths.lock, "campaign c"))
        state = "inactive" if ends == "before the look" else "active"
        return proc.completed(tuple(argv), 0, f"{state}\n", "")

    monkeypatch.setattr(proc, "run", run)
    with held:
        line = service.detach(["run"], paths, "c")
    assert line.startswith("started" if ends else "already running: campaign c")
    assert len(tries) == (2 if ends else 1)
    assert load(paths.progress("c")).state == "running"


@pytest.mark.slow
def test_detach_without_systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = proc.completed(("systemd-run",), 1, "", "System has not been booted with systemd")
    monkeypatch.setattr(proc, "run", lambda *_, **__: failed)
    paths = Paths(tmp_path / "state", tmp_path / "run")
    with pytest.raises(HostError, match="has not been booted"):
        service.detach(["run"], paths, "c")
    assert load(paths.progress("c")).state == "failed"


def test_cpu_is_accounted_by_cgroup(tmp_path: Path) -> None:
    own = tmp_path / "system.slice" / "zonelab-run.service"
    own.mkdir(parents=True)
    with cgroups(tmp_path, "0::/system.slice/zonelab-run.service\n") as groups:
        assert (own / "harness" / "cgroup.procs").read_text() == str(os.getpid())
        (own / "load" / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n")
        assert groups.load_seconds() == 2.5
        assert groups.harness_seconds() is None  # no cpu.stat: null, never 0
        groups.enter_load(4711)
        assert (own / "load" / "cgroup.procs").read_text() == "4711"
    assert (own / "cgroup.procs").read_text() == str(os.getpid())


def test_memory_and_io_are_counted_per_group_while_it_lasts(tmp_path: Path) -> None:
    """A group with controllers must not hold processes: remove them before the runner returns."""
    own = tmp_path / "unit"
    own.mkdir()
    with cgroups(tmp_path, "0::/unit\n") as groups:
        assert groups.load == own / "load"
        assert (own / "cgroup.subtree_control").read_text() == "+io"  # the last one written
    assert (own / "cgroup.subtree_control").read_text() == "-io"


def test_memory_of_the_load_is_limited_and_given_back(tmp_path: Path) -> None:
    (tmp_path / "unit").mkdir()
    with cgroups(tmp_path, "0::/unit\n") as groups:
        assert groups.load is not None
        files = [groups.load / name for name in ("memory.max", "memory.swap.max")]
        for file in files:
            file.write_text("")
        groups.limit_memory(256 << 20)
        assert [file.read_text() for file in files] == ["268435456", "0"]
        for file in files:  # the kernel's do not keep what was longer
            file.write_text("")
        groups.limit_memory(None)
        assert [file.read_text() for file in files] == ["max", "max"]


@pytest.mark.parametrize("membership", ["", "0::/unit\n"], ids=["no cgroups", "no controller"])
def test_a_limit_that_cannot_be_set_is_reported(tmp_path: Path, membership: str) -> None:
    (tmp_path / "unit").mkdir()
    with cgroups(tmp_path, membership) as groups:
        groups.limit_memory(None)
        with pytest.raises(HostError, match="memory_limit cannot be set") as caught:
            groups.limit_memory(1 << 30)
        assert caught.value.code == "memory-limit"
        assert groups.load is None or not (groups.load / "memory.max").exists()


@pytest.mark.parametrize("membership", ["", "0::/absent\n", "1:cpu:/v1\n"])
def test_without_cgroups_nothing_is_measured(tmp_path: Path, membership: str) -> None:
    with cgroups(tmp_path, membership) as groups:
        assert groups.load is None
        assert groups.load_seconds() is None
        groups.enter_load(1)
