"""Devices with contents of others: each is refused, and no byte is written.

The images are real (tests/fixtures/signatures). The machine is synthetic (tests/runner/fakes.py).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from harness.errors import GuardRefused
from harness.machine.guard import Guard, companion
from harness.machine.journal import Entry, Event, Journal
from harness.machine.seal import seal
from harness.observe.direct_reads import Progress, Range
from harness.observe.zone_reports import Zone, ZoneCondition, ZoneType
from harness.store.spec import Device
from harness.tools import wipefs
from tests.fixtures.captures import Image, images, snapshot
from tests.runner import fakes
from tests.runner.fakes import ZONE_SIZE, FakeHost, make_machine

MIB = 1 << 20
IMAGES = images()
COMPANION, ZONED = "nvme0n1", "nvme0n2"


class DriveHost(FakeHost):
    """A drive that cannot read the bytes from ``bad`` on, and whose libblkid can be absent."""

    bad: Range | None = None
    libblkid = True
    kinds: tuple[ZoneType, ...] = ()

    def magics(self, path: str) -> list[wipefs.Magic]:
        return super().magics(path) if self.libblkid else []

    def read(self, path: str, offset: int, length: int) -> bytes:
        self._check(offset, length)
        return super().read(path, offset, length)

    def read_each(self, path: str, ranges: Iterable[Range]) -> Iterator[bytes]:
        for offset, length in ranges:
            yield self.read(path, offset, length)

    def first_data(self, path: str, ranges: Sequence[Range], progress: Progress) -> int | None:
        for offset, length in ranges:
            self._check(offset, length)
        return super().first_data(path, ranges, progress)

    def zones(self, path: str, limit: int | None = None) -> list[Zone]:
        zones = super().zones(path, limit)
        for number, kind in enumerate(self.kinds):
            start = zones[number].start
            condition = ZoneCondition.NOT_WRITE_POINTER
            zones[number] = Zone(start, ZONE_SIZE, ZONE_SIZE, start, condition, kind)
        return zones

    def _check(self, offset: int, length: int) -> None:
        if self.bad and offset < sum(self.bad) and self.bad[0] < offset + length:
            raise OSError(errno.EIO, "Input/output error")


class Lab:
    """A zoned device and a companion of a chosen size."""

    def __init__(self, root: Path, size: int = 32 * MIB) -> None:
        make_machine(root)
        self.root = root
        self.node = root / "dev" / COMPANION
        os.truncate(self.node, size)
        (root / f"sys/class/block/{COMPANION}/size").write_text(str(size // 512))
        self.host = DriveHost(root)
        self.journal = Journal(root / "journal.jsonl")
        self.messages: list[str] = []
        self.guard = Guard(self.host, self.journal, say=self.messages.append)
        self.companion = self.host.device(COMPANION)
        self.zoned = self.host.device(ZONED)
        self.written = 0

    def poke(self, offset: int, data: bytes, node: str = COMPANION) -> None:
        """Write as another program does: the kernel counts it."""
        with (self.root / "dev" / node).open("r+b") as file:
            file.seek(offset)
            file.write(data)
        self.written += 4096
        fakes.set_diskstats(self.root, self.written, self.written)

    def reboot(self) -> None:
        """Start the counters again, and a new process."""
        boot = self.root / "proc/sys/kernel/random/boot_id"
        boot.write_text("00000000-0000-0000-0000-000000000002\n")
        fakes.set_diskstats(self.root, 0, 0)
        self.guard = Guard(self.host, self.journal, say=self.messages.append)

    def record(
        self,
        device: Device,
        event: Event = Event.RELEASE,
        fingerprint: str = "",
        partner: str = "",
    ) -> None:
        """Add a journal entry of a run that ended."""
        text = fingerprint or self.guard.fingerprint(device)
        boot = self.host.boot_id()
        key = device.identity.key
        entry = Entry(event, key, "c", "r", "fake", "zl-1", partner, text, "t", boot)
        self.journal.append(entry)

    def seal(self) -> None:
        """Read the devices whole, as at the end of a campaign."""
        seal(self.host, self.guard, self.journal, [self.companion, self.zoned])

    def code(self, device: Device | None = None) -> str | None:
        """Return the refusal of a named device, and check that nothing was written."""
        device = device or self.companion
        before = snapshot(Path(device.path))
        reasons = self.guard.examine(device)
        assert snapshot(Path(device.path)) == before
        return reasons[0].code if reasons else None


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


# --- every format ------------------------------------------------------------------------------

# No magic number of at least four bytes: only libblkid, or the whole read, knows them.
NAMELESS = {
    "lvm1",
    "drbdproxy-datalog",
    "vxfs",
    "xenix",
    "exfs",
    "bfs",
    "minix",
    "sgi",
    "sun",
    "adaptec-raid",
    "atari-primary",
    "atari-xgm",
    "befs",
    "drbdmanage-control-volume",
    "hfs",
    "hpfs",
    "hpt37x-raid",
    "hpt45x-raid",
    "jmicron-raid",
    "lsi-raid",
    "netware",
    "nvidia-raid",
    "promise-raid",
    "silicon-raid",
    "tuxonice",
    "ubi",
    "ubifs",
    "via-raid",
    "xfs-log",
}

BOOT_SECTORS = {"dos", "fat16_noheads"}  # file systems of ours may have the mark too


@pytest.mark.needs("wipefs")
@pytest.mark.parametrize("image", IMAGES, ids=lambda image: image.name)
def test_data_of_another_program_is_refused(tmp_path: Path, image: Image) -> None:
    lab = Lab(tmp_path, image.size)
    image.write(lab.node)
    os.utime(lab.node, ns=(0, 0))
    before = snapshot(lab.node)
    with pytest.raises(GuardRefused) as caught:
        lab.guard.require(lab.companion)
    assert caught.value.code == ("foreign-signature" if image.kind else caught.value.code)
    for named in (COMPANION, None):
        found, reason = companion(lab.host, lab.guard, lab.zoned, named)
        assert found is None
        assert reason is not None
        assert reason.code == caught.value.code
        assert f"erase={lab.companion.identity.key}" in reason.hint
    assert snapshot(lab.node) == before
    assert before[1] == 0


@pytest.mark.parametrize("image", IMAGES, ids=lambda image: image.name)
def test_an_old_libblkid_changes_nothing(tmp_path: Path, image: Image) -> None:
    lab = Lab(tmp_path, image.size)
    lab.host.libblkid = False
    image.write(lab.node)
    assert lab.code() == ("not-blank" if image.name in NAMELESS else "foreign-signature")


BESIDE = [i for i in IMAGES if not i.at_end and i.name not in (*NAMELESS, *BOOT_SECTORS, "btrfs")]


@pytest.mark.parametrize("image", BESIDE, ids=lambda image: image.name)
def test_a_label_of_ours_does_not_cover_another_format(lab: Lab, image: Image) -> None:
    """A killed run's claim, its btrfs label, and what another program wrote beside it."""
    lab.host.libblkid = False
    lab.record(lab.companion, Event.UP, "none")
    lab.poke(0x10040, b"_BHRfS_M")
    lab.poke(0x1012B, b"zl-1\0")
    assert lab.code() is None
    image.write(lab.node)
    assert lab.code() == "foreign-signature"


def test_the_table_has_every_format_of_libblkid() -> None:
    """`blkid -k` of util-linux 2.38.1; formats.json has those that no image was found of."""
    kinds = {image.kind for image in IMAGES}
    assert len(kinds) >= 66
    assert len(IMAGES) >= 110
