"""Every refusal of the device guard on fake machines, and ownership of devices."""

from __future__ import annotations

import errno
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import levels
from harness.errors import GuardRefused
from harness.machine.guard import Guard, companion
from harness.machine.journal import JournalEntry, JournalEvent
from harness.observe import signatures
from harness.observe.zone_reports import ZoneCondition, ZoneType
from harness.run.inspection import inspect, require_zoned
from harness.run.recover import release
from harness.store.spec import Device
from harness.tools import proc
from tests.fixtures import claims
from tests.runner.fakes import (
    FakeLevel,
    put_btrfs,
    set_diskstats,
    set_zones,
    write_tree,
)


class Lab(claims.Lab):
    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.device = self.zoned
        self.written = 0

    def code(self, device: Device | None = None) -> str | None:
        reasons = self.guard.examine(device or self.device)
        return reasons[0].code if reasons else None

    def write(
        self, event: JournalEvent, label: str = "zl-1", fingerprint: str | None = None
    ) -> None:
        key, partner = self.device.identity.key, self.conventional.identity.key
        self.journal.append(
            JournalEntry(event, key, "c", "r", "fake", label, partner, fingerprint, "t", "b")
        )

    def poke(self, name: str, offset: int, data: bytes) -> None:
        with (self.root / "dev" / name).open("r+b") as file:
            file.seek(offset)
            file.write(data)
        self.written += 4096
        set_diskstats(self.root, self.written, self.written)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_empty_device_is_allowed(lab: Lab) -> None:
    assert lab.code() is None


def test_not_zoned(lab: Lab) -> None:
    with pytest.raises(GuardRefused, match="is not a zoned block device") as caught:
        require_zoned(lab.conventional)
    assert (caught.value.code, caught.value.exit_code) == ("not-zoned", 3)


def test_missing(lab: Lab) -> None:
    with pytest.raises(GuardRefused) as caught:
        lab.host.device("nvme7n1")
    assert caught.value.code == "missing"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("9 1 259:2 / /mnt rw - f2fs /dev/x rw\n", "mounted"),
        ("9 1 0:44 / /mnt rw - btrfs {dev}/nvme0n2 rw\n", "mounted"),  # anonymous number
        ("9 1 0:44 / /mnt rw - btrfs {dev}/by-id/drive rw\n", "mounted"),  # a link
        ("9 1 259:2 / / rw - f2fs /dev/x rw\n", "root"),
    ],
)
def test_mounted(lab: Lab, line: str, code: str) -> None:
    (lab.root / "dev/by-id").mkdir()
    (lab.root / "dev/by-id/drive").symlink_to("../nvme0n2")
    (lab.root / "proc/self/mountinfo").write_text(line.format(dev=lab.root / "dev"))
    assert lab.code() == code


def test_mounted_through_device_mapper(lab: Lab) -> None:
    block = lab.root / "sys/class/block"
    write_tree(block / "dm-0", {"dev": "253:0", "dm/name": "vault"})
    (block / "nvme0n1/holders/dm-0").mkdir()
    assert lab.code(lab.conventional) == "held"
    (lab.root / "proc/self/mountinfo").write_text("9 1 253:0 / /srv rw - ext4 /dev/dm-0 rw\n")
    assert lab.code(lab.conventional) == "mounted"


@pytest.mark.parametrize("below", ["", "nvme0n1", "nvme0n1/dm-1"])
def test_a_suspended_mapping_is_never_read(
    lab: Lab, below: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The read would wait for ever. The mapping can be the device, or lie below it."""
    block = lab.root / "sys/class/block"
    own = {"dm/name": "slow", "dm/suspended": "1", "dev": "253:1"}
    write_tree(block / "dm-1", own)
    if below == "":
        write_tree(block / "nvme0n1", {"dm/name": "slow", "dm/suspended": "1"})
    else:
        write_tree(
            block / "dm-0", {"dm/suspended": "0", "slaves/nvme0n2/x": "", "slaves/dm-1/x": ""}
        )
        (block / "nvme0n1/slaves" / below.rpartition("/")[2].replace("nvme0n1", "dm-0")).mkdir(
            parents=True
        )

    def read(*_: object) -> bytes:
        raise AssertionError("the suspended device was read")

    for name in ("read", "read_each", "first_data", "magics"):
        monkeypatch.setattr(lab.host, name, read)
    (reason,) = lab.guard.examine(lab.conventional)
    assert reason.code == "suspended"
    assert "dmsetup resume slow" in reason.hint
    with pytest.raises(GuardRefused) as caught:
        lab.host.device("nvme0n1")
    assert caught.value.code == "suspended"


def test_a_resumed_mapping_is_read(lab: Lab) -> None:
    write_tree(lab.root / "sys/class/block/nvme0n1", {"dm/name": "slow", "dm/suspended": "0"})
    assert lab.code(lab.conventional) is None


def test_partitioned(lab: Lab) -> None:
    write_tree(lab.root / "sys/class/block/nvme0n1/nvme0n1p1", {"partition": "1"})
    assert lab.code(lab.conventional) == "partitioned"


def test_swap(lab: Lab) -> None:
    swaps = lab.root / "proc/swaps"
    header, file = swaps.read_text(), "/swapfile file 1 0 -3\n"
    swaps.write_text(f"{header}{file}")
    assert lab.code(lab.conventional) is None
    swaps.write_text(f"{header}{lab.root}/dev/nvme0n1 partition 1 0 -2\n{file}")
    assert lab.code(lab.conventional) == "swap"


def test_busy(lab: Lab) -> None:
    (lab.root / "busy-nvme0n2").touch()
    assert lab.code() == "busy"


def test_read_only(lab: Lab) -> None:
    (lab.root / "sys/class/block/nvme0n2/ro").write_text("1")
    assert lab.code() == "read-only"


def test_a_device_whose_writes_are_not_counted(lab: Lab) -> None:
    """All proofs that nobody wrote compare the kernel's counts."""
    block, part = lab.root / "sys/class/block", partition(lab)
    for node, device in (
        ("nvme0n2", lab.device),
        ("nvme0c0n2", lab.device),  # a path of the drive
        ("nvme0n1", lab.conventional),
        ("nvme0n1", part),
    ):
        write_tree(block / node, {"queue/iostats": "0"})
        without_queues = lab.code(device)
        assert without_queues != "writes-uncounted"
        (block / node / "mq").mkdir()
        reason = next(r for r in lab.guard.examine(device) if r.code == "writes-uncounted")
        assert (f" {node}," in reason.message, f"/{node}/queue/" in reason.hint) == (True, True)
        write_tree(block / node, {"queue/iostats": "1"})
        assert lab.code(device) == without_queues
        (block / node / "mq").rmdir()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("offset", "magic", "kind"),
    [
        (0x438, b"\x53\xef", "ext"),
        (0, b"XFSB", "xfs"),
        (0x10040, b"_BHRfS_M", "btrfs"),
        (0x400, b"\x10\x20\xf5\xf2", "f2fs"),
        (0x200, b"LABELONE", "lvm2"),
        (0x1000, b"\xfc\x4e\x2b\xa9", "md"),
        (512, b"EFI PART", "gpt"),
        (510, b"\x55\xaa", "mbr"),
        (4086, b"SWAPSPACE2", "swap"),
        (0, b"LUKS\xba\xbe", "luks"),
        (0, b"ZENF", "zenfs"),
        (8, b"FNEZ", "zenfs"),
        (0, b"DBZD", "dm-zoned"),
    ],
)
def test_foreign_signature(lab: Lab, offset: int, magic: bytes, kind: str) -> None:
    for device in (lab.device, lab.conventional):
        lab.poke(Path(device.path).name, offset, magic)
        content = Path(device.path).read_bytes()
        reason = lab.guard.examine(device)[0]
        assert reason.code == "foreign-signature"
        assert f"carries {kind}" in reason.message
        assert f"erase={device.identity.key}@" in reason.hint
        assert Path(device.path).read_bytes() == content


def test_labels_are_read() -> None:
    disk = bytearray(2 << 20)
    disk[0x400:0x404] = b"\x10\x20\xf5\xf2"
    disk[0x47C : 0x47C + 12] = "zl-abc".encode("utf-16-le")
    found = signatures.find(
        lambda offset, length: bytes(disk[offset : offset + length]), None, levels.signatures()
    )
    assert [(s.kind, s.label) for s in found] == [("f2fs", "zl-abc")]


def test_zones_that_are_not_empty(lab: Lab) -> None:
    set_zones(lab.root, {5: 4096})
    assert lab.code() == "not-empty"


def test_unfinished_claim_with_our_label(lab: Lab) -> None:
    set_zones(lab.root, {0: 4096, 5: 4096})
    put_btrfs(lab.root / "dev/nvme0n2", "zl-1")
    assert lab.code() == "foreign-signature"
    lab.write(JournalEvent.CLAIM)
    lab.write(JournalEvent.UP)
    assert lab.code() is None
    lab.poke("nvme0n2", 4096, b"\xfc\x4e\x2b\xa9")  # another program's, beside the label
    assert lab.code() == "foreign-signature"


def test_unfinished_claim_with_another_label(lab: Lab) -> None:
    put_btrfs(lab.root / "dev/nvme0n2", "theirs")
    lab.write(JournalEvent.CLAIM)
    assert lab.code() == "foreign-signature"


def test_killed_while_formatting(lab: Lab) -> None:
    set_zones(lab.root, {0: 4096})
    lab.write(JournalEvent.CLAIM)
    assert lab.code() == "not-empty"  # nothing proves that zonelab wrote it
    lab.write(JournalEvent.CLAIM, fingerprint=lab.guard.fingerprint(lab.device))
    assert lab.code() is None  # killed before the first byte
    set_zones(lab.root, {0: 8192})
    assert lab.code() == "not-empty"


def test_data_without_a_signature_counts_after_a_clean_release(lab: Lab) -> None:
    key, device = lab.conventional.identity.key, lab.conventional
    lab.journal.append(
        JournalEntry(
            JournalEvent.RELEASE,
            key,
            "c",
            "r",
            "fake",
            "zl-1",
            "",
            lab.guard.fingerprint(device),
            "t",
            "b",
        )
    )
    spots = signatures.samples(device.size)
    assert lab.code(device) is None
    lab.poke("nvme0n1", spots[30][0], b"precious")
    assert lab.code(device) == "not-blank"


def test_conventional_zones_with_data(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = lab.host.zones(lab.device.path)
    plain = replace(empty[0], type=ZoneType.CONVENTIONAL, condition=ZoneCondition.NOT_WRITE_POINTER)
    monkeypatch.setattr(lab.host, "zones", lambda *_: [plain, *empty[1:]])
    assert lab.code() is None
    lab.poke("nvme0n2", 4096, b"precious")
    assert lab.code() == "not-blank"


def partition(lab: Lab) -> Device:
    """Give nvme0n1 a blank partition."""
    block = lab.root / "sys/class/block"
    write_tree(block / "nvme0n1/nvme0n1p1", {"partition": "1", "dev": "259:9", "size": "2048"})
    (block / "nvme0n1p1").symlink_to(block / "nvme0n1/nvme0n1p1")
    (lab.root / "dev/nvme0n1p1").write_bytes(bytes(1 << 20))
    return lab.host.device("nvme0n1p1")


def test_a_partition_of_a_disk_that_is_used_as_a_whole(lab: Lab) -> None:
    block = lab.root / "sys/class/block"
    device = partition(lab)
    assert lab.code(device) is None
    mounts, number = lab.root / "proc/self/mountinfo", lab.host.sysfs.text("nvme0n1", "dev")
    before = mounts.read_text()
    mounts.write_text(f"9 1 {number} / /mnt rw - ext4 /dev/x rw\n")
    assert lab.code(device) == "mounted"
    mounts.write_text(before)
    write_tree(block / "dm-0", {"dev": "253:0", "dm/name": "mpatha"})
    (block / "nvme0n1/holders/dm-0").mkdir()
    (reason,) = lab.guard.examine(device)
    assert (reason.code, reason.message.rpartition(" ")[2]) == ("held", "mpatha")


def test_a_partition_on_two_paths_is_refused(lab: Lab) -> None:
    block = lab.root / "sys/class/block"
    device = partition(lab)
    shutil.copytree(block / "nvme0n1", block / "nvme0n9", symlinks=True)
    (block / "nvme0n9/nvme0n1p1").rename(block / "nvme0n9/nvme0n9p1")
    assert lab.code(device) is None
    (block / "nvme0n9p1").symlink_to(block / "nvme0n9/nvme0n9p1")
    assert lab.code(device) == "identity-ambiguous"


def test_label_on_the_partner_proves_ownership(lab: Lab) -> None:
    set_zones(lab.root, {5: 4096})  # f2fs data: no signature on the zoned device
    lab.write(JournalEvent.CLAIM)
    lab.write(JournalEvent.UP)
    assert lab.guard.examine(lab.device, lab.conventional)[0].code == "not-empty"
    put_btrfs(lab.root / "dev/nvme0n1", "zl-1")
    assert lab.guard.examine(lab.device, lab.conventional) == []
    assert lab.code() == "not-empty"  # and only with the same partner


def test_a_clean_release_counts_until_the_device_is_written(lab: Lab) -> None:
    set_zones(lab.root, {5: 4096})
    lab.write(JournalEvent.RELEASE, fingerprint=lab.guard.fingerprint(lab.device))
    assert lab.code() is None
    set_zones(lab.root, {5: 8192})
    assert lab.code() == "not-empty"


def killed(lab: Lab, *, formatted: bool = True) -> None:
    """Leave the traces of a killed run on two devices: data on one, the label on the other."""
    for event in (JournalEvent.CLAIM, JournalEvent.UP)[: 1 + formatted]:
        # Not in the order of a wipe: the label proves what is on both, and goes last.
        for own, other in ((lab.conventional, lab.device), (lab.device, lab.conventional)):
            lab.journal.append(
                JournalEntry(
                    event,
                    own.identity.key,
                    "c",
                    "r",
                    "fake",
                    "zl-1",
                    other.identity.key,
                    None,
                    "t",
                    lab.host.boot_id(),
                )
            )
    set_zones(lab.root, {5: 4096})
    if formatted:
        put_btrfs(lab.root / "dev/nvme0n1", "zl-1")


def released(lab: Lab, *planned: Device) -> list[str]:
    """Recover, and check that a recovery without a message writes nothing."""
    entries, contents = lab.journal.entries(), lab.contents()
    reasons = release(lab.host, lab.journal, lab.guard, planned or (lab.device, lab.conventional))
    if not reasons:
        assert (lab.journal.entries(), lab.contents()) == (entries, contents)
    return reasons


@pytest.mark.slow
def test_data_of_a_killed_run_is_released_only_while_proved_ours(lab: Lab) -> None:
    killed(lab)
    assert released(lab) == [
        f"wiped {lab.device.path} and {lab.conventional.path}: r of campaign c was killed there"
    ]
    assert [entry.event for entry in lab.journal.entries()[-2:]] == [JournalEvent.RELEASE] * 2
    lab.poke("nvme0n1", 0, b"XFSB")  # the next level's own
    assert lab.code() is None
    assert released(lab) == []


def test_recovery_holds_the_devices_until_their_release_is_recorded(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fingerprint of a device that others formatted meanwhile would make it zonelab's."""
    killed(lab)
    devices, busy = (lab.device, lab.conventional), list[list[bool]]()
    claims.spy(
        monkeypatch,
        lab.journal,
        "append",
        lambda: busy.append([lab.host.is_busy(device.path) for device in devices]),
    )
    assert release(lab.host, lab.journal, lab.guard, devices)
    assert busy == [[True, True]] * 2
    assert not any(lab.host.is_busy(device.path) for device in devices)


def test_a_label_releases_no_conventional_device_after_a_restart(lab: Lab) -> None:
    """Others may have written to it in between, and the label is still there."""
    killed(lab)
    boot = lab.root / "proc/sys/kernel/random/boot_id"
    boot.write_text("00000000-0000-0000-0000-000000000002\n")
    assert released(lab) == []
    assert lab.guard.examine(lab.conventional, lab.device)[0].code == "unproved"
    assert lab.guard.examine(lab.device, lab.conventional) == []


@pytest.mark.slow
def test_what_is_not_proved_ours_is_not_released(lab: Lab) -> None:
    killed(lab, formatted=False)
    assert released(lab) == []  # no label anywhere
    killed(lab)
    assert released(lab, lab.conventional) == []  # a device without a name
    moved = replace(lab.device, size=lab.device.size // 2)
    assert released(lab, moved, lab.conventional) == []
    (lab.root / "busy-nvme0n2").touch()
    assert released(lab) == []
    (lab.root / "busy-nvme0n2").unlink()
    put_btrfs(lab.root / "dev/nvme0n2", "precious")
    assert released(lab) == []
    put_btrfs(lab.root / "dev/nvme0n2", "zl-1")
    lab.write(JournalEvent.RELEASE, fingerprint="x")  # the run put itself down, then others wrote
    assert released(lab) == []


@pytest.mark.parametrize(
    ("zoned", "plain", "proved"),
    [
        ("", "zl-1", True),
        ("zl-1", "zl-1", True),
        ("", "", False),
        ("", "zl-2", False),
        ("precious", "zl-1", False),
    ],
)
def test_only_the_label_of_the_run_alone_proves_a_killed_run(
    lab: Lab, zoned: str, plain: str, *, proved: bool
) -> None:
    for device, label in ((lab.device, zoned), (lab.conventional, plain)):
        if label:
            put_btrfs(Path(device.path), label)

    def proves(*, held: bool) -> bool:
        devices = (lab.device, lab.conventional)
        return lab.guard.proves("zl-1", lab.host.boot_id(), devices, held=held)

    assert proves(held=False) is proved
    (lab.root / "busy-nvme0n1").touch()
    assert not proves(held=False)
    assert proves(held=True) is proved  # this process has it open


def test_a_device_that_cannot_be_read_is_left_to_the_guard(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(lab)

    def read(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as failing:
        failing.setattr(lab.host, "read", read)
        failing.setattr(lab.host, "read_each", read)
        assert released(lab) == []
        assert lab.code(lab.conventional) == "unreadable"
    assert len(released(lab)) == 1


def test_what_changes_before_the_devices_are_held_is_not_released(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first look proves them, the second one, through the descriptors, does not."""
    killed(lab)
    looks: list[bool] = []

    def proves(*_: object, held: bool = False) -> bool:
        looks.append(held)
        return not held

    monkeypatch.setattr(lab.guard, "proves", proves)
    assert released(lab) == []
    assert looks == [False, True]


def test_use_is_rechecked_right_before_a_write(lab: Lab) -> None:
    lab.guard.require(lab.device)
    lab.guard.require_unused(lab.device)
    (lab.root / "busy-nvme0n2").touch()
    for check in (lab.guard.require, lab.guard.require_unused):
        with pytest.raises(GuardRefused) as caught:
            check(lab.device)
        assert caught.value.code == "busy"
    # This process has it open exclusively.
    lab.guard.require(lab.device, held=True)
    lab.guard.require_unused(lab.device, Path(lab.device.path))
    (lab.root / "sys/class/block/nvme0n2/holders/dm-7").mkdir(parents=True)
    with pytest.raises(GuardRefused) as caught:
        lab.guard.require_unused(lab.device, Path(lab.device.path))
    assert caught.value.code == "held"


def test_geometry_is_rechecked_and_a_device_may_be_gone(lab: Lab) -> None:
    for field in ("size", "zone_size", "zone_capacity"):
        half: dict[str, Any] = {field: getattr(lab.device, field) // 2}
        for check in (lab.guard.check_identity, lab.host.find):
            with pytest.raises(GuardRefused) as caught:
                check(replace(lab.device, **half))
            assert caught.value.code == "geometry-changed"
    shutil.rmtree(lab.root / "sys/class/block/nvme0n2")
    with pytest.raises(GuardRefused, match="now it is gone") as caught:
        lab.guard.check_identity(lab.device)
    assert caught.value.code == "identity-changed"


def test_identity_is_rechecked(lab: Lab) -> None:
    lab.guard.check_identity(lab.device)
    (lab.root / "sys/class/block/nvme0n2/eui").write_text("52 54 00 00 00 00 00 77")
    with pytest.raises(GuardRefused, match=r"now it is eui\.5254000000000077") as caught:
        lab.guard.check_identity(lab.device)
    assert caught.value.code == "identity-changed"


def test_device_is_found_under_another_name(lab: Lab) -> None:
    planned = replace(lab.device, path=str(lab.root / "dev" / "nvme0n9"))
    assert lab.host.find(planned).path == lab.device.path


def test_a_path_of_a_drive_is_not_the_device(lab: Lab) -> None:
    """A path node has the identity of its namespace, comes first by name, and has no /dev node."""
    blocks = lab.root / "sys/class/block"
    shutil.copytree(blocks / "nvme0n2", blocks / "nvme0c0n2", symlinks=True)
    planned = replace(lab.device, path=str(lab.root / "dev" / "nvme9n2"))
    assert lab.host.find(planned).path == lab.device.path
    assert lab.code() is None  # nor a second device of one identity


def test_blank_sibling_is_taken_unasked(lab: Lab) -> None:
    found, reason = companion(lab.host, lab.guard, lab.device, None)
    assert (found, reason) == (lab.conventional, None)


def test_sibling_with_anything_on_it_is_not(lab: Lab) -> None:
    size = lab.conventional.size
    lab.poke("nvme0n1", signatures.samples(size)[20][0], b"\1")
    found, reason = companion(lab.host, lab.guard, lab.device, None)
    assert found is None
    assert reason is not None
    assert reason.code == "not-blank"
    assert reason.hint.startswith("-e conventional_device=")
    found, reason = companion(lab.host, lab.guard, lab.device, "nvme0n1")
    assert found is None
    assert reason is not None
    assert (reason.code, "erase=" in reason.hint) == ("not-blank", True)


def test_named_companion_with_a_signature_is_refused(lab: Lab) -> None:
    lab.poke("nvme0n1", 0, b"XFSB")
    found, reason = companion(lab.host, lab.guard, lab.device, "nvme0n1")
    assert found is None
    assert reason is not None
    assert reason.code == "foreign-signature"


def test_a_blank_companion_can_be_named(lab: Lab) -> None:
    found, reason = companion(lab.host, lab.guard, lab.device, "nvme0n1")
    assert (found, reason) == (lab.conventional, None)


def test_a_companion_has_no_zones(lab: Lab) -> None:
    (lab.root / "sys/class/block/nvme0n1/queue/zoned").write_text("host-managed\n")
    _, named = companion(lab.host, lab.guard, lab.device, "nvme0n1")
    assert named is not None
    assert named.code == "conventional-zoned"
    _, sibling = companion(lab.host, lab.guard, lab.device, None)
    assert sibling is not None
    assert sibling.code == "no-conventional"


def test_a_device_is_as_left_while_it_is_ours_and_unused(lab: Lab) -> None:
    assert not lab.guard.is_as_left(lab.device)
    lab.write(JournalEvent.RELEASE, fingerprint=lab.guard.fingerprint(lab.device))
    assert lab.guard.is_as_left(lab.device)
    (lab.root / "busy-nvme0n2").touch()
    assert not lab.guard.is_as_left(lab.device)


def test_what_is_seen_names_a_consent_only_where_it_would_help(lab: Lab) -> None:
    assert not lab.guard.seen(lab.device).consent  # empty
    set_zones(lab.root, {5: 4096})
    assert lab.guard.seen(lab.device).consent
    (lab.root / "busy-nvme0n2").touch()
    assert not lab.guard.seen(lab.device).consent
    (lab.root / "busy-nvme0n2").unlink()
    lab.write(JournalEvent.RELEASE, fingerprint=lab.guard.fingerprint(lab.device))
    assert not lab.guard.seen(lab.device).consent  # ours


def test_a_namespace_that_is_not_attached_needs_its_consent(lab: Lab) -> None:
    with pytest.raises(GuardRefused, match="its contents are unknown") as caught:
        lab.guard.require_unattached("SERIAL:3", 1 << 30)
    assert caught.value.code == "not-attached"
    given = lab.guard.contents.unattached("SERIAL:3", 1 << 30)
    other = replace(given, identity="SERIAL:4")
    guard = Guard(lab.host, lab.journal, (given, other))
    assert guard.require_unattached("SERIAL:3", 1 << 30) == given
    # It had an effect, so there is no line about it.
    (line,) = guard.notices(["SERIAL:3", "SERIAL:4"])
    assert "SERIAL:4" in line
    with pytest.raises(GuardRefused):  # it has another size now
        guard.require_unattached("SERIAL:3", 2 << 30)
    used = JournalEntry(
        JournalEvent.ERASE, "SERIAL:3", "c", "r", "", "", "", None, "t", "b", given.digest
    )
    lab.journal.append(used)
    with pytest.raises(GuardRefused):
        guard.require_unattached("SERIAL:3", 1 << 30)


def test_inspection_collects_refusals_and_levels(lab: Lab) -> None:
    set_zones(lab.root, {5: 4096})
    (lab.root / "unavailable").touch()
    levels = {"fake": FakeLevel(lab.root)}
    found = inspect(
        lab.host, lab.guard, levels, path="nvme0n2", conventional=None, host_name="rig0"
    )
    assert [reason.code for reason in found.refusals] == ["not-empty"]
    assert found.host.name == "rig0"
    assert not found.levels[0].available
    assert found.levels[0].reason is not None
    assert found.levels[0].reason.code == "program-missing"
    assert json.loads((lab.root / "zones.json").read_text()) == {"5": 4096}


@pytest.mark.parametrize(
    ("release", "code"), [(None, "program-missing"), ("3.29", "fio-version"), ("3.30", None)]
)
def test_an_inspection_knows_the_programs_that_cannot_run(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, *, release: str | None, code: str | None
) -> None:
    program = lab.root / "fio"
    program.write_text(f"#!/bin/sh\necho fio-{release}\n")
    program.chmod(0o755)
    monkeypatch.setattr(proc, "which", lambda _: None if release is None else program)
    found = inspect(lab.host, lab.guard, {}, path="nvme0n2", conventional=None, host_name="rig0")
    assert {name: why.code for name, why in found.unusable.items()} == (
        {"fio": code} if code else {}
    )
