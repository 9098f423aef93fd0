"""Devices with contents of others: each is refused, and no byte is written.

The images are real (tests/fixtures/signatures). The machine is synthetic (tests/runner/fakes.py).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.errors import GuardRefused
from harness.machine.guard import companion
from harness.machine.journal import JournalEvent
from tests.fixtures.captures import Image, images, snapshot
from tests.fixtures.drives import COMPANION, Lab

IMAGES = images()


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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("image", IMAGES, ids=lambda image: image.name)
def test_an_old_libblkid_changes_nothing(tmp_path: Path, image: Image) -> None:
    lab = Lab(tmp_path, image.size)
    lab.host.libblkid = False
    image.write(lab.node)
    assert lab.code() == ("not-blank" if image.name in NAMELESS else "foreign-signature")


BESIDE = [i for i in IMAGES if not i.at_end and i.name not in (*NAMELESS, *BOOT_SECTORS, "btrfs")]


@pytest.mark.slow
@pytest.mark.parametrize("image", BESIDE, ids=lambda image: image.name)
def test_a_label_of_ours_does_not_cover_another_format(lab: Lab, image: Image) -> None:
    """A killed run's claim, its btrfs label, and what another program wrote beside it."""
    lab.host.libblkid = False
    lab.record(lab.companion, JournalEvent.UP, "none")
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
