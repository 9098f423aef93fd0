"""Times of the block layer follow the clock of a modelled drive."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.machine import queue_times
from harness.observe.sysfs import Sysfs
from harness.plan.reference import RIG
from harness.store.spec import Device, DeviceKind

DRIVE = replace(RIG.device, path="/dev/ublkb0", kind=DeviceKind.MODELLED, model="zoneblk d x128")


def lengthened(root: Path, drive: Device, file: str, text: str) -> str:
    """Return what a file of the drive's queue holds after two runs."""
    path = root / "class/block" / drive.name / "queue" / file
    path.parent.mkdir(parents=True)
    path.write_text(f"{text}\n")
    for _ in range(2):
        queue_times.lengthen(Sysfs(root, root / "dev"), [drive])
    return path.read_text().strip()


@pytest.mark.parametrize(
    ("file", "usual", "longer"),
    [
        ("wbt_lat_usec", "2000", "256000"),
        ("iosched/read_expire", "500", "64000"),
        ("iosched/write_expire", "5000", "640000"),
        ("iosched/prio_aging_expire", "10000", "1280000"),
    ],
)
def test_times_are_multiplied_once(tmp_path: Path, file: str, usual: str, longer: str) -> None:
    assert lengthened(tmp_path, DRIVE, file, usual) == longer


def test_what_is_off_stays_off(tmp_path: Path) -> None:
    assert lengthened(tmp_path, DRIVE, "wbt_lat_usec", "0") == "0"


def test_other_drives_keep_their_times(tmp_path: Path) -> None:
    emulated = replace(DRIVE, kind=DeviceKind.EMULATED)
    assert lengthened(tmp_path, emulated, "wbt_lat_usec", "2000") == "2000"
