"""The parts of the rig's zlfs tests, without a rig: parsing a trace, and the reset campaign."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from harness.errors import TimedOut
from harness.tools import proc
from harness.tools.proc import Completed
from tests.rig import zlfs_resets, zone_commands
from tests.rig.zlfs_resets import Campaign, Program, Setup

# Synthetic: after TP_printk of nvme_setup_cmd in drivers/nvme/host/trace.h. Newer kernels name the
# action behind its number.
TRACE = """# tracer: nop
#
# entries-in-buffer/entries-written: 4/4   #P:2
#
           zlfs-812     [000] .....   141.170: nvme_setup_cmd: nvme0: disk=nvme0n3, qid=1, cmdid=1,\
 nsid=3, flags=0x0, meta=0x0, cmd=(nvme_cmd_flush cdw10=00 00 00 00)
           zlfs-812     [001] .....   141.171: nvme_setup_cmd: nvme0: disk=nvme0n3, qid=2, cmdid=2,\
 nsid=3, flags=0x0, meta=0x0, cmd=(nvme_cmd_zone_mgmt_send slba=2048, zsa=4, all=0)
           zlfs-812     [001] .....   141.172: nvme_setup_cmd: nvme0: disk=nvme0n3, qid=2, cmdid=3,\
 nsid=3, flags=0x0, meta=0x0, cmd=(nvme_cmd_zone_mgmt_send slba=0, zsa=4:reset zone, all=0)
           zlfs-812     [001] .....   141.173: nvme_setup_cmd: nvme0: disk=nvme0n3, qid=2, cmdid=4,\
 nsid=3, flags=0x0, meta=0x0, cmd=(nvme_cmd_zone_mgmt_send slba=4096, zsa=2, all=0)
"""


def test_commands_of_a_trace_are_counted() -> None:
    assert zone_commands.parse(TRACE) == {
        "flush": 1,
        "finish": 1,
        "reset": 2,
        "open": 0,
        "close": 0,
    }


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("4/4", "4/9"),  # the buffer ran over
        ("4/4", "5/5"),  # a line that cannot be read
        ("zsa=2, all=0", "zsa=4, all=1"),
        ("nvme_cmd_flush", "nvme_cmd_write"),
        ("# entries-in-buffer", "# nothing"),
    ],
)
def test_an_incomplete_trace_is_refused(was: str, becomes: str) -> None:
    with pytest.raises(AssertionError):
        zone_commands.parse(TRACE.replace(was, becomes))


DF = {"gc": {"copied_bytes": 7}, "finishes": 2, "resets": 3}


class FakeGuest(zlfs_resets.Guest):
    """A load that counts up, and a judge that accepts everything; both are shell scripts."""

    def __init__(self, load: str = "", judge: int = 0) -> None:
        self.name = "fake"
        self.load = load or "n=0; while :; do n=$((n+1)); echo $n,$n; sleep 0.01; done"
        self.verdict = judge
        self.judges = ["exec sleep 60"]  # those that a reset interrupts
        self.log: list[str] = []
        self.ends = self.load.endswith("exit 1")
        self.program: Program | None = None

    def ssh(self, command: str, *, timeout: float = 300.0, check: bool = True) -> Completed:
        self.log.append(command)
        code = self.verdict if " judge " in command else 0
        text = json.dumps(DF) if " df " in command else ""
        return proc.completed(("ssh",), code, text, "Corruption: torture" if code else "")

    def start(self, command: str) -> Program:
        self.log.append(command)
        script = self.load if " write " in command else self.judges.pop(0)
        self.program = Program(["sh", "-c", f"echo started; {script}"])
        return self.program

    def reset(self) -> None:
        """Reset after the load has ended by itself, however slow the machine is."""
        self.log.append("reset")
        while self.ends and self.program is not None and not self.program.ended:
            time.sleep(0.01)

    def device(self) -> str:
        return "/dev/nvme0n3"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zlfs_resets, "_LOAD_SECONDS", 0.1)
    monkeypatch.setattr(zlfs_resets, "_LOAD_TIMEOUT", 60.0)


def run(tmp_path: Path, guest: FakeGuest, **setup: int) -> dict[str, object]:
    return Campaign(Setup(**setup), guest).run(tmp_path / "report.json")


def test_resets_go_through_volumes_and_recoveries(tmp_path: Path) -> None:
    guest = FakeGuest()
    report = run(tmp_path, guest, points=4, points_per_volume=2, recovery_every=4)
    assert report["ok"] is True, report["failure"]
    assert report == json.loads((tmp_path / "report.json").read_text())
    assert (report["points"], report["volumes"], report["in_recovery"]) == (4, 2, 1)
    assert guest.log.count("reset") == 5
    assert (report["finishes"], report["zone_resets"], report["collected_bytes"]) == (4, 6, 14)
    judged = [line for line in guest.log if " judge " in line]
    assert len(judged) == 5
    resets = report["resets"]
    assert isinstance(resets, list)
    last = resets[-1]["synced"]
    # Each judge gets the last line of the load; a new volume has its own seed.
    assert judged[-1].endswith(f"--seed=1001 --synced={last[0]},{last[1]}")
    assert judged[0].split("--synced=")[0].endswith("--seed=1000 ")
    assert resets[1]["synced"] != resets[0]["synced"]
    assert "4 points on 2 volumes, 1 more during recovery" in zlfs_resets.summary(report)


def test_a_recovery_that_ends_before_its_reset_is_tried_again(tmp_path: Path) -> None:
    guest = FakeGuest()
    guest.judges.insert(0, "exit 0")
    report = run(tmp_path, guest, points=1, recovery_every=1)
    assert report["ok"] is True, report["failure"]
    assert (report["in_recovery"], guest.log.count("reset")) == (1, 4)
    assert sum(" write " in line for line in guest.log) == 2, "each time there is something to do"


def test_a_judge_that_misses_something_ends_it(tmp_path: Path) -> None:
    report = run(tmp_path, FakeGuest(judge=1), points=3)
    assert report["ok"] is False
    assert "point 1: judge ended with 1: Corruption: torture; again: " in str(report["failure"])
    assert (tmp_path / "report.dump").exists()
    assert "FAILED at point 1" in zlfs_resets.summary(report)


@pytest.mark.parametrize(
    ("load", "what", "timeout"),
    [
        ("echo 1,1; echo zlfs-torture: IO error; exit 1", "zlfs-torture: IO error", 60),
        ("echo 0,0; exec sleep 60", "no output|started", 0.5),  # nothing is ever synced
        ("echo 12,1 | tr -d '\\n'; exit 1", "started", 60),  # a line cut short is no number
    ],
)
def test_a_load_that_does_not_work_is_no_point(
    tmp_path: Path, load: str, what: str, timeout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zlfs_resets, "_LOAD_TIMEOUT", timeout)
    report = run(tmp_path, FakeGuest(load), points=1)
    assert (report["ok"], report["points"]) == (False, 0)
    assert any(part in str(report["failure"]) for part in what.split("|"))


def test_a_guest_that_does_not_come_back_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guest = FakeGuest()

    def gone() -> None:
        raise TimedOut("rig fake did not answer")

    monkeypatch.setattr(guest, "reset", gone)
    report = run(tmp_path, guest, points=1)
    assert report["failure"] == "point 1: rig fake did not answer"
