"""The guard on a real kernel: some cases of tests/runner/test_hostile.py, with QEMU's counters.

`make test` takes one case of each kind; `make test-guard` takes all.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from . import plays
from .conftest import WHOLE, RigHandle
from .guest_commands import Answer, GuestCommands
from .guest_runner import ZIPAPP, GuestRunner
from .situations import (
    RENUMBER,
    SITUATIONS,
    SUSPENDED,
    TARGET_MODULES,
    UNTRUSTED,
    Situation,
)

# One of each kind: signatures on both devices, layers above, written zones, writers and mounts.
SAMPLE = {
    "ext4",
    "btrfs",
    "device-mapper",
    "filled-zones",
    "writer-through-another-node",
    "mounted-in-another-namespace",
    "opened-exclusively",
}
CHOSEN = [one for one in SITUATIONS if WHOLE or one.name in SAMPLE]
CHOSEN_UNTRUSTED = UNTRUSTED if WHOLE else ("error", "reserved")
CHOSEN_SUSPENDED = SUSPENDED if WHOLE else ("below",)
LEVELS = ("--levels", "conventional-ext4,f2fs")
JOURNAL = "/var/lib/zonelab/journal.jsonl"


@dataclass(frozen=True)
class Guarded:
    """A campaign that was planned before any change, and commands of its runner.

    Attributes:
        nodes: z is the zoned device, g its generic node, n its controller, c the companion.
    """

    rig: RigHandle
    runner: GuestRunner
    zonelab: GuestCommands
    nodes: dict[str, str]

    def inspected(self, companion: str = "") -> tuple[str, str]:
        """Return the codes of the first refusals: of the zoned device, of the companion."""
        companion = companion or self.nodes["c"]
        words = f"inspect {self.nodes['z']} --conventional {companion} --format json"
        shown = json.loads(self.zonelab(words).stdout)
        refusals, reason = shown["refusals"], shown["conventional_reason"]
        return (refusals[0]["code"] if refusals else "", reason["code"] if reason else "")

    def run(self, only: str) -> Answer:
        """Run one run of the plan."""
        plan = f"{self.runner.there}/plan.json"
        return self.zonelab(f"run --plan {plan} --host rig --only {only}")

    def state(self) -> tuple[list[int], str]:
        """Return the bytes written by QEMU's count, and the length of the journal with claims."""
        lines = self.rig.ssh(
            f"sync; udevadm settle; wc -l {JOURNAL} 2>/dev/null || echo none"
        ).stdout
        return plays.written(self.rig), lines


@pytest.fixture(scope="module")
def guarded(rig: RigHandle, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    empty = f"zbd reset {rig.zoned.path}; blkdiscard -f --zeroout {rig.conventional.path}"
    rig.ssh(empty)
    name = f"guard-{time.strftime('%m%d%H%M%S')}"
    runner = GuestRunner(rig, tmp_path_factory.mktemp("guard"), name, LEVELS)
    commands = GuestCommands(rig, ZIPAPP)
    zoned = rig.node(rig.zoned)
    number = zoned.removeprefix("nvme")
    nodes = {"z": f"/dev/{zoned}", "c": f"/dev/{rig.node(rig.conventional)}"}
    nodes |= {"g": f"/dev/ng{number}", "n": f"/dev/nvme{number.partition('n')[0]}"}
    yield Guarded(rig, runner, commands, nodes)
    commands.close()
    runner.remove()
    rig.ssh(empty)  # other tests have the companion taken unasked: it has to be blank


@pytest.mark.parametrize("situation", CHOSEN, ids=lambda situation: situation.name)
def test_nothing_is_written(guarded: Guarded, situation: Situation) -> None:
    try:
        guarded.rig.ssh(situation.do.format(**guarded.nodes))
        before = guarded.state()
        assert guarded.inspected() == (situation.zoned, situation.companion)
        if situation.run:
            run = guarded.run("f2fs--r01" if situation.zoned else "conventional-ext4--r01")
            assert run.code == 3, run.stderr
            assert "hint: " in run.stderr
        assert guarded.state() == before
    finally:
        guarded.rig.ssh(situation.undo.format(**guarded.nodes), check=False)


def test_another_device_than_was_planned_for(guarded: Guarded) -> None:
    """The name is the same, but the drive behind it has another identity."""
    plan = f"{guarded.runner.there}/plan.json"
    eui64 = guarded.rig.zoned.eui64
    guarded.rig.ssh(f"cp {plan} {plan}.kept && sed -i s/{eui64}/{'f' * 16}/g {plan}")
    try:
        before = guarded.state()
        run = guarded.run("f2fs--r01")
        assert run.code == 3, run.stderr
        assert f"no device has the identity eui.{'f' * 16}" in run.stderr
        assert guarded.state() == before
    finally:
        guarded.rig.ssh(f"mv {plan}.kept {plan}")


def test_readers_are_allowed(guarded: Guarded) -> None:
    """Of the devices, and of the controller: udev and smartd read both."""
    nodes = (guarded.nodes["z"], guarded.nodes["c"], guarded.nodes["n"])
    try:
        for number, node in enumerate(nodes):
            guarded.rig.ssh(f"sleep 300 <{node} >/dev/null 2>&1 & echo $! >/run/reader{number}")
        assert guarded.inspected() == ("", "")
    finally:
        guarded.rig.ssh("kill $(cat /run/reader?); rm /run/reader?", check=False)


def test_a_node_of_another_drive(guarded: Guarded) -> None:
    """The name is the planned one, the drive behind it is the tenants'."""
    rig, node = guarded.rig, guarded.nodes["c"]
    other = f"/dev/{rig.node(rig.tenants)}"
    try:
        before = guarded.state()
        rig.ssh(f"mv {node} /run/kept && mknod {node} b $(stat -c '0x%t 0x%T' {other})")
        run = guarded.run("conventional-ext4--r01")
        assert run.code == 3, run.stderr
        assert guarded.state() == before
    finally:
        rig.ssh(f"rm {node}; mv /run/kept {node}", check=False)


@pytest.mark.parametrize("name", CHOSEN_UNTRUSTED)
def test_a_companion_that_cannot_be_trusted(guarded: Guarded, name: str) -> None:
    do, node, undo, code = UNTRUSTED[name]
    if TARGET_MODULES in do and not guarded.rig.ssh(TARGET_MODULES, check=False).ok:
        pytest.skip("the rig's kernel has no SCSI target")
    before = plays.written(guarded.rig)
    try:
        guarded.rig.ssh(do.format(**guarded.nodes))
        if node == "{s}":
            listed = "ls -d /sys/block/sd* | head -n 1 | sed s,/sys/block,/dev,"
            node = guarded.rig.ssh(listed).stdout.strip()
            assert node.startswith("/dev/sd")
        assert guarded.inspected(node) == ("", code)
        assert plays.written(guarded.rig) == before
    finally:
        guarded.rig.ssh(undo, check=False)


@pytest.mark.parametrize("where", CHOSEN_SUSPENDED)
def test_a_suspended_mapping_is_not_read(guarded: Guarded, where: str) -> None:
    """A read would wait until somebody resumes it, and no signal ends the reader."""
    before = guarded.state()
    table = "dmsetup create slow --uuid lab-slow --table '0 2048 linear {c} 0'"
    try:
        guarded.rig.ssh(f"{table} && {SUSPENDED[where]}".format(**guarded.nodes))
        guarded.rig.ssh("dmsetup suspend slow")
        node = guarded.rig.ssh("readlink -f /run/named").stdout.strip()
        shown = guarded.zonelab(f"inspect {guarded.nodes['z']} --conventional {node}")
        assert shown.code == 3, shown.stderr
        assert f"{node} is suspended by the device mapper (slow)" in shown.stderr
        assert "hint: dmsetup resume slow" in shown.stderr
        # Another device of the machine may be suspended.
        assert guarded.inspected() == ("", "held")
        assert guarded.state() == before
    finally:
        guarded.rig.ssh(
            "dmsetup resume slow; dmsetup remove above; dmsetup remove slow; rm -f /run/named",
            check=False,
        )


# Plans for one path, renumbers, and looks again: argv is the zipapp, the node and the shell lines.
PLANNED = """
import subprocess, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from harness.errors import GuardRefused
from harness.machine.guard import Guard
from harness.machine.host import Host
from harness.machine.journal import Journal
host = Host()
guard = Guard(host, Journal(Path("/run/lab-journal")))
planned = host.device(sys.argv[2])
guard.require_unused(planned)
subprocess.run(sys.argv[3], shell=True, check=True)
try:
    guard.require_unused(planned)
except GuardRefused as refused:
    print(refused.code)
print(host.find(planned).path)
"""


def test_paths_that_change_places(guarded: Guarded) -> None:
    """Behind the planned name is another drive now; the planned one is found by its identity."""
    rig = guarded.rig
    try:
        rig.ssh("modprobe scsi_debug dev_size_mb=8 max_luns=2 && udevadm settle")
        words = (ZIPAPP, "/dev/sda", RENUMBER)
        given = " ".join(shlex.quote(word) for word in words)
        found = rig.ssh(f"python3 -c {shlex.quote(PLANNED)} {given}").stdout.split()
        assert found == ["identity-changed", "/dev/sdb"]
    finally:
        rig.ssh("modprobe -r scsi_debug", check=False)


def test_the_kernels_own_page_names_the_drive(guarded: Guarded) -> None:
    """zonelab reads the page that a kernel without the attribute ``wwid`` has as well."""
    rig = guarded.rig
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); from harness.observe import vpd;"
        " from pathlib import Path; folder = next(Path('/sys/block').glob('sd*')) / 'device';"
        " print(vpd.name((folder / 'vpd_pg83').read_bytes()), (folder / 'wwid').read_text())"
    )
    try:
        rig.ssh("modprobe scsi_debug dev_size_mb=8 && udevadm settle")
        ours, kernels = rig.ssh(f'python3 -c "{script}" {ZIPAPP}').stdout.split()
        assert ours == kernels
        assert ours.startswith("naa.")
    finally:
        rig.ssh("modprobe -r scsi_debug", check=False)


def test_without_hostility_something_is_written(guarded: Guarded) -> None:
    """The same entry point on allowed devices: proves that the counters can move."""
    before = plays.written(guarded.rig)
    run = guarded.run("conventional-ext4--r01")
    assert run.code == 0, run.stderr
    assert plays.written(guarded.rig) != before
