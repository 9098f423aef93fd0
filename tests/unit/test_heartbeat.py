"""The heartbeat of progress.json: how it is made, renewed, and judged from afar."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.run import progress, pulse
from harness.run.heartbeat import Heart, Heartbeat, unit
from harness.run.watch import Glance, judge
from harness.store.codec import encode
from tests.fixtures.waiting import until
from tests.runner.fakes import FakeHost, make_machine

BOOT = "b6a0d6a2-3f5c-4a53-9c7f-0d8a4d6f2b11"
OTHER = "11c1f6f0-9f61-4d2c-8f0a-6a0f1a7c9e02"
BEAT = Heartbeat(BOOT, 5000.25, 812, "zonelab-run.service")
RECORD = progress.ProgressRecord(
    "c", "running", 4, 1, "f2fs--r01", "overwrite", 0.5, 60.0, {"ok": 1}, "t", "c: half", BEAT
)
SILENT = 120.0


def seen(
    record: Any, *, boot: str = BOOT, uptime: float = 5010.0, cmdline: str = "quiet"
) -> Glance:
    """Judge a record as the wait of the playbook reads it; raw output can end lines with CRLF."""
    content = record if isinstance(record, str) else json.dumps(encode(record)) + "\n"
    text = f"{boot}\n{uptime:.2f} 19876.11\nroot=/dev/vda {cmdline}\n{content}"
    plain, crlf = judge(text, SILENT), judge(text.replace("\n", "\r\n"), SILENT)
    assert plain == crlf
    return plain


def test_a_runner_that_reports_is_waited_for() -> None:
    assert seen(RECORD) == Glance(False, "c: half")
    assert seen(RECORD, uptime=5000.25 + SILENT - 1) == Glance(False, "c: half")


@pytest.mark.parametrize("state", ["done", "failed", "aborted"])
def test_an_end_is_an_end_with_any_heartbeat(state: str) -> None:
    ended = replace(RECORD, state=state)
    assert seen(ended, boot=OTHER, uptime=3.0) == Glance(True, "c: half")


def test_a_reboot_is_named_at_the_first_look() -> None:
    found = seen(RECORD, boot=OTHER, uptime=30.0)
    assert found.over
    assert f"the host rebooted during the campaign (boot id {BOOT}, now {OTHER})" in found.error
    assert "repeat the command" in found.error


def test_a_silent_runner_is_named_with_its_silence() -> None:
    found = seen(RECORD, uptime=5000.25 + SILENT + 1)
    assert found.over
    assert "the runner (pid 812, zonelab-run.service) has not reported for 121 s" in found.error
    assert "repeat the command" in found.error


def test_a_runner_that_hangs_is_named_although_it_reports() -> None:
    found = seen(replace(RECORD, heartbeat=replace(BEAT, unit="", blocked_seconds=130.4)))
    assert found.over
    assert "the runner (pid 812) hangs in the kernel for 130 s; see /proc/812/stack" in found.error
    assert not seen(replace(RECORD, heartbeat=replace(BEAT, blocked_seconds=90.0))).over


def test_a_clock_that_counts_instructions_is_given_a_hundred_times_as_long() -> None:
    """It jumps while the runner waits for the host's disk."""
    late = 5000.25 + SILENT * 100
    cmdline = "quiet zonelab.dilation=128"
    assert not seen(RECORD, uptime=late - 1, cmdline=cmdline).over
    assert "not reported for 12001 s" in seen(RECORD, uptime=late + 1, cmdline=cmdline).error
    blocked = replace(RECORD, heartbeat=replace(BEAT, blocked_seconds=130.4))
    assert not seen(blocked, cmdline=cmdline).over


@pytest.mark.parametrize("content", ["", "cat: progress.json: No such file", "{}", "[]", "null"])
def test_a_file_that_is_missing_or_damaged_ends_the_wait(content: str) -> None:
    found = seen(content)
    assert (found.over, found.line) == (True, "")
    assert "no readable progress.json" in found.error


def test_a_file_without_heartbeat_claims_nothing() -> None:
    assert seen(replace(RECORD, heartbeat=None), boot=OTHER) == Glance(False, "c: half")
    old = encode(RECORD)
    del old["heartbeat"]
    assert seen(json.dumps(old)) == Glance(False, "c: half")


# --- making it ------------------------------------------------------------------------------------


class Clocked(FakeHost):
    """Its uptime is set by the test."""

    at = 100.0

    def uptime(self) -> float:
        return self.at


@pytest.fixture
def host(tmp_path: Path) -> Clocked:
    make_machine(tmp_path)
    return Clocked(tmp_path)


def main_thread(host: Clocked, state: str, switches: int) -> None:
    """Write the main thread's status as proc_pid_status(5) has it."""
    file = host.proc / f"self/task/{os.getpid()}/status"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        f"Name:\tpython3\nState:\t{state} (as it is)\n"
        f"voluntary_ctxt_switches:\t{switches}\nnonvoluntary_ctxt_switches:\t3\n"
    )


def test_a_heartbeat_names_boot_process_and_unit(host: Clocked) -> None:
    (host.proc / "self/cgroup").write_text("0::/system.slice/zonelab-run.service/harness\n")
    beat = Heart(host).beat()
    assert beat == Heartbeat(host.boot_id(), 100.0, os.getpid(), "zonelab-run.service")


@pytest.mark.parametrize(
    ("membership", "name"),
    [
        ("0::/\n", ""),
        ("", ""),
        ("0::/user.slice/user-0.slice/session-3.scope\n", "session-3.scope"),
        ("1:cpu:/x\n0::/system.slice/zonelab-run.service\n", "zonelab-run.service"),
    ],
)
def test_the_unit_comes_from_the_cgroup(host: Clocked, membership: str, name: str) -> None:
    (host.proc / "self/cgroup").write_text(membership)
    assert unit(host) == name


def test_a_thread_that_never_leaves_the_kernel_is_blocked(host: Clocked) -> None:
    heart = Heart(host)

    def blocked(at: float, state: str, switches: int) -> float:
        host.at = at
        main_thread(host, state, switches)
        return heart.beat().blocked_seconds

    assert blocked(100, "D", 7) == 0  # seen for the first time
    assert blocked(105, "D", 7) == 5
    assert blocked(110, "D", 7) == 10
    assert blocked(115, "D", 8) == 0  # it ran in between
    assert blocked(120, "D", 8) == 5
    assert blocked(125, "S", 8) == 0
    assert blocked(130, "S", 8) == 0  # sleeping is not blocked


def test_the_thread_renews_the_last_record_only(
    host: Clocked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulse, "_SECONDS", 0.01)
    path = tmp_path / "progress.json"

    def uptime() -> float | None:
        beat = progress.load(path).heartbeat
        return beat.uptime if beat else None

    with pulse.pulse(path, host) as own:
        own.publish(RECORD)
        host.at = 200.0
        until(lambda: uptime() == 200.0, "the heartbeat is renewed")
        assert progress.load(path).line == "c: half"
        own.publish(replace(RECORD, state="failed", line="c: failed"))
        host.at = 300.0
        until(lambda: uptime() == 300.0, "the heartbeat is renewed again")
        assert progress.load(path).state == "failed"
    host.at = 400.0
    last = path.read_bytes()
    own.stop()
    assert path.read_bytes() == last


def test_a_disk_that_is_full_for_a_while_does_not_stop_the_heartbeat(
    host: Clocked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulse, "_SECONDS", 0.01)
    path = tmp_path / "progress.json"
    with pulse.pulse(path, host) as own:
        own.publish(RECORD)
        blocker = tmp_path / ".progress.json.new"
        blocker.mkdir()
        with pytest.raises(OSError, match="directory"):
            own.publish(RECORD)
        blocker.rmdir()
        host.at = 500.0
        until(lambda: "500.0" in path.read_text(), "the heartbeat goes on")
