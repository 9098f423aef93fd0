"""The first error is never replaced by one of the clean-up, at each place that cleans up."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness import cleanup
from harness.errors import GuardRefused, Hung, Interrupted, ToolFailed
from harness.levels.btrfs import Btrfs
from harness.levels.level import Level, LevelContext
from harness.levels.raw_device import RawDevice
from harness.levels.zlfs import Zlfs
from harness.machine import claim
from harness.machine.paths import Paths
from harness.machine.schedulers import schedulers
from harness.machine.signals import Stop
from harness.run import execute, kept_tracer, load_process, slices, together, tracing
from harness.run.measure import Measurement
from harness.run.window import MeasurementWindow
from harness.store.spec import Extent
from harness.tools import dmsetup, native, proc, zone_reset
from tests.fixtures.claims import Lab
from tests.runner.conftest import Machine
from tests.runner.fakes import FakeHost, FakeLevel, write_tree

HANG = Hung("sync hangs", stacks="", pid=1, start=1)


def fail(*_: object, **__: object) -> None:
    raise OSError("an error of the clean-up")


def messages(error: BaseException) -> list[str]:
    return [str(later) for later in cleanup.later(error)]


# --- the rule itself ------------------------------------------------------------------------------


def test_the_first_error_carries_the_later_ones_in_order() -> None:
    with (
        pytest.raises(ToolFailed, match="the first error") as caught,
        cleanup.cleaned(fail),
        cleanup.cleaned(lambda: cleanup.after(ToolFailed("unrelated"), fail)),
        cleanup.cleaned(lambda: 1 / 0),
    ):
        raise ToolFailed("the first error")
    assert messages(caught.value) == ["division by zero", "an error of the clean-up"]


def test_without_a_first_error_that_of_the_clean_up_is_raised() -> None:
    with pytest.raises(OSError, match="of the clean-up") as caught, cleanup.cleaned(fail):
        pass
    assert cleanup.later(caught.value) == ()


def test_the_clean_up_runs_also_for_errors_that_are_none_of_ours() -> None:
    ran = []
    with pytest.raises(KeyboardInterrupt), cleanup.cleaned(lambda: ran.append(1)):
        raise KeyboardInterrupt
    assert ran == [1]


@pytest.mark.parametrize("as_later", [False, True])
def test_after_a_hang_nothing_touches_a_device(*, as_later: bool) -> None:
    first: Exception = ToolFailed("first") if as_later else HANG
    if as_later:
        cleanup.add(first, HANG)
    ran: list[str] = []
    with (
        pytest.raises(type(first)),
        cleanup.cleaned(lambda: ran.append("device")),
        cleanup.cleaned(lambda: ran.append("file"), uses_device=False),
    ):
        raise first
    assert ran == ["file"]
    assert cleanup.hung(first) is HANG


def test_a_stop_by_the_user_passes() -> None:
    def stopped() -> None:
        raise Interrupted("stop")

    with pytest.raises(Interrupted), cleanup.cleaned(stopped):
        raise ToolFailed("first")
    assert isinstance(cleanup.first_of(ToolFailed("first"), Interrupted("stop")), Interrupted)


def test_of_two_errors_the_first_is_raised_with_the_other() -> None:
    first, other = ToolFailed("first"), ToolFailed("other")
    assert cleanup.first_of(None, other) is other
    assert cleanup.first_of(first, other) is first
    assert cleanup.later(first) == (other,)


def test_an_interrupt_from_the_terminal_does_not_reach_a_program_of_the_clean_up() -> None:
    """A terminal sends SIGINT to the process group of the runner."""

    def group() -> int:
        return int(proc.run([sys.executable, "-c", "import os; print(os.getpgrp())"]).stdout)

    stop = Stop()
    assert group() == os.getpgrp()
    with stop.deferred(), stop.deferred():
        assert group() != os.getpgrp()
    with pytest.raises(ToolFailed), stop.deferred():
        raise ToolFailed("first")
    assert group() == os.getpgrp()


@pytest.mark.parametrize("before", [signal.SIG_IGN, signal.SIG_DFL], ids=str)
def test_nohup_keeps_its_effect(before: signal.Handlers) -> None:
    own = signal.signal(signal.SIGHUP, before)
    stop, stopped = Stop(), False
    try:
        with stop.installed():
            signal.raise_signal(signal.SIGHUP)
    except Interrupted:
        stopped = True
    finally:
        left = signal.signal(signal.SIGHUP, own)
    assert stopped is stop.requested is (before is signal.SIG_DFL)
    assert left is before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_counts_once_and_never_in_the_clean_up(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    stop = Stop()
    with stop.installed():
        with stop.deferred():
            with stop.deferred():
                signal.raise_signal(number)
            signal.raise_signal(number)
        signal.raise_signal(number)  # a second one waits like the first
        with pytest.raises(Interrupted):
            stop.check()
    assert signal.getsignal(number) is before
    other = Stop()
    other.check()
    with other.installed(), pytest.raises(Interrupted):
        signal.raise_signal(number)


def test_schedulers_of_other_devices_are_restored_when_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine, paths = Machine(tmp_path), Paths(tmp_path, tmp_path / "run")
    host = machine.host
    write = type(host.sysfs).write

    def gone(sysfs: Any, name: str, attribute: str, text: str) -> None:
        if name == "nvme0n1" and (tmp_path / "gone").exists():
            raise OSError(errno.ENODEV, "No such device")
        write(sysfs, name, attribute, text)

    monkeypatch.setattr(type(host.sysfs), "write", gone)
    devices = [host.device("nvme0n1"), host.device("nvme0n2")]
    with schedulers(host, paths, Stop(), devices, "mq-deadline"):
        assert [host.sysfs.schedulers(f"nvme0n{n}")[0] for n in (1, 2)] == ["mq-deadline"] * 2
        (tmp_path / "gone").touch()
    assert host.sysfs.schedulers("nvme0n2")[0] == "none"
    assert not paths.schedulers.exists()


def active(host: FakeHost) -> list[str]:
    """Return the schedulers of both devices."""
    return [host.sysfs.schedulers(f"nvme0n{n}")[0] for n in (1, 2)]


@pytest.mark.parametrize("wanted", ["", "mq-deadline"])
def test_nothing_is_saved_if_no_scheduler_has_to_change(tmp_path: Path, wanted: str) -> None:
    host, paths = Machine(tmp_path).host, Paths(tmp_path, tmp_path / "run")
    devices = [host.device("nvme0n1"), host.device("nvme0n2")]
    before = [wanted or "none"] * 2
    for n in (1, 2):
        host.sysfs.set_scheduler(f"nvme0n{n}", before[0])
    with schedulers(host, paths, Stop(), devices, wanted):
        assert active(host) == before
        assert not paths.schedulers.exists()
    assert active(host) == before


def test_each_device_gets_its_own_scheduler_back(tmp_path: Path) -> None:
    host, paths = Machine(tmp_path).host, Paths(tmp_path, tmp_path / "run")
    devices = [host.device("nvme0n1"), host.device("nvme0n2")]
    host.sysfs.set_scheduler("nvme0n1", "mq-deadline")
    with schedulers(host, paths, Stop(), devices, "mq-deadline"):
        assert active(host) == ["mq-deadline"] * 2
    assert active(host) == ["mq-deadline", "none"]


def test_the_scheduler_of_a_partition_is_that_of_its_disk(tmp_path: Path) -> None:
    host, paths = Machine(tmp_path).host, Paths(tmp_path, tmp_path / "run")
    blocks = tmp_path / "sys/class/block"
    write_tree(blocks, {"nvme0n1/nvme0n1p1/partition": "1"})
    (blocks / "nvme0n1p1").symlink_to(blocks / "nvme0n1/nvme0n1p1")
    part = replace(host.device("nvme0n1"), path=str(tmp_path / "dev/nvme0n1p1"))
    with schedulers(host, paths, Stop(), [part], "mq-deadline"):
        assert active(host) == ["mq-deadline", "none"]
    assert active(host) == ["none", "none"]


# --- each place -----------------------------------------------------------------------------------


@contextmanager
def claim_release(machine: Machine, patch: pytest.MonkeyPatch) -> Iterator[None]:
    lab = Lab(machine.root / "lab")
    with lab.taken() as own:
        own.clear()
        patch.setattr(claim, "clear", fail)
        yield


def scheduler(machine: Machine, patch: pytest.MonkeyPatch) -> AbstractContextManager[None]:
    patch.setattr("harness.machine.schedulers.restore", fail)
    host, device = machine.host, machine.host.device("nvme0n2")
    paths = SimpleNamespace(schedulers=machine.root / "schedulers.json")
    return schedulers(host, paths, Stop(), [device], "mq-deadline")  # type: ignore[arg-type]


def a_slice(machine: Machine, patch: pytest.MonkeyPatch) -> AbstractContextManager[Any]:
    device = machine.host.device("nvme0n2")
    patch.setattr(dmsetup, "map_to", lambda *_: Path(device.path))
    patch.setattr(dmsetup, "remove", fail)
    return slices._slice(machine.host, "t", device, Extent(0, device.size))


@contextmanager
def traced(machine: Machine, patch: pytest.MonkeyPatch) -> Iterator[None]:
    patch.setattr(tracing, "_source", lambda *_, **__: _Source("source"))
    patch.setattr(tracing, "Tracer", lambda *_, **__: SimpleNamespace(end=fail))
    context: Any = SimpleNamespace(host=machine.host, levels={"fake": SimpleNamespace()})
    context.levels["fake"].metadata_zones = 0
    run: Any = machine.plan.hosts[0].runs[0]
    record: Any = SimpleNamespace(began=0.0)
    writer: Any = SimpleNamespace(path=machine.root, write=None)
    with tracing.traced(context, run, [], zoned=[], record=record, writer=writer):
        yield


@contextmanager
def every_command(machine: Machine, patch: pytest.MonkeyPatch) -> Iterator[None]:
    patch.setattr(tracing, "CommandLog", lambda *_: SimpleNamespace(stop=fail))
    writer: Any = SimpleNamespace(path=machine.root)
    with tracing._every_command([], machine.root, SimpleNamespace(), writer):  # type: ignore[arg-type]
        yield


@contextmanager
def campaign_tracer(machine: Machine, patch: pytest.MonkeyPatch) -> Iterator[None]:
    patch.setattr(kept_tracer.KeptTracer, "stop", fail)
    with kept_tracer.closing_tracer(machine.host, machine.root, []):
        yield


class _Source(AbstractContextManager[str]):
    def __init__(self, value: str) -> None:
        self.value = value

    def __enter__(self) -> str:
        return self.value

    def __exit__(self, *_: object) -> None:
        return None


CONTEXTS = (
    claim_release,
    scheduler,
    a_slice,
    traced,
    every_command,
    campaign_tracer,
)


@pytest.mark.parametrize("place", CONTEXTS, ids=lambda place: place.__name__)
def test_a_context_keeps_the_error_of_its_body(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: Callable[[Machine, pytest.MonkeyPatch], AbstractContextManager[Any]],
) -> None:
    machine = Machine(tmp_path)
    with pytest.raises(ToolFailed, match="the first error") as caught, place(machine, monkeypatch):
        raise ToolFailed("the first error")
    assert messages(caught.value) == ["an error of the clean-up"]


@pytest.mark.parametrize("kind", [Btrfs, RawDevice, Zlfs])
def test_a_level_that_does_not_come_up_gives_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Level]
) -> None:
    machine = Machine(tmp_path)
    downs: list[str] = []

    def down(*_: object) -> None:
        downs.append("down")
        if len(downs) == calls:
            fail()

    # zlfs and raw-device remove the remains of a killed run first.
    calls = 1 if kind is Btrfs else 2
    monkeypatch.setattr(kind, "down", down)
    monkeypatch.setattr(native, "library", lambda name: tmp_path / name)
    monkeypatch.setattr(native, "program", lambda name: tmp_path / name)
    monkeypatch.setattr(zone_reset, "reset_all", lambda *_: raise_it(ToolFailed("the first error")))
    device = machine.host.device("nvme0n2")
    context = LevelContext(device, None, {}, tmp_path / "scratch", "zl-00000000", lambda: None)
    with pytest.raises(ToolFailed, match="the first error") as caught:
        kind().up(context)
    assert messages(caught.value) == ["an error of the clean-up"]


def raise_it(error: Exception) -> None:
    raise error


def raise_first(*_: object) -> None:
    raise ToolFailed("the first error")


def test_a_measurement_keeps_the_error_of_its_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    measurement: Any = Measurement.__new__(Measurement)
    measurement._context = SimpleNamespace(cgroups=SimpleNamespace(limit_memory=lambda _: None))
    measurement._spec = SimpleNamespace(memory_limit=None)
    measurement._tenants = [object()]
    measurement._sampler = SimpleNamespace(close=fail)
    monkeypatch.setattr(Measurement, "_note_level", raise_first)
    with pytest.raises(ToolFailed, match="the first error") as caught:
        measurement.run()
    assert messages(caught.value) == ["an error of the clean-up"]


def test_a_window_keeps_its_error_and_the_gates_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    program: Any = SimpleNamespace(
        gate=gate, planned_end=1.0, prepared=SimpleNamespace(spec=SimpleNamespace(name="p"))
    )
    window = MeasurementWindow(SimpleNamespace(), [program], lambda _: None)  # type: ignore[arg-type]
    monkeypatch.setattr(MeasurementWindow, "_start", raise_first)
    monkeypatch.setattr(MeasurementWindow, "_stop", fail)
    with pytest.raises(ToolFailed, match="the first error") as caught:
        together.Together.__new__(together.Together)._run(window, [program])
    assert messages(caught.value) == ["an error of the clean-up"]
    assert not gate.exists()


def test_a_program_that_cannot_be_ended_does_not_hide_the_error_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids: list[int] = []

    def started(pid: int) -> None:
        pids.append(pid)
        raise ToolFailed("the first error")

    monkeypatch.setattr(load_process, "_kill", fail)
    with pytest.raises(ToolFailed, match="the first error") as caught:
        load_process.run_program(
            ["sleep", "60"],
            env={},
            stdout=tmp_path / "out",
            stderr=tmp_path / "err",
            timeout=60,
            started=started,
            tick=lambda _: None,
            tick_seconds=0.1,
            stalled=lambda _: False,
            clock=lambda: 0.0,
        )
    assert messages(caught.value) == ["an error of the clean-up"]
    os.kill(pids[0], 9)
    os.waitpid(pids[0], 0)


def test_a_hang_is_noted_also_on_a_full_disk(tmp_path: Path) -> None:
    machine, paths = Machine(tmp_path), Paths(tmp_path / "state", tmp_path / "run")
    own: Any = SimpleNamespace(path=tmp_path / "progress.json", publish=fail)
    with pytest.raises(OSError, match="of the clean-up"):
        execute._announce("c", paths, machine.host, own, HANG)
    assert (tmp_path / "run/hung.json").exists()


def test_a_refusal_stays_the_refusal_when_the_progress_file_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path)
    (tmp_path / "zones.json").write_text('{"3": 4096}')
    monkeypatch.setattr(execute, "_announce", fail)
    request = execute.Request("h", tmp_path, Paths(tmp_path / "state", tmp_path / "run"))
    with pytest.raises(GuardRefused, match="not empty") as caught:
        execute.execute_plan(
            machine.plan,
            request,
            host=machine.host,
            levels={"fake": FakeLevel(tmp_path)},
            say=lambda _: None,
        )
    assert messages(caught.value) == ["an error of the clean-up"]
