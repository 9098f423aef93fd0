"""Identities of drives without NVMe's, and what happens where there is none.

Pages of vital product data are built after SPC-4, 7.8.6; tests/rig reads those of a kernel.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.machine.guard import Guard
from harness.machine.journal import Journal
from harness.observe import vpd
from harness.run.recover import mapped
from tests.runner.fakes import FakeHost, make_machine, write_tree

NAA = bytes.fromhex("5000c500a1b2c3d4")
LONG_NAA = bytes.fromhex("600140512345678900000000abcdef01")
EUI = bytes.fromhex("0025385b71b00001")
T10 = b"ATA     QEMU HARDDISK                           QM00001 "


def designator(kind: int, value: bytes, association: int = 0) -> bytes:
    return bytes([1, association << 4 | kind, 0, len(value)]) + value


def page(*designators: bytes, code: int = 0x83) -> bytes:
    body = b"".join(designators)
    return bytes([0, code]) + len(body).to_bytes(2, "big") + body


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (page(designator(1, T10), designator(2, EUI), designator(3, NAA)), f"naa.{NAA.hex()}"),
        (page(designator(1, T10), designator(2, EUI)), f"eui.{EUI.hex()}"),
        (page(designator(1, b"ACME    disk 1")), "t10.ACME    disk 1"),
        (page(designator(3, NAA), designator(3, LONG_NAA)), f"naa.{LONG_NAA.hex()}"),
        # of the port and of the target: every unit behind them has the same
        (page(designator(3, NAA, 1), designator(3, NAA, 2)), ""),
        (page(designator(3, NAA, 1), designator(1, T10)), f"t10.{T10.decode()}"),
        (page(designator(4, b"\0\0\0\1")), ""),  # relative target port
        (page(designator(3, b"")), ""),
        (page(designator(3, NAA))[:-1], ""),  # cut off
        (page(designator(3, NAA), code=0x80), ""),
        (b"", ""),
    ],
)
def test_the_best_designator_of_the_unit(data: bytes, name: str) -> None:
    assert vpd.name(data) == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("naa.5000c500a1b2c3d4\n", "naa.5000c500a1b2c3d4"),
        (f"t10.{T10.decode()}", "t10.ATA_QEMU_HARDDISK_QM00001"),
        ("naa.0000000000000000", ""),
        ("t10.ACME            ", ""),
        ("000000000000", ""),
        ("   ", ""),
        ("S/N 12,3", "S_N_12_3"),  # a key is one word of a list and part of a file's name
    ],
)
def test_names_that_only_fill_a_field_are_none(text: str, name: str) -> None:
    assert vpd.usable(text) == name


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    make_machine(tmp_path)
    return FakeHost(tmp_path)


def disk(host: FakeHost, name: str, number: int, **attributes: str | bytes) -> None:
    """Add a disk; ``wwid``, ``vpd_pg83`` and ``vpd_pg80`` are its device's."""
    block = host.sysfs.block(name)
    common = {"dev": f"8:{number}", "ro": "0", "size": "65536", "queue/zoned": "none"}
    write_tree(block, common | {"queue/logical_block_size": "4096"})
    (block / "holders").mkdir()
    (block / "device").mkdir()
    for attribute, value in attributes.items():
        file = block / ("serial" if attribute == "virtio" else f"device/{attribute}")
        file.write_bytes(value if isinstance(value, bytes) else value.encode())
    with (host.sysfs.dev / name).open("wb") as file:
        file.truncate(65536 * 512)


def codes(host: FakeHost, name: str) -> list[str]:
    guard = Guard(host, Journal(host.root / "journal.jsonl"))
    return [reason.code for reason in guard.examine(host.device(name))]


@pytest.mark.parametrize(
    ("attributes", "key"),
    [
        ({"wwid": "naa.5000c500a1b2c3d4\n", "serial": "Z1"}, "naa.5000c500a1b2c3d4:0"),
        ({"vpd_pg83": page(designator(3, NAA))}, f"naa.{NAA.hex()}:0"),
        ({"vpd_pg80": page(b"ZCT0A1B2 ", code=0x80)}, "ZCT0A1B2:0"),
        ({"wwid": "", "vpd_pg80": page(b"ZCT0A1B2 ", code=0x80)}, "ZCT0A1B2:0"),
        ({"virtio": "lab-disk-7"}, "lab-disk-7:0"),
    ],
)
def test_a_stable_name_is_the_identity(
    host: FakeHost, attributes: dict[str, str | bytes], key: str
) -> None:
    disk(host, "sda", 0, **attributes)
    assert host.device("sda").identity.key == key
    assert codes(host, "sda") == []
    host.sysfs.block("sda").rename(host.sysfs.block("sdb"))  # the next boot
    (host.sysfs.dev / "sda").rename(host.sysfs.dev / "sdb")
    assert host.device("sdb").identity.key == key


def test_a_kernel_name_is_no_identity(host: FakeHost) -> None:
    """The device can be inspected, but nothing destroys it, whatever the user names."""
    disk(host, "sda", 0, wwid="naa.0000000000000000", vpd_pg80=page(b"    ", code=0x80))
    device = host.device("sda")
    assert not device.identity.stable
    assert codes(host, "sda") == ["identity-unstable"]
    guard = Guard(host, Journal(host.root / "journal.jsonl"), [device.identity.key])
    assert [reason.code for reason in guard.examine(device)] == ["identity-unstable"]


def test_a_partition_is_as_stable_as_its_disk(host: FakeHost) -> None:
    for name, number, wwid in (("sda", 0, "naa.5000c500a1b2c3d4"), ("sdb", 16, "")):
        disk(host, name, number, wwid=wwid)
        part = host.sysfs.block(name) / f"{name}1"
        write_tree(part, {"partition": "1", "dev": f"8:{number + 1}", "size": "8"})
        host.sysfs.block(f"{name}1").symlink_to(part)
    assert host.sysfs.identity("sda1").stable
    assert not host.sysfs.identity("sdb1").stable


def test_two_paths_to_one_unit(host: FakeHost) -> None:
    """Also after a rescan that swapped the paths' names, and with a mapping above both."""
    for name, number in (("sda", 0), ("sdc", 32)):
        disk(host, name, number, wwid="naa.5000c500a1b2c3d4")
    assert codes(host, "sda") == codes(host, "sdc") == ["identity-ambiguous"]
    write_tree(host.sysfs.block("dm-0"), {"dm/name": "mpatha", "dm/uuid": "mpath-3600a"})
    for name in ("sda", "sdc"):
        (host.sysfs.block(name) / "holders/dm-0").mkdir()
        assert codes(host, name) == ["held", "identity-ambiguous"]
    assert host.sysfs.identity("dm-0").key == "mpath-3600a:0"


@pytest.mark.parametrize(
    ("name", "uuid", "removed"),
    [
        ("zonelab-nvme0n1", "zonelab-nvme0n1", True),
        ("zonelab-nvme0n1", "", False),
        ("zonelab-nvme0n1", "LVM-zonelab-x", False),
        ("zl-0123abcd", "dmz-1111", False),
    ],
)
def test_a_mapping_is_ours_by_its_uuid(
    host: FakeHost, name: str, uuid: str, *, removed: bool
) -> None:
    write_tree(host.sysfs.block("dm-0"), {"dm/name": name, "dm/uuid": uuid})
    assert mapped(host, Journal(host.root / "journal.jsonl")) == ([name] if removed else [])
