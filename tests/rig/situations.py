"""States of devices that the guard must refuse, and the shell lines that make each."""

from __future__ import annotations

from dataclasses import dataclass

# An MBR with one Linux partition of 65,536 blocks.
MBR = (
    "import struct,sys; entry = struct.pack('<B3xB3xII', 0, 0x83, 2048, 65536);"
    " open(sys.argv[1], 'r+b').write(bytes(446) + entry + bytes(48) + bytes([0x55, 0xAA]))"
)
# Opens a device exclusively, makes a file, and keeps the device until it is ended.
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
        "suspended-mapping-above",
        "dmsetup create somebody --table '0 2048 linear {c} 0' && dmsetup suspend somebody",
        "dmsetup resume somebody; dmsetup remove somebody",
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

# A drive of the kernel's own SCSI target (LIO), which holds persistent reservations: scsi_debug has
# no such command. Each port makes a path to it, which the kernel finds as a drive /dev/sd*.
TARGET_MODULES = "modprobe -a target_core_mod tcm_loop"
_CONFIGFS = "(mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config)"
_TARGET = "/sys/kernel/config/target"
_PORTS = [f"{_TARGET}/loopback/naa.60014050000000a{number}" for number in (1, 3)]
_BACK = f"{_TARGET}/core/rd_mcp_0/lab"
_PORT = (
    "mkdir -p {port}/tpgt_1/lun/lun_0 && echo naa.60014050000000af >{port}/tpgt_1/nexus"
    f" && ln -s {_BACK} {{port}}/tpgt_1/lun/lun_0/lab && udevadm settle"
)
_NO_PORT = (
    "rm -f {port}/tpgt_1/lun/lun_0/lab; rmdir {port}/tpgt_1/lun/lun_0 {port}/tpgt_1 {port}"
    " 2>/dev/null; "
)
TARGET = (
    f"{TARGET_MODULES} && {_CONFIGFS} && mkdir -p {_BACK} && echo rd_pages=16384 >{_BACK}/control"
    f" && echo 1 >{_BACK}/enable && echo 60014050000000b1 >{_BACK}/wwn/vpd_unit_serial && "
    + _PORT.format(port=_PORTS[0])
)
NO_TARGET = (
    "".join(_NO_PORT.format(port=port) for port in _PORTS)
    + f"rmdir {_BACK} {_TARGET}/core/rd_mcp_0 {_TARGET}/loopback; modprobe -r tcm_loop"
)
# Registers a key, then reserves (linux/pr.h): argv is node and type, 0 for a key alone.
RESERVE = (
    "import fcntl,os,struct,sys; fd = os.open(sys.argv[1], os.O_RDWR); kind = int(sys.argv[2]);"
    " fcntl.ioctl(fd, 0x401870c8, struct.pack('<QQII', 0, 1, 0, 0));"
    " kind and fcntl.ioctl(fd, 0x401070c9, struct.pack('<QII', 1, kind, 0))"
)
FIRST_PATH = "$(ls -d /sys/block/sd* | head -n 1 | sed s,/sys/block,/dev,)"
MULTIPATH = (
    "modprobe -a dm-multipath dm-round-robin && set -- $(cat /sys/block/sd*/dev)"
    " && dmsetup create lab-paths --uuid lab-paths --table"
    f' "0 $(blockdev --getsz {FIRST_PATH}) multipath 0 0 1 1 round-robin 0 2 1 $1 1 $2 1"'
)

# The names of two SCSI drives change places: both are removed, and found again the other way round.
RENUMBER = (
    "first=$(basename $(readlink -f /sys/block/sda/device));"
    " second=$(basename $(readlink -f /sys/block/sdb/device));"
    " echo 1 >/sys/block/sda/device/delete; echo 1 >/sys/block/sdb/device/delete; udevadm settle;"
    " for one in $second $first; do IFS=: read host channel target lun <<EOF\n$one\nEOF\n"
    ' echo "$channel $target $lun" >/sys/class/scsi_host/host$host/scan; udevadm settle; done'
)

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
    "reserved": (
        f'{TARGET} && python3 -c "{RESERVE}" {FIRST_PATH} 1',
        "{s}",
        NO_TARGET,
        "reserved",
    ),
    "registered": (
        f'{TARGET} && python3 -c "{RESERVE}" {FIRST_PATH} 0',
        "{s}",
        NO_TARGET,
        "reserved",
    ),
    "target-without-reservation": (TARGET, "{s}", NO_TARGET, ""),
    "path-of-a-multipath-map": (
        f"{TARGET} && {_PORT.format(port=_PORTS[1])} && {MULTIPATH}",
        "{s}",
        f"dmsetup remove lab-paths; {NO_TARGET}",
        "held",
    ),
    "one-path": (
        "modprobe scsi_debug dev_size_mb=64 && udevadm settle",
        "{s}",
        "modprobe -r scsi_debug",
        "",
    ),
}

# A mapping whose reads never end: the table of the mapping, and what lies above it.
SUSPENDED = {
    "itself": "ln -s /dev/mapper/slow /run/named",
    "below": "dmsetup create above --table '0 1024 linear /dev/mapper/slow 0'"
    " && ln -s /dev/mapper/above /run/named",
}
