"""Waits on a clock that counts instructions: it jumps while the machine waits for its host.

Each wait gives up on a real clock, and has a hundred times as long on such a clock.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.errors import HostError, TimedOut, ToolFailed
from harness.observe import witness
from harness.observe import zoneblk as served
from harness.observe.tracing import bpf_source
from harness.observe.tracing.bpf_answers import Grouping
from harness.observe.tracing.bpf_source import BpfSource
from harness.run import load_process, measure, phase, result_builder, service, stall, window
from harness.run.load_process import ProgramExit
from harness.run.result_builder import ResultBuilder
from harness.run.stall import PhaseProgress
from harness.run.window import MeasurementWindow
from harness.store.spec import PhaseRole, PhaseSpec
from harness.tools import mount, proc, virtual_clock, zoneblk
from harness.tools.bpftrace import Printed

Patch = pytest.MonkeyPatch
JUMP = 1000.0  # seconds of a clock between two looks at it
SPEC = PhaseSpec("p", "overwrite", PhaseRole.MEASURED, {}, 100, 8, False, 60, 10)
USERS = (
    *(bpf_source, served, witness, load_process, result_builder, service, stall, window),
    *(mount, zoneblk),
)


def jumping() -> Any:
    """Return a module ``time`` whose clock jumps, and does not wait."""
    ticks = count()
    return SimpleNamespace(monotonic=lambda: next(ticks) * JUMP, sleep=lambda _: None)


def host(*times: float) -> Any:
    ticks: Iterator[float] = iter(times) if times else (number * JUMP for number in count())
    return SimpleNamespace(monotonic=lambda: next(ticks))


@dataclass
class _Running:
    writer: Any
    marks: Any = None


def completed(code: int, stderr: str = "") -> proc.Completed:
    return proc.Completed(("x",), code, None, "", stderr)


# --- waits: each returns what it waits for, or raises an error ------------------------------------


def a_stall(_: Patch, folder: Path) -> None:
    report = folder / "report.csv"
    report.write_text("secs_elapsed,interval_qps\n1,10\n")
    progress = PhaseProgress(report, folder / "stdout", SPEC)
    assert not progress.stalled(0)
    if progress.stalled(JUMP):
        raise TimedOut("stalled")
    assert progress.stalled(JUMP + 1)


def the_end_of_a_run(*_: object) -> None:
    builder: Any = ResultBuilder.__new__(ResultBuilder)
    builder._spec = SimpleNamespace(timeout_seconds=60)
    builder._context, builder.began = SimpleNamespace(host=host(JUMP)), 0.0
    assert builder.seconds_left() == 60 * 100 - JUMP


def watching(program: Any, host: Any) -> MeasurementWindow:
    program.prepared = SimpleNamespace(spec=SPEC)
    program.tenant, program.planned_end = SimpleNamespace(name="a"), 1.0
    return MeasurementWindow(host, [program], lambda _: None)


def a_tenant_that_works(*_: object) -> None:
    progress = SimpleNamespace(stalled=lambda _: False)
    program = SimpleNamespace(running=True, released=0.0, progress=progress)
    watched = watching(program, host(JUMP))
    watched._detect_hung()
    if watched.died:
        raise TimedOut(watched.died)


def a_tenant_that_opens_its_database(patch: Patch, _: Path) -> None:
    program = SimpleNamespace(gate=True, child=None, running=False)
    looks = iter([False, True])
    patch.setattr(window, "_is_ready", lambda _: next(looks))
    watching(program, host())._wait_ready()


def a_server_of_a_drive(patch: Patch, folder: Path) -> None:
    patch.setattr(zoneblk, "time", jumping())
    out = folder / "out"
    out.touch()
    looks = iter([None, None, 0])
    zoneblk._wait(SimpleNamespace(poll=lambda: next(looks)), out)  # type: ignore[arg-type]


def the_end_of_a_server(patch: Patch, _: Path) -> None:
    patch.setattr(zoneblk, "_STOP_SECONDS", 0.1)
    # The shell ends half a second after the signal.
    text = "trap 'sleep 0.5; exit' TERM; echo ready; while :; do sleep 0.1; done"
    child = subprocess.Popen(["sh", "-c", text], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        zoneblk.stop("ublkb77", child.pid)
    finally:
        child.kill()
        child.communicate()


def a_busy_mount(patch: Patch, _: Path) -> None:
    patch.setattr(mount, "time", jumping())
    answers = iter([completed(32, "target is busy"), completed(0)])
    patch.setattr(proc, "run", lambda *_, **__: next(answers))
    mount.retry(["umount", "/mnt"], timeout=1)


def bpftrace(looks: list[list[Any]]) -> Any:
    source: Any = BpfSource.__new__(BpfSource)
    source._ready, source._grouping = False, Grouping()
    source._answers = SimpleNamespace(take=lambda _: None)
    source._child = SimpleNamespace(poll=lambda: None, send_signal=lambda _: None)
    answers = iter(looks)
    source._new = lambda: next(answers)
    return source


def the_start_of_bpftrace(patch: Patch, _: Path) -> None:
    patch.setattr(bpf_source, "time", jumping())
    bpftrace([[], [Printed("ready")]]).wait()


def an_answer_of_bpftrace(patch: Patch, _: Path) -> None:
    patch.setattr(bpf_source, "time", jumping())
    bpftrace([[], [Printed("snapshot"), Printed("end")]])._ask()


def another_start(patch: Patch, folder: Path) -> None:
    patch.setattr(service, "time", jumping())
    answers = iter([completed(1), completed(0)])
    patch.setattr(proc, "run", lambda *_, **__: next(answers))
    patch.setattr(service, "_unit_exists", lambda: True)
    assert service._started(["systemd-run"], folder / "lock", lambda: None)


def late(listener: socket.socket, answer: bytes) -> None:
    def serve() -> None:
        client, _ = listener.accept()
        threading.Event().wait(0.3)
        with client, suppress(BrokenPipeError):
            client.send(answer)

    threading.Thread(target=serve, daemon=True).start()


def a_report_of_a_server(patch: Patch, folder: Path) -> None:
    patch.setattr(served, "_SECONDS", 0.05)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "ublkb0"))
        listener.listen()
        late(listener, b'{"device": "ublkb0"}')
        if served.report("ublkb0", folder) is None:
            raise TimedOut("no answer")


def an_answer_of_the_witness(patch: Patch, _: Path) -> None:
    patch.setattr(witness, "_TIMEOUT_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        late(listener, b"{}\n")
        assert witness._ask(*listener.getsockname()) == {}


WAITS = (
    a_stall,
    the_end_of_a_run,
    a_tenant_that_works,
    a_tenant_that_opens_its_database,
    a_server_of_a_drive,
    the_end_of_a_server,
    a_busy_mount,
    the_start_of_bpftrace,
    an_answer_of_bpftrace,
    another_start,
    a_report_of_a_server,
    an_answer_of_the_witness,
)


@pytest.mark.parametrize("wait", WAITS)
def test_a_clock_that_jumps_is_given_more_time(
    tmp_path: Path, monkeypatch: Patch, wait: Callable[[Patch, Path], None]
) -> None:
    with monkeypatch.context() as patch:
        patched(patch, "root=/dev/vda quiet")
        with pytest.raises((TimedOut, ToolFailed, HostError)):
            wait(patch, tmp_path)
    for path in tmp_path.iterdir():
        path.unlink()
    patched(monkeypatch, "root=/dev/vda zonelab.dilation=128")
    wait(monkeypatch, tmp_path)


def patched(patch: Patch, cmdline: str) -> None:
    for module in USERS:
        patch.setattr(module, "patience", lambda: virtual_clock.factor(cmdline))


@pytest.mark.parametrize(("tick_seconds", "looked"), [(0.02, True), (60.0, False)])
def test_a_program_is_looked_at_once_per_tick(
    tmp_path: Path, tick_seconds: float, looked: bool
) -> None:
    """On a slow clock, looks each second would take a good part of the guest's instructions."""
    stalls, ticks = list[float](), list[float]()
    ended = load_process.run_program(
        ["sleep", "0.5"],
        env={},
        stdout=tmp_path / "out",
        stderr=tmp_path / "err",
        timeout=600,
        started=lambda _: None,
        tick=ticks.append,
        tick_seconds=tick_seconds,
        stalled=lambda seconds: bool(stalls.append(seconds)),
        clock=time.monotonic,
    )
    assert ended.well
    assert bool(ticks) == looked
    assert stalls == ticks


def test_a_run_is_looked_at_as_often_as_it_is_sampled(monkeypatch: Patch) -> None:
    chosen = list[float]()
    monkeypatch.setattr(measure, "observers", lambda *_: [])

    def sampler(*_: object, interval: float, **__: object) -> Any:
        chosen.append(interval)
        return SimpleNamespace(marks=None)

    monkeypatch.setattr(measure, "Sampler", sampler)
    context: Any = SimpleNamespace(
        host=SimpleNamespace(monotonic=None),
        progress=SimpleNamespace(phase=lambda _: None),
        stop=SimpleNamespace(check=lambda: None),
    )
    spec: Any = SimpleNamespace(device=SimpleNamespace(dilation=128), tenants=())
    record: Any = SimpleNamespace(began=0.0, seconds_left=lambda: 60.0)
    tenant: Any = SimpleNamespace(running=_Running(SimpleNamespace(path=Path())))

    def execute(*_: object, tick_seconds: float, **__: object) -> Any:
        chosen.append(tick_seconds)
        return SimpleNamespace(ended_well=True)

    monkeypatch.setattr(measure.phase, "execute", execute)
    own = measure.Measurement(context, spec, record, [tenant], zoned=(), tracer=None)
    own._phase(tenant, SPEC)
    assert chosen == [4.0, 4.0]


@pytest.mark.parametrize(("factor", "how"), [(1.0, (None, 9)), (100.0, (7, None))])
def test_a_program_has_time_to_end(
    tmp_path: Path, monkeypatch: Patch, factor: float, how: tuple[int | None, int | None]
) -> None:
    """Between SIGTERM and SIGKILL."""
    text = "trap 'sleep 0.5; exit 7' TERM; echo ready; while :; do sleep 0.1; done"
    monkeypatch.setattr(load_process, "_GRACE_SECONDS", 0.1)
    monkeypatch.setattr(load_process, "patience", lambda: factor)
    out = tmp_path / "out"

    def stalled(_: float) -> bool:
        return out.read_text() == "ready\n"

    ended = load_process.run_program(
        ["sh", "-c", text],
        env={},
        stdout=out,
        stderr=tmp_path / "err",
        timeout=60,
        started=lambda _: None,
        tick=lambda _: None,
        tick_seconds=0.1,
        stalled=stalled,
        clock=lambda: 0.0,
    )
    assert (ended.exit_code, ended.signal) == how


def test_a_tenant_that_is_ready_at_the_last_look_is_ready(monkeypatch: Patch) -> None:
    program = SimpleNamespace(gate=True, child=None, running=False)
    monkeypatch.setattr(window, "_is_ready", lambda _: True)
    watching(program, host(0.0, 1e9))._wait_ready()


def test_messages_have_the_time_that_was_given(monkeypatch: Patch) -> None:
    monkeypatch.setattr(stall, "patience", lambda: 100.0)
    late = ProgramExit(None, signal.SIGKILL, 1.0, timed_out=True, stalled=False)
    hung = ProgramExit(None, signal.SIGKILL, 1.0, timed_out=False, stalled=True)
    texts = [phase.failure(SPEC, ended, "", "").message for ended in (late, hung)]
    assert texts == ["phase p did not end within 6000 s", "phase p made no progress for 1000 s"]
