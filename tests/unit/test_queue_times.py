"""Times of the block layer follow the clock of a modelled drive."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.machine import queue_times
from harness.observe.sysfs import Sysfs
from harness.plan.reference import RIG
from harness.store.spec import DeviceKind

DRIVE = replace(RIG.device, path="/dev/ublkb0", kind=DeviceKind.MODELLED, model="zoneblk d x128")


def queue(root: Path, name: str, **files: str) -> dict[str, str]:
    """Lengthen the times of a drive whose queue has these files; return them afterwards."""
    folder = root / "class/block" / DRIVE.name / "queue"
    (folder / "iosched").mkdir(parents=True)
    for file, text in files.items():
        (folder / file.replace("__", "/")).write_text(f"{text}\n")
    drives = {"modelled": DRIVE, "emulated": replace(DRIVE, kind=DeviceKind.EMULATED)}
    for _ in range(2):  # a drive serves many runs
        queue_times.lengthen(Sysfs(root, root / "dev"), [drives[name]])
    return {file: (folder / file.replace("__", "/")).read_text().strip() for file in files}


@pytest.mark.parametrize(
    ("file", "usual", "longer"),
    [
        ("wbt_lat_usec", "2000", "256000"),
        ("iosched__read_expire", "500", "64000"),
        ("iosched__write_expire", "5000", "640000"),
        ("iosched__prio_aging_expire", "10000", "1280000"),
    ],
)
def test_times_are_multiplied_once(tmp_path: Path, file: str, usual: str, longer: str) -> None:
    assert queue(tmp_path, "modelled", **{file: usual}) == {file: longer}


def test_what_is_off_stays_off(tmp_path: Path) -> None:
    assert queue(tmp_path, "modelled", wbt_lat_usec="0") == {"wbt_lat_usec": "0"}


def test_other_drives_keep_their_times(tmp_path: Path) -> None:
    assert queue(tmp_path, "emulated", wbt_lat_usec="2000") == {"wbt_lat_usec": "2000"}
