"""Checks that apply to every rig, whatever its distribution."""

from __future__ import annotations

import re

from harness.rig.native_build import source_hash
from harness.rig.recipe import NATIVE

from .conftest import RigHandle

MIB = 1 << 20
ZONES_TO_WRITE = 4
TOOLS = (
    "db_bench",
    "mkfs.f2fs",
    "mkfs.btrfs",
    "mkfs.xfs",
    "mkfs.ext4",
    "zbd",
    "nvme",
    "fio",
    "dmsetup",
    "bpftrace",
)


def geometry_is_the_files(rig: RigHandle) -> None:
    """Sysfs and the zone report match the rig's file."""
    for wanted, device in zip(rig.model.namespaces, rig.state.devices, strict=True):
        node = rig.node(device)
        queue = f"/sys/block/{node}/queue"
        blocks = int(rig.ssh(f"cat /sys/block/{node}/size").stdout) * 512
        assert blocks == wanted.length
        assert int(rig.ssh(f"cat {queue}/logical_block_size").stdout) == 4096
        model = rig.ssh(f"cat {queue}/zoned").stdout.strip()
        if not wanted.zoned:
            assert model == "none"
            continue
        assert model == "host-managed"
        numbers = rig.ssh(
            f"cat {queue}/nr_zones {queue}/chunk_sectors"
            f" {queue}/max_active_zones {queue}/max_open_zones"
        ).stdout.split()
        assert wanted.zone_size is not None
        assert list(map(int, numbers)) == [
            wanted.zones,
            wanted.zone_size // 512,
            wanted.max_active,
            wanted.max_open,
        ]
        header, *zones = (
            [field.strip() for field in line.split(",")]
            for line in rig.ssh(f"zbd report -csv /dev/{node}").stdout.splitlines()
            if "," in line
        )
        capacities = [int(zone[header.index("cap")]) for zone in zones]
        assert capacities == [wanted.zone_capacity] * (wanted.zones or 0)


def identities_are_set(rig: RigHandle) -> None:
    """The drive reports EUI-64 and UUID, whether or not the kernel uses them."""
    for wanted, device in zip(rig.model.namespaces, rig.state.devices, strict=True):
        node = rig.node(device)
        identified = rig.ssh(f"nvme id-ns /dev/{node}; nvme ns-descs /dev/{node}").stdout
        assert wanted.eui in identified
        assert wanted.uuid in identified
        serial = rig.ssh(f"cat /sys/block/{node}/device/serial").stdout.strip()
        assert serial == rig.model.nvme[0].serial


def write_zones(rig: RigHandle) -> tuple[int, int]:
    """Fill zones of the tenants' namespace; bytes by QEMU's count and by the guest's."""
    node = rig.node(rig.tenants)
    namespace = next(ns for ns in rig.model.namespaces if ns.nsid == rig.tenants.nsid)
    assert namespace.zone_size is not None
    assert namespace.zone_capacity is not None
    # Kernels before 6.10 order writes to zones with this scheduler only; later ones ignore it.
    rig.ssh(f"echo mq-deadline > /sys/block/{node}/queue/scheduler")
    rig.ssh(f"zbd reset /dev/{node}")

    def sectors() -> int:
        return int(rig.ssh(f"cat /sys/block/{node}/stat").stdout.split()[6])

    before = (rig.counters(rig.tenants).wr_bytes, sectors())
    for zone in range(ZONES_TO_WRITE):
        rig.ssh(
            f"dd if=/dev/urandom of=/dev/{node} bs=1M oflag=direct status=none"
            f" seek={zone * namespace.zone_size // MIB} count={namespace.zone_capacity // MIB}"
        )
    after = (rig.counters(rig.tenants).wr_bytes, sectors())
    return after[0] - before[0], (after[1] - before[1]) * 512


def programs_are_there(rig: RigHandle) -> None:
    """Native programs built from this checkout's source, and the distribution's tools."""
    prefix = "/usr/local/lib/zonelab/native"
    built = rig.ssh(f"cat {prefix}/SOURCE_HASH").stdout.strip()
    assert built == source_hash(NATIVE)
    for program in ("bin/coldfill", "bin/zlfs", "test/zlfs-torture", "test/zlfs_zoned_test"):
        assert rig.ssh(f"{prefix}/{program} --help", check=False).stdout, program
    for tool in TOOLS:
        rig.ssh(f"command -v {tool}")


def consent_in(text: str, eui64: str) -> str:
    """Return the consent for a namespace that a refusal or a play prints."""
    found = re.search(rf"erase=(eui\.{eui64}@[0-9a-f]{{8}})", text)
    assert found, text
    return found[1]
