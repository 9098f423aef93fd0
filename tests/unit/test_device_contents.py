"""Blank means that every byte was read; ours means that the contents prove it."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from harness.errors import HostError, ToolFailed
from harness.machine import device_contents, whole_digests
from harness.machine.device_contents import Contents
from harness.machine.guard import companion
from harness.machine.journal import JournalEvent
from harness.observe import direct_reads, diskstats, foreign, signatures
from harness.observe.zone_reports import ZoneCondition, ZoneType
from harness.tools import proc, wipefs
from tests.fixtures.captures import images
from tests.fixtures.drives import COMPANION, MIB, ZONED, DriveHost, Lab
from tests.runner.fakes import ZONE_CAPACITY, ZONE_SIZE, put_btrfs, set_zones

SIZE = 32 * MIB


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path, SIZE)


# --- blank -------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0, 4095, 2 * MIB, 5 * MIB + 12345, 17 * MIB - 1, SIZE - 1])
def test_one_byte_anywhere_is_data(lab: Lab, offset: int) -> None:
    assert lab.code() is None
    lab.poke(offset, b"\x01")
    assert lab.code() == "not-blank"
    found, reason = companion(lab.host, lab.guard, lab.zoned, None)
    assert found is None
    assert reason is not None
    assert (reason.code, "conventional_device" in reason.hint) == ("not-blank", True)


def test_sixty_mebibytes_behind_the_head_are_data(tmp_path: Path) -> None:
    lab = Lab(tmp_path, 4096 * MIB)
    lab.poke(2 * MIB, bytes(MIB) + b"precious" * 1000)
    assert lab.code() == "not-blank"


@pytest.mark.parametrize("bad", [0, 20 * MIB, SIZE - 4096])
def test_what_cannot_be_read_is_not_blank(lab: Lab, bad: int) -> None:
    lab.host.bad = (bad, 512)
    (reason,) = lab.guard.examine(lab.companion)
    assert reason.code == "unreadable"
    assert "Input/output error" in reason.message
    found, _ = companion(lab.host, lab.guard, lab.zoned, None)
    assert found is None


def test_what_cannot_be_read_is_not_ours(lab: Lab) -> None:
    lab.record(lab.companion)
    lab.host.bad = (3 * MIB, 512)
    assert lab.code() == "unreadable"


def test_a_device_shorter_than_its_size_is_not_blank(lab: Lab) -> None:
    with lab.node.open("r+b") as file:
        file.truncate(SIZE - MIB)
    assert lab.code() == "unreadable"


def test_a_zoned_device_may_refuse_reads_beyond_write_pointers(lab: Lab) -> None:
    lab.host.bad = (0, ZONE_SIZE)
    assert lab.code(lab.zoned) is None
    set_zones(lab.root, {0: 4096})
    assert lab.code(lab.zoned) == "unreadable"
    lab.host.bad = (4096, ZONE_SIZE)
    assert lab.code(lab.zoned) == "not-empty"
    put_btrfs(lab.root / "dev" / ZONED, "theirs")  # before the write pointer
    assert lab.code(lab.zoned) == "foreign-signature"


@pytest.mark.parametrize(
    ("offset", "length"),
    [
        (0, 8192),
        (4096, 4096),
        (8191, 1),
        (8192, 0),  # from the write pointer on
        (ZONE_SIZE - 4096, 0),
        (ZONE_SIZE, 4096),
        (ZONE_SIZE + 4096, 0),
        (2 * ZONE_SIZE, 0),
        (16 * ZONE_SIZE, 0),
    ],
)
def test_a_refused_read_is_cut_at_the_write_pointer_of_its_zone(
    lab: Lab, offset: int, length: int
) -> None:
    set_zones(lab.root, {0: 8192, 1: 4096})
    ends = {0: 8192, 1: ZONE_SIZE + 4096}
    read = DriveHost.read

    class Refusing(DriveHost):
        def read(self, path: str, offset: int, length: int) -> bytes:
            if offset + length > ends.get(offset // ZONE_SIZE, 0):
                raise OSError(errno.EIO, "Input/output error")
            return read(self, path, offset, length)

    contents = Contents(Refusing(lab.root), lab.journal)
    assert len(contents._read(lab.zoned, offset, 16384)) == length


@pytest.mark.parametrize("offset", [0, MIB + 4096, ZONE_SIZE - 1])
def test_conventional_zones_are_read_whole(lab: Lab, offset: int) -> None:
    lab.host.kinds = (ZoneType.CONVENTIONAL, ZoneType.CONVENTIONAL)
    assert lab.code(lab.zoned) is None
    lab.poke(ZONE_SIZE + offset, b"\x01", ZONED)
    assert lab.code(lab.zoned) == "not-blank"


def test_conventional_zones_that_cannot_be_read_are_not_blank(lab: Lab) -> None:
    lab.host.kinds = (ZoneType.CONVENTIONAL,)
    lab.host.bad = (MIB, 512)
    assert lab.code(lab.zoned) == "unreadable"


def whole_reads(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    reads: list[str] = []
    real = direct_reads.first_data

    def counted(path: str, *rest: object) -> int | None:
        reads.append(path)
        return real(path, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(lab.host, "first_data", counted)
    return reads


def test_only_a_refusal_makes_a_consent(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A consent samples the contents and asks libblkid; a blank device needs none."""
    asked: list[str] = []
    monkeypatch.setattr(Contents, "consent", lambda _, device: asked.append(device.path))
    assert (lab.code(), lab.code(lab.zoned), asked) == (None, None, [])
    lab.poke(9 * MIB, b"\x01")
    set_zones(lab.root, {0: 4096})
    assert (lab.code(), lab.code(lab.zoned)) == ("not-blank", "not-empty")
    assert asked == [lab.companion.path, lab.zoned.path]


def test_a_sibling_with_data_is_refused_with_both_ways_out(lab: Lab) -> None:
    lab.poke(9 * MIB, b"\x01")
    _, reason = companion(lab.host, lab.guard, lab.zoned, None)
    (same,) = lab.guard.examine(lab.companion)
    assert reason is not None
    assert reason.hint == f"-e conventional_device=<device> names another one, or {same.hint}"
    assert "-e erase=" in same.hint
    _, reason = companion(lab.host, lab.guard, lab.zoned, COMPANION)
    assert reason == same  # another device is no answer to a user who named this one


def test_a_whole_read_counts_until_the_next_write(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = whole_reads(lab, monkeypatch)
    assert [lab.code(), lab.code()] == [None, None]
    assert len(reads) == 1
    lab.poke(0, b"\0")  # the kernel counted a write, whatever it wrote
    assert lab.code() is None
    assert len(reads) == 2
    lab.poke(7 * MIB + 8192, b"\x01")
    assert lab.code() == "not-blank"


def test_without_counters_each_look_reads_the_whole_device(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = whole_reads(lab, monkeypatch)
    (lab.root / "proc/diskstats").write_text("")
    assert [lab.code(), lab.code()] == [None, None]
    assert len(reads) == 2


def test_a_long_read_reports_its_progress(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        lab.host, "first_data", lambda _, __, tell: [tell(n * MIB) for n in (1, 8, 9, 30)] and None
    )
    clock = iter([0.0, 1.0, 11.0, 11.0, 12.0, 25.0, 25.0])
    monkeypatch.setattr(lab.host, "monotonic", lambda: next(clock))
    assert lab.code() is None
    node = lab.node
    assert lab.messages == [
        f"{node}: 8192.0 KiB of 32.0 MiB read, all blank",
        f"{node}: 30.0 MiB of 32.0 MiB read, all blank",
    ]


# --- reads past the page cache -------------------------------------------------------------------


@pytest.mark.parametrize("length", [512, MIB, MIB + 512, 9 * MIB + 4096])
def test_the_last_byte_of_any_length_is_read(tmp_path: Path, length: int) -> None:
    path = tmp_path / "device"
    path.write_bytes(bytes(length))
    assert direct_reads.first_data(str(path), [(0, length)], lambda _: None) is None
    path.write_bytes(bytes(length - 1) + b"\x01")
    found = direct_reads.first_data(str(path), [(0, length)], lambda _: None)
    assert found == (length - 1) // MIB * MIB
    assert direct_reads.first_data(str(path), [(0, length - 512)], lambda _: None) is None


def test_only_the_given_ranges_are_read(tmp_path: Path) -> None:
    path = tmp_path / "device"
    path.write_bytes(bytes(4096) + b"\x01" * 4096 + bytes(8192))
    assert direct_reads.first_data(str(path), [(0, 4096), (8192, 8192)], lambda _: None) is None
    assert direct_reads.first_data(str(path), [(0, 4096), (4096, 4096)], lambda _: None) == 4096


def test_a_device_that_ends_early_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "device"
    path.write_bytes(bytes(3 * MIB))
    with pytest.raises(OSError, match="ends early") as caught:
        direct_reads.first_data(str(path), [(0, 4 * MIB)], lambda _: None)
    assert caught.value.errno == errno.EIO


def test_parts_of_any_place_are_read(tmp_path: Path) -> None:
    path, data = tmp_path / "device", bytes(range(256)) * 64
    path.write_bytes(data)
    ranges = [(0, 10), (4090, 20), (8192, 8192), (16380, 100), (100, 0)]
    assert list(direct_reads.each(str(path), ranges)) == [data[o : o + n] for o, n in ranges]


# --- ours --------------------------------------------------------------------------------------


def leave_data(lab: Lab) -> None:
    """Leave what a file system of ours leaves behind its wiped ends."""
    lab.poke(4 * MIB, b"".join(number.to_bytes(4096, "little") for number in range(1, 6657)))


def test_leavings_of_a_clean_release_are_ours(lab: Lab) -> None:
    leave_data(lab)
    assert lab.code() == "not-blank"
    lab.record(lab.companion)
    assert lab.code() is None


@pytest.mark.parametrize("offset", [4 * MIB, 9 * MIB + 100, 9 * MIB + 300_000, 20 * MIB - 1])
def test_any_write_after_a_release_is_somebodys(lab: Lab, offset: int) -> None:
    leave_data(lab)
    lab.record(lab.companion)
    lab.poke(offset, b"precious")
    assert lab.code() == "not-blank"


@pytest.mark.parametrize("offset", [4 * MIB, 12 * MIB - 4096, 20 * MIB + 4096])
def test_a_mebibyte_written_before_a_restart_is_noticed(lab: Lab, offset: int) -> None:
    leave_data(lab)
    lab.record(lab.companion)
    lab.poke(offset, b"p" * MIB)
    lab.reboot()
    assert lab.code() == "not-blank"


def test_a_restart_alone_changes_nothing(lab: Lab) -> None:
    leave_data(lab)
    lab.record(lab.companion)
    lab.seal()
    lab.reboot()
    assert lab.code() is None


@pytest.mark.parametrize("offset", [4 * MIB + 4096, 9 * MIB + 100_000, 20 * MIB - 1])
def test_a_byte_written_between_samples_before_a_restart_is_data(lab: Lab, offset: int) -> None:
    leave_data(lab)
    lab.record(lab.companion)
    lab.seal()
    lab.poke(offset, b"p")
    lab.reboot()
    assert lab.code() == "not-blank"


def test_what_was_not_read_whole_is_not_ours_after_a_restart(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_data(lab)
    lab.record(lab.companion)
    monkeypatch.setattr(whole_digests, "LARGEST", SIZE - 1)
    lab.seal()
    assert lab.code() is None
    lab.reboot()
    assert lab.code() == "not-blank"


def test_only_what_is_as_it_was_left_is_sealed(lab: Lab) -> None:
    leave_data(lab)
    lab.record(lab.companion)
    lab.poke(9 * MIB + 100, b"precious")
    lab.seal()
    assert [entry.whole for entry in lab.journal.entries()] == [""]
    lab.record(lab.companion)
    lab.seal()
    lab.seal()
    assert [bool(entry.whole) for entry in lab.journal.entries()] == [False, False, True]


def test_a_write_during_the_whole_read_is_not_sealed(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_data(lab)
    lab.record(lab.companion)
    read = lab.host.whole_digest

    def written(*arguments: Any) -> str:
        lab.poke(9 * MIB + 100, b"precious")
        return read(*arguments)

    monkeypatch.setattr(lab.host, "whole_digest", written)
    lab.seal()
    assert [entry.whole for entry in lab.journal.entries()] == [""]


def test_without_counters_no_earlier_whole_read_proves_ownership(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else shows a write between the samples of the fingerprint."""
    leave_data(lab)
    contents, reads = Contents(lab.host, lab.journal), list[str]()
    read = lab.host.whole_digest

    def counted(path: str, *rest: Any) -> str:
        reads.append(path)
        return read(path, *rest)

    monkeypatch.setattr(lab.host, "whole_digest", counted)
    before = contents.whole(lab.companion)
    assert contents.whole(lab.companion) == before
    assert len(reads) == 1  # the kernel counted no write
    (lab.root / "proc/diskstats").write_text("")
    assert contents.whole(lab.companion) == contents.whole(lab.companion) == before
    assert len(reads) == 3


def test_without_counters_only_zones_are_ours_after_a_release(lab: Lab) -> None:
    leave_data(lab)
    set_zones(lab.root, {0: 4096})
    (lab.root / "proc/diskstats").write_text("")
    for device in (lab.companion, lab.zoned):
        lab.record(device)
    assert (lab.code(), lab.code(lab.zoned)) == ("not-blank", None)


def test_a_label_proves_no_conventional_data_after_a_restart(lab: Lab) -> None:
    put_btrfs(lab.node, "zl-1")
    lab.record(lab.companion, JournalEvent.UP, fingerprint="-")
    assert lab.code() is None
    lab.poke(9 * MIB + 100, b"precious")
    lab.reboot()
    (reason,) = lab.guard.examine(lab.companion)
    assert (reason.code, "erase=" in reason.hint) == ("unproved", True)


def test_a_label_proves_zones_after_a_restart(lab: Lab) -> None:
    """Nobody writes in place there."""
    set_zones(lab.root, {0: 8192})
    put_btrfs(lab.root / "dev" / ZONED, "zl-1")
    lab.record(lab.zoned, JournalEvent.UP, fingerprint="-")
    lab.reboot()
    assert lab.code(lab.zoned) is None
    lab.host.kinds = (ZoneType.CONVENTIONAL,)
    assert lab.code(lab.zoned) == "unproved"


@pytest.mark.parametrize("offset", [0, 3 * MIB + 17, 8 * MIB - 1])
def test_the_digest_covers_every_byte(tmp_path: Path, offset: int) -> None:
    path = tmp_path / "device"
    path.write_bytes(b"x" * 4096 + bytes(8 * MIB - 4096))

    def digest(*ranges: tuple[int, int]) -> str:
        return direct_reads.digest(str(path), ranges or [(0, 8 * MIB)], lambda _: None)

    before = digest()
    assert digest() == before
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(b"p")
    assert digest() != before
    assert digest((0, MIB), (2 * MIB, MIB)) != digest((0, MIB), (3 * MIB, MIB))
    with pytest.raises(OSError, match="ends early"):
        digest((0, 9 * MIB))


def test_equal_zone_reports_with_other_data_are_not_ours(lab: Lab) -> None:
    set_zones(lab.root, dict.fromkeys(range(16), ZONE_CAPACITY))
    for zone in range(16):
        lab.poke(zone * ZONE_SIZE, b"ours", ZONED)
    lab.record(lab.zoned)
    lab.reboot()
    assert lab.code(lab.zoned) is None
    for place in (0, ZONE_CAPACITY - 1):
        lab.poke(9 * ZONE_SIZE + place, b"\xff", ZONED)
        lab.reboot()
        assert lab.code(lab.zoned) == "not-empty"
        lab.poke(9 * ZONE_SIZE + place, b"o" if not place else b"\0", ZONED)
        lab.reboot()
        assert lab.code(lab.zoned) is None


@pytest.mark.parametrize(
    ("filled", "sampled"), [(4, [0, 1, 2, 3]), (5, [0, 2, 4]), (16, [0, 4, 8, 12])]
)
def test_of_very_many_zones_some_are_sampled(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, filled: int, sampled: list[int]
) -> None:
    """A drive with a hundred thousand zones is looked at many times in each run."""
    monkeypatch.setattr(device_contents, "_MOST_ZONES", 4)
    set_zones(lab.root, dict.fromkeys(range(filled), 16384))
    contents = Contents(lab.host, lab.journal)
    starts = [number * ZONE_SIZE for number in sampled]
    assert contents._zone_samples(lab.host.zones(lab.zoned.path)) == [
        (place, 4096) for start in starts for place in (start, start + 12288)
    ]


def test_a_zone_written_again_in_one_boot_is_not_ours(lab: Lab) -> None:
    set_zones(lab.root, {3: ZONE_CAPACITY})
    lab.record(lab.zoned)
    assert lab.code(lab.zoned) is None
    lab.poke(3 * ZONE_SIZE + MIB, b"precious", ZONED)  # between the samples
    assert lab.code(lab.zoned) == "not-empty"


@pytest.mark.parametrize(
    ("event", "label", "code"),
    [
        (JournalEvent.CLAIM, "zl-1", None),
        (JournalEvent.UP, "zl-1", None),
        (JournalEvent.UP, "zl-2", "foreign-signature"),
        (JournalEvent.RELEASE, "zl-1", "foreign-signature"),  # the run wiped its label
    ],
)
def test_a_label_counts_until_the_release(
    lab: Lab, event: JournalEvent, label: str, code: str | None
) -> None:
    lab.record(lab.companion, event, "none")
    lab.poke(0x10040, b"_BHRfS_M")
    lab.poke(0x1012B, label.encode() + b"\0")
    assert lab.code() == code


def test_a_label_on_the_partner_covers_only_that_partner(lab: Lab) -> None:
    set_zones(lab.root, {5: 4096})
    lab.record(lab.zoned, JournalEvent.UP, "none")
    lab.poke(0x10040, b"_BHRfS_M")
    lab.poke(0x1012B, b"zl-1\0")
    reasons = lab.guard.examine(lab.zoned, lab.companion)
    assert [reason.code for reason in reasons] == ["not-empty"]  # the journal names no partner
    lab.record(lab.zoned, JournalEvent.UP, "none", lab.companion.identity.key)
    assert lab.guard.examine(lab.zoned, lab.companion) == []
    lab.poke(0x1012B, b"zl-2\0")
    reasons = lab.guard.examine(lab.zoned, lab.companion)
    assert [reason.code for reason in reasons] == ["not-empty"]


@pytest.mark.parametrize("written", [4096, ZONE_CAPACITY])
def test_one_zone_that_is_not_empty_is_enough(lab: Lab, written: int) -> None:
    set_zones(lab.root, {15: written})
    assert lab.code(lab.zoned) == "not-empty"


def test_a_zone_that_a_program_opened_is_not_empty(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds no data yet, but somebody uses it."""
    first, *rest = lab.host.zones(lab.zoned.path)
    opened = replace(first, condition=ZoneCondition.EXPLICIT_OPEN)
    assert lab.code(lab.zoned) is None
    monkeypatch.setattr(lab.host, "zones", lambda *_: [opened, *rest])
    assert lab.code(lab.zoned) == "not-empty"


@pytest.mark.parametrize("event", [JournalEvent.CLAIM, JournalEvent.RELEASE])
def test_fingerprints_of_older_releases_prove_nothing(lab: Lab, event: JournalEvent) -> None:
    set_zones(lab.root, {5: 4096})
    digest = lab.guard.fingerprint(lab.zoned).split(":")[1]
    for old in (digest, f"1:{digest}", f"3:{digest}:b:0", f"2:{digest}", ":::"):
        lab.record(lab.zoned, event, old)
        (reason,) = lab.guard.examine(lab.zoned)
        assert reason.code == "not-empty"
        assert "erase=" in reason.hint


def test_the_samples_cover_both_ends_and_each_mebibyte() -> None:
    for size in (MIB, 5 * MIB, SIZE, 4096 * MIB, 4 << 40):
        spots = signatures.samples(size)
        assert all(0 <= offset < offset + length <= size for offset, length in spots)
        assert spots[0][0] == 0
        assert max(offset + length for offset, length in spots) == size
        assert len(spots) <= 4098
        assert size == MIB or spots[2][0] == max(MIB, size >> 12)
        steps = {later[0] - one[0] for one, later in pairwise(spots[2:])}
        assert steps <= {max(MIB, size >> 12)}


def test_places_at_the_end_are_rounded_down() -> None:
    """An md superblock of version 0.90 on a device whose size is no multiple of 64 KiB."""
    size = 8 * MIB + 5 * 4096
    disk = bytearray(size)
    disk[8 * MIB - 65536 : 8 * MIB - 65532] = b"\xfc\x4e\x2b\xa9"
    found = foreign.signatures(lambda o, n: bytes(disk[o : o + n]), None, (), size)
    assert [one.kind for one in found] == ["md"]


@pytest.mark.parametrize(("node", "number"), [(ZONED, errno.ENODEV), (COMPANION, errno.EIO)])
def test_only_a_zoned_device_may_refuse_a_read(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, node: str, number: int
) -> None:
    def fail(*_: object) -> bytes:
        raise OSError(number, "no")

    monkeypatch.setattr(lab.host, "read", fail)
    with pytest.raises(OSError, match="no") as caught:
        Contents(lab.host, lab.journal).signatures(lab.host.device(node))
    assert caught.value.errno == number


def test_a_consent_differs_after_a_write_to_a_conventional_zone(lab: Lab) -> None:
    lab.host.kinds = (ZoneType.CONVENTIONAL,)
    contents = Contents(lab.host, lab.journal)
    before = contents.consent(lab.zoned)
    assert contents.consent(lab.zoned) == before
    lab.poke(ZONE_SIZE - 1, b"\x01", ZONED)
    assert contents.consent(lab.zoned) != before


def test_data_of_conventional_zones_is_in_the_fingerprint(lab: Lab) -> None:
    lab.host.kinds = (ZoneType.CONVENTIONAL,)
    os.truncate(lab.root / "dev" / ZONED, ZONE_SIZE)
    lab.zoned = lab.host.device(ZONED)
    lab.poke(0, b"ours", ZONED)
    lab.record(lab.zoned)
    lab.seal()
    lab.reboot()
    assert lab.code(lab.zoned) is None
    lab.poke(MIB, b"them", ZONED)  # no sample is there
    lab.reboot()
    assert lab.code(lab.zoned) == "not-blank"


def test_writes_and_discards_count() -> None:
    line = " 259 1 nvme0n1 1 0 8 0 {} 0 {} 0 0 0 0 {} 0 {} 0 0 0"

    def count(*numbers: int) -> int | None:
        return diskstats.changes(line.format(*numbers) + "\n 259 2 x 1 0\n", ["nvme0n1"])

    before = count(5, 40, 3, 24)
    for later in ((6, 40, 3, 24), (5, 48, 3, 24), (5, 40, 4, 24), (5, 40, 3, 32)):
        assert count(*later) != before
    assert diskstats.changes(line, ["sda"]) is None


# --- wipefs --------------------------------------------------------------------------------------


@pytest.mark.needs("wipefs")
def test_libblkid_names_format_label_and_place(tmp_path: Path) -> None:
    image = next(one for one in images() if one.name == "ext4")
    node = tmp_path / "device"
    with node.open("wb") as file:
        file.truncate(image.size)
    assert wipefs.read(str(node)) == []
    image.write(node)
    assert wipefs.read(str(node)) == [wipefs.Magic("ext4", "home")]


@pytest.mark.parametrize(
    "text", ["{}", "[]", '{"signatures": [{}]}', '{"signatures": [{"type": "x"}]}', "sda"]
)
def test_other_output_of_wipefs_is_an_error(text: str) -> None:
    assert wipefs.parse("") == []
    with pytest.raises(ToolFailed, match="wipefs printed"):
        wipefs.parse(text)


def test_without_wipefs_nothing_is_overwritten(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc, "environment", lambda *_: {"PATH": "/nonexistent"})
    with pytest.raises(HostError, match="wipefs is not installed"):
        lab.guard.require(lab.companion)
