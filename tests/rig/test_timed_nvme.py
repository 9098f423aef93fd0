"""The modelled drive as an NVMe namespace: real NVMe commands, and what the way to it costs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.rig import guest, loop_target
from harness.store.spec import DeviceKind
from tests.fixtures.native_build import build

from . import plays
from .against_model import (
    APPENDS,
    CASES,
    KIB,
    beyond,
    install_appends,
    left_over,
    measured,
    nominal,
    served,
    status,
    through_target,
)
from .conftest import WHOLE, RigHandle, booted

pytestmark = pytest.mark.skipif(not WHOLE, reason="make test-campaigns runs it")

BACKING, UNIT = "/dev/ublkb0", "zoneblk-0"
ZIPAPP = "/root/timed-nvme.pyz"
SMALL = [case for case in CASES if case.size < 128 * KIB]
RECEIVE = "--opcode=0x7a --namespace-id=1 -r"  # zone management receive
WITHIN_US = 4.0  # of the guest


@pytest.fixture(scope="module")
def rig() -> Iterator[RigHandle]:
    with booted("timed-nvme") as handle:
        yield handle


@pytest.fixture(scope="module")
def device(rig: RigHandle) -> str:
    assert rig.zoned.path.startswith("/dev/nvme")
    return rig.zoned.path


def counts(rig: RigHandle) -> dict[str, int]:
    """Return the commands that the server has completed; programs of the guest add reads."""
    commands = status(rig.name, BACKING)["commands"]
    assert all(one["errors"] == 0 for one in commands.values())
    return {op: one["count"] for op, one in commands.items() if op != "read"}


def more(rig: RigHandle, before: Mapping[str, int]) -> dict[str, int]:
    return {op: count - before[op] for op, count in counts(rig).items() if count > before[op]}


def test_each_nvme_command_is_one_command_of_the_drive(rig: RigHandle, device: str) -> None:
    before = counts(rig)
    # Without the partial bit nvmet wants room for all zones. `nvme zns report-zones` first asks
    # without room for any.
    words = report(rig, device, "--cdw13=0x10000", 4096)
    assert (words[0], words[9]) == (63, rig.zoned.capacity // 192 // 4096)
    assert more(rig, before) == {"report": 1}
    assert report(rig, device, "--cdw13=0", 64 * (1 + 192))[0] == 192
    for refused in ("--cdw13=0 --cdw12=15 --data-len=64", "--cdw13=0 --cdw12=1023 --data-len=4096"):
        done = rig.ssh(f"nvme io-passthru {device} {RECEIVE} {refused}", check=False)
        assert "Invalid Field in Command" in done.stdout + done.stderr
    assert "Invalid Field" in rig.ssh(f"nvme zns report-zones {device} 2>&1", check=False).stdout

    append = f"nvme zns zone-append {device} -s 1024 -z 4096 -d /root/appended"
    rig.ssh(
        f"set -e; head -c 4096 /dev/urandom > /root/appended; {append}; {append};"
        f" dd if={device} bs=4k skip=1025 count=1 iflag=direct status=none | cmp - /root/appended"
    )
    found = more(rig, before)
    found.pop("report")  # the kernel looks at zones again when a program has written
    assert found == {"append": 2}
    rig.ssh(f"nvme zns finish-zone {device} -s 1024; nvme zns reset-zone {device} -s 1024")
    found = more(rig, before)
    found.pop("report")
    assert found == {"append": 2, "finish": 1, "reset": 1}


def report(rig: RigHandle, device: str, partial: str, size: int) -> list[int]:
    """Return the words of a zone report: how many zones, and behind 64 bytes the first zone.

    Its second word is its capacity in blocks.
    """
    words = f"{RECEIVE} {partial} --cdw12={size // 4 - 1} --data-len={size} -b"
    text = rig.ssh(f"nvme io-passthru {device} {words} | od -A n -t u8 -v").stdout
    return [int(word) for line in text.splitlines() for word in line.split()]


def test_the_namespace_is_the_modelled_drive(rig: RigHandle, device: str, tmp_path: Path) -> None:
    plays.install(rig, tmp_path, ZIPAPP)
    found = looked_at(rig, device)
    assert found["kind"] == DeviceKind.MODELLED
    assert found["identity"] == f"model.{rig.zoned.uuid}"
    assert found["uses"] == []
    assert "exported" in looked_at(rig, BACKING)["uses"]
    assert looked_at(rig, device, f"sleep 300 3<>{BACKING} >&- 2>&- &")["uses"] == ["opened"]
    rig.ssh("pkill -x sleep")


def looked_at(rig: RigHandle, path: str, before: str = "") -> dict[str, Any]:
    """Return what the runner finds in the guest, after a shell command."""
    code = f"""
import json
from harness.machine import host, in_use
machine = host.Host()
device = machine.device({path!r})
uses = [reason.code for reason in in_use.reasons(machine, device)]
print(json.dumps({{"kind": device.kind, "identity": device.identity.key, "uses": uses}}))
"""
    command = f"{before} PYTHONPATH={ZIPAPP} python3 -c {shlex.quote(code)}"
    found: dict[str, Any] = json.loads(rig.ssh(command).stdout)
    return found


def test_requests_take_the_time_of_the_model(rig: RigHandle, device: str) -> None:
    build()
    most = rig.model.overhead_left_pct
    assert most is not None
    left = left_over(rig.name, device, CASES, rig.model.dilation)
    assert all(abs(error) <= most for error in left.values()), left


def test_appends_take_the_time_of_the_model(rig: RigHandle, device: str, tmp_path: Path) -> None:
    build()
    install_appends(rig, tmp_path)
    assert not beyond(rig.name, device, APPENDS, rig.model.dilation)


def test_the_overhead_is_that_of_the_way_through_the_target(rig: RigHandle) -> None:
    """Neither dilation nor overhead: what a request takes above the model is the way itself."""
    build()
    way = served(rig.name, "0us", 1)
    uuid = status(rig.name, way)["uuid"]
    straight = above(rig, way)
    through = above(rig, through_target(rig.name, way))
    rig.ssh(loop_target.down(uuid))
    overhead = float(rig.model.overhead.removesuffix("us"))
    print(straight, through)  # noqa: T201
    assert all(abs(us - overhead) <= WITHIN_US for us in through.values()), through
    assert all(us > straight[name] for name, us in through.items()), (straight, through)


def above(rig: RigHandle, device: str) -> dict[str, float]:
    """Return the us by which requests take longer than in the model."""
    found = measured(rig.name, device, SMALL, 1)
    return {case.name: one.mean - nominal(case).mean for case, one in found.items()}


def test_the_namespace_goes_before_its_drive(rig: RigHandle) -> None:
    rig.ssh(f"dmesg --clear; systemctl stop {UNIT}")
    assert "Removing ctrl" in rig.ssh("dmesg").stdout
    assert "I/O error" not in rig.ssh("dmesg").stdout
    assert_gone(rig)


def test_a_killed_server_stops_nobody(rig: RigHandle) -> None:
    (drive,) = rig.model.zoneblk
    again = guest.serve(rig.model, drive, f"{UNIT}-again")
    read = f"while dd if={again.path} of=/dev/null bs=4k iflag=direct 2>/dev/null; do :; done"
    kill = f"sleep 0.3; systemctl kill --kill-whom=main --signal=KILL {UNIT}-again"
    assert "failed" in rig.ssh(f"({kill}) & timeout 60 sh -c '{read}; echo failed'; wait").stdout
    rig.ssh(f"until systemctl is-failed {UNIT}-again; do sleep 0.1; done")
    assert_gone(rig)


def assert_gone(rig: RigHandle) -> None:
    """No namespace, no target and no device of the unit are left."""
    left = "ls -d /dev/nvme*n* /dev/ublkb0 /sys/kernel/config/nvmet/*/* 2>/dev/null"
    assert rig.ssh(left, check=False).stdout == ""
