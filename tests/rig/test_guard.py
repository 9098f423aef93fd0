"""The guard on a real kernel: some cases of tests/runner/test_hostile.py, with QEMU's counters."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from . import plays
from .conftest import RigHandle
from .guest_runner import ZIPAPP, GuestRunner

LEVELS = ("--levels", "conventional-ext4,f2fs")
# An MBR with one Linux partition of 65,536 blocks.
MBR = (
    "import struct,sys; entry = struct.pack('<B3xB3xII', 0, 0x83, 2048, 65536);"
    " open(sys.argv[1], 'r+b').write(bytes(446) + entry + bytes(48) + bytes([0x55, 0xAA]))"
)
# Opens a device exclusively, says so, and keeps it until it is ended.
OPEN = (
    "import os,sys,time; os.open(sys.argv[1], os.O_RDONLY | os.O_EXCL);"
    " open(sys.argv[2], 'w'); time.sleep(300)"
)
# Opens a device without a lock: argv is node, flags of open(2), and whether to keep a mapping only.
LOOSE = (
    "import mmap,os,sys,time; fd = os.open(sys.argv[1], int(sys.argv[3]));"
    " kept = mmap.mmap(fd, 4096) if sys.argv[4:] else None; kept and os.close(fd);"
    " open(sys.argv[2], 'w'); time.sleep(300)"
)
LOOSELY = (
    f'python3 -c "{LOOSE}" {{node}} /run/held {{how}} </dev/null >/dev/null 2>&1 &'
    " echo $! >/run/holder; until test -e /run/held; do sleep 0.1; done"
)
RDONLY, WRONLY, RDWR, MAPPED = "0", "1", "2", "2 mapped"
LET_GO = "kill $(cat /run/holder); rm -f /run/held /run/holder"
HOLD = 'python3 -c "{code}" {node} /run/held </dev/null >/dev/null 2>&1 & echo $! >/run/holder'


@dataclass(frozen=True)
class Situation:
    """A change to the devices ``z`` (zoned) and ``c`` (companion), and how to undo it.

    ``zoned`` and ``companion`` are the codes of the refusals; '' where that device is left alone.
    """

    name: str
    do: str
    undo: str
    zoned: str = ""
    companion: str = ""
    run: bool = True  # start the campaign as well, which takes longer than a look


SITUATIONS = (
    Situation("ext4", "mkfs.ext4 -qF {c}", "blkdiscard -zf {c}", companion="foreign-signature"),
    Situation("xfs", "mkfs.xfs -qf {c}", "blkdiscard -zf {c}", companion="foreign-signature"),
    Situation("f2fs", "mkfs.f2fs -qf {c}", "blkdiscard -zf {c}", companion="foreign-signature"),
    Situation(
        "btrfs",
        "mkfs.btrfs -qf -O zoned -m single -d single {z}",
        "zbd reset {z}",
        zoned="foreign-signature",
    ),
    Situation(
        "mounted",
        # read-only, so that the file system writes nothing of its own accord
        "mkfs.ext4 -qF {c} && mkdir -p /run/there && mount -o ro,noload {c} /run/there",
        "umount /run/there; blkdiscard -zf {c}",
        companion="mounted",
    ),
    Situation(
        "swap", "mkswap -q {c} && swapon {c}", "swapoff {c}; blkdiscard -zf {c}", companion="swap"
    ),
    Situation(
        "device-mapper",
        "dmsetup create somebody --table '0 2048 linear {c} 0'",
        "dmsetup remove somebody",
        companion="held",
    ),
    Situation(
        "data-in-the-middle",
        "dd if=/dev/urandom of={c} bs=4096 seek=100001 count=1 oflag=direct status=none",
        "blkdiscard -zf {c}",
        companion="not-blank",
    ),
    Situation(
        "zfs-label-at-the-end",
        "printf '\\014\\261\\272\\000\\000\\000\\000\\000' | dd of={c} bs=1 status=none"
        " seek=$(( $(blockdev --getsize64 {c}) - 131072 ))",
        "blkdiscard -zf {c}",
        companion="foreign-signature",
    ),
    Situation(
        "partition-table",
        f'python3 -c "{MBR}" {{c}} && blockdev --rereadpt {{c}}',
        "blkdiscard -zf {c}; blockdev --rereadpt {c}",
        companion="partitioned",
    ),
    Situation(
        "filled-zones",
        "dd if=/dev/urandom of={z} bs=1M count=3 oflag=direct status=none",
        "zbd reset {z}",
        zoned="not-empty",
    ),
    Situation(
        "zenfs",
        "printf ZENF | dd of={z} bs=4096 conv=sync oflag=direct status=none",
        "zbd reset {z}",
        zoned="foreign-signature",
    ),
    Situation("writer", LOOSELY.format(node="{z}", how=WRONLY), LET_GO, zoned="opened"),
    Situation(
        "writer-through-another-node",
        "mknod /dev/lab-node b $(stat -c '0x%t 0x%T' {c}); "
        + LOOSELY.format(node="/dev/lab-node", how=RDWR),
        f"{LET_GO}; rm /dev/lab-node",
        companion="opened",
        run=False,
    ),
    Situation(
        "writer-through-a-bind-mount",
        "touch /run/node; mount --bind {c} /run/node; "
        + LOOSELY.format(node="/run/node", how=WRONLY),
        f"{LET_GO}; umount /run/node; rm /run/node",
        companion="opened",
        run=False,
    ),
    Situation(
        "mapping-without-a-descriptor",
        LOOSELY.format(node="{c}", how=MAPPED),
        LET_GO,
        companion="opened",
    ),
    Situation(
        "reader-of-the-generic-node",
        LOOSELY.format(node="{g}", how=RDONLY),
        LET_GO,
        zoned="opened",
    ),
    Situation(
        "writer-of-the-controller",
        LOOSELY.format(node="{n}", how=RDWR),
        LET_GO,
        zoned="opened",
        companion="opened",
        run=False,
    ),
    Situation(
        "loop-device",
        "modprobe loop; losetup --find --show {c} >/run/loop",
        "losetup -d $(cat /run/loop)",
        companion="exported",
    ),
    Situation(
        "mounted-in-another-namespace",
        "mkfs.ext4 -qF {c} && mkdir -p /run/there; unshare --mount sh -c 'mount -o ro,noload {c}"
        " /run/there && touch /run/held && exec sleep 300' </dev/null >/dev/null 2>&1 &"
        " echo $! >/run/holder; until test -e /run/held; do sleep 0.1; done",
        f"{LET_GO}; sleep 1; blkdiscard -zf {{c}}",
        companion="busy",
        run=False,
    ),
    Situation(
        "opened-exclusively",
        HOLD.format(code=OPEN, node="{z}") + "; until test -e /run/held; do sleep 0.1; done",
        "kill $(cat /run/holder); rm -f /run/held /run/holder",
        zoned="busy",
    ),
)


@pytest.fixture(scope="module")
def campaign(rig: RigHandle, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestRunner]:
    """A campaign that was planned before any change."""
    empty = f"zbd reset {rig.zoned.path}; blkdiscard -f --zeroout {rig.conventional.path}"
    rig.ssh(empty)
    name = f"guard-{time.strftime('%m%d%H%M%S')}"
    own = GuestRunner(rig, tmp_path_factory.mktemp("guard"), name, LEVELS)
    yield own
    own.remove()
    rig.ssh(empty)  # other tests have the companion taken unasked: it has to be blank


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda one: one.name)
def test_nothing_is_written(rig: RigHandle, campaign: GuestRunner, situation: Situation) -> None:
    nodes = {"z": f"/dev/{rig.node(rig.zoned)}", "c": f"/dev/{rig.node(rig.conventional)}"}
    number = rig.node(rig.zoned).removeprefix("nvme")
    nodes |= {"g": f"/dev/ng{number}", "n": f"/dev/nvme{number.partition('n')[0]}"}
    try:
        rig.ssh(situation.do.format(**nodes))
        rig.ssh("sync; udevadm settle")
        before = plays.written(rig), journal(rig)
        seen = inspected(rig, nodes)
        assert seen == (situation.zoned, situation.companion)
        if not situation.run:
            assert (plays.written(rig), journal(rig)) == before
            return
        only = "f2fs--r01" if situation.zoned else "conventional-ext4--r01"
        done = rig.ssh(f"{campaign.command} --only {only}", check=False)
        assert done.exit_code == 3, done.stderr
        assert "hint: " in done.stderr
        rig.ssh("sync")
        assert (plays.written(rig), journal(rig)) == before
    finally:
        rig.ssh(situation.undo.format(**nodes), check=False)


def test_another_device_than_was_planned_for(rig: RigHandle, campaign: GuestRunner) -> None:
    """The name is the same, but the drive behind it has another identity."""
    plan = f"{campaign.there}/plan.json"
    rig.ssh(f"cp {plan} {plan}.kept && sed -i s/{rig.zoned.eui64}/{'f' * 16}/g {plan}")
    try:
        before = plays.written(rig), journal(rig)
        done = rig.ssh(f"{campaign.command} --only f2fs--r01", check=False)
        assert done.exit_code == 3, done.stderr
        assert f"no device has the identity eui.{'f' * 16}" in done.stderr
        assert (plays.written(rig), journal(rig)) == before
    finally:
        rig.ssh(f"mv {plan}.kept {plan}")


def test_readers_are_allowed(rig: RigHandle, campaign: GuestRunner) -> None:
    """Of the devices, and of the controller: what udev and smartd do."""
    nodes = {"z": f"/dev/{rig.node(rig.zoned)}", "c": f"/dev/{rig.node(rig.conventional)}"}
    controller = nodes["z"].rpartition("n")[0]
    try:
        for number, node in enumerate((*nodes.values(), controller)):
            rig.ssh(f"sleep 300 <{node} >/dev/null 2>&1 & echo $! >/run/reader{number}")
        assert inspected(rig, nodes) == ("", "")
    finally:
        rig.ssh("kill $(cat /run/reader?); rm /run/reader?", check=False)


def test_a_node_of_another_drive(rig: RigHandle, campaign: GuestRunner) -> None:
    """The name is the planned one, the drive behind it is the tenants'."""
    node, other = f"/dev/{rig.node(rig.conventional)}", f"/dev/{rig.node(rig.tenants)}"
    try:
        before = plays.written(rig), journal(rig)
        rig.ssh(f"mv {node} /run/kept && mknod {node} b $(stat -c '0x%t 0x%T' {other})")
        done = rig.ssh(f"{campaign.command} --only conventional-ext4--r01", check=False)
        assert done.exit_code == 3, done.stderr
        assert (plays.written(rig), journal(rig)) == before
    finally:
        rig.ssh(f"rm {node}; mv /run/kept {node}", check=False)


# A companion that cannot be trusted: how it is made, its node, how to undo it, the refusal.
UNTRUSTED = {
    "error": (
        "dmsetup create bad --uuid lab-bad --table '0 262144 error'",
        "/dev/mapper/bad",
        "dmsetup remove bad",
        "unreadable",
    ),
    "flakey": (
        "modprobe dm-flakey && dmsetup create bad --uuid lab-bad"
        " --table '0 262144 flakey {c} 0 0 600'",
        "/dev/mapper/bad",
        "dmsetup remove bad",
        "unreadable",
    ),
    "without-a-name": (
        "modprobe loop; truncate -s 64M /run/file && losetup /dev/loop0 /run/file",
        "/dev/loop0",
        "losetup -d /dev/loop0; rm /run/file",
        "identity-unstable",
    ),
    "two-paths": (
        "modprobe scsi_debug dev_size_mb=64 add_host=2 vpd_use_hostno=0 && udevadm settle",
        "{s}",
        "modprobe -r scsi_debug",
        "identity-ambiguous",
    ),
    "one-path": (
        "modprobe scsi_debug dev_size_mb=64 && udevadm settle",
        "{s}",
        "modprobe -r scsi_debug",
        "",
    ),
}


@pytest.mark.parametrize("name", UNTRUSTED)
def test_a_companion_that_cannot_be_trusted(
    rig: RigHandle,
    campaign: GuestRunner,
    name: str,
) -> None:
    do, node, undo, code = UNTRUSTED[name]
    zoned, companion = f"/dev/{rig.node(rig.zoned)}", f"/dev/{rig.node(rig.conventional)}"
    before = plays.written(rig)
    try:
        rig.ssh(do.format(c=companion))
        if node == "{s}":
            node = rig.ssh("ls -d /sys/block/sd* | head -n 1 | sed s,/sys/block,/dev,").stdout
            assert node.startswith("/dev/sd")
        assert inspected(rig, {"z": zoned, "c": node.strip()}) == ("", code)
        assert plays.written(rig) == before
    finally:
        rig.ssh(undo, check=False)


def test_the_kernels_own_page_names_the_drive(
    rig: RigHandle,
    campaign: GuestRunner,
) -> None:
    """zonelab reads the page that a kernel without the attribute ``wwid`` has as well."""
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


def test_without_hostility_something_is_written(rig: RigHandle, campaign: GuestRunner) -> None:
    """The same entry point on allowed devices: proves that the counters can move."""
    before = plays.written(rig)
    done = rig.ssh(f"{campaign.command} --only conventional-ext4--r01", check=False)
    assert done.exit_code == 0, done.stderr
    assert plays.written(rig) != before


def inspected(rig: RigHandle, nodes: dict[str, str]) -> tuple[str, str]:
    """Return the codes of the first refusals: of the zoned device, of the companion."""
    asked = f"python3 {ZIPAPP} inspect {nodes['z']} --conventional {nodes['c']} --format json"
    found = json.loads(rig.ssh(asked).stdout)
    refusals, reason = found["refusals"], found["conventional_reason"]
    return (refusals[0]["code"] if refusals else "", reason["code"] if reason else "")


def journal(rig: RigHandle) -> str:
    """Return the length of the journal: a claim would be in it."""
    path = Path("/var/lib/zonelab/journal.jsonl")
    return rig.ssh(f"wc -l {path} 2>/dev/null || echo none", check=False).stdout
