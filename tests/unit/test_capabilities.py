"""Levels that can run on each rig, and the reasons why the others cannot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.levels import LEVELS
from harness.levels.filesystem import FileSystemLevel
from harness.plan import reference
from harness.rig import model
from harness.run import inspection
from harness.store.spec import Bytes, Device
from harness.tools import db_bench, native, proc
from harness.tools.kernel import Kernel
from tests.fixtures.level_host import Host

EVERYWHERE = {
    "conventional-ext4": None,
    "conventional-xfs": None,
    "dm-zap": "capacity-below-size",
    "dm-zoned": "capacity-below-size",
    "btrfs": "zones-too-small",
    "f2fs": None,
    "xfs": "zone-size",
    "zenfs": "program-missing",
    "zlfs": None,
    "raw-conventional": None,
    "raw-device": None,
}
# Rig, kernel, mkfs.xfs, and where it differs from the NVMe rig.
RIGS: list[tuple[str, str, str, dict[str, str | None]]] = [
    ("nvme", "7.3.4+deb13-amd64", "6.13.0", {}),
    (
        "xfs",
        "7.3.4+deb13-amd64",
        "7.2.0",
        {"dm-zoned": None, "dm-zap": "kernel-target", "xfs": None},
    ),
    (
        "dm-zoned",
        "7.3.4+deb13-amd64",
        "6.13.0",
        {"dm-zoned": None, "dm-zap": "kernel-target", "xfs": "xfsprogs-too-old"},
    ),
    ("debian12", "6.1.0-56-amd64", "6.1.0", {"dm-zoned": "program-missing", "btrfs": None}),
]


def devices(name: str) -> tuple[Device, Device]:
    """Return the zoned and the conventional device of a rig's file."""
    conventional, zoned, _ = model.load(name).namespaces
    device = replace(
        reference.RIG.device,
        size=Bytes(zoned.length),
        zones=zoned.zones,
        zone_size=Bytes(zoned.zone_size or 0),
        zone_capacity=Bytes(zoned.zone_capacity or 0),
        max_open_zones=zoned.max_open,
        max_active_zones=zoned.max_active,
    )
    partner = replace(
        device,
        path="/dev/nvme0n1",
        zoned=False,
        size=Bytes(conventional.length),
        zones=None,
        zone_size=None,
        zone_capacity=None,
        max_open_zones=None,
        max_active_zones=None,
    )
    return device, partner


@pytest.mark.parametrize("case", RIGS, ids=[case[0] for case in RIGS])
def test_the_matrix(
    case: tuple[str, str, str, dict[str, str | None]],
    host: Host,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig, kernel, mkfs, differs = case
    host.boot(kernel)
    host.mkfs_xfs = f"mkfs.xfs version {mkfs}\n"
    missing = {"zenfs", "dmzadm"} if rig == "debian12" else {"zenfs"}
    monkeypatch.setattr(
        proc, "which", lambda name: None if name in missing else Path("/sbin", name)
    )
    monkeypatch.setattr(Kernel, "module_available", lambda _, name: name != "dm-zap")
    for what in ("program", "library"):
        monkeypatch.setattr(native, what, lambda name: Path("/lib", name))
    monkeypatch.setattr(db_bench, "find", lambda: Path("/usr/bin/db_bench"))
    monkeypatch.setattr(
        type(LEVELS["zlfs"]), "probe_program", lambda *_: None
    )  # has tests of its own
    device, partner = devices(rig)
    found = {}
    for name, level in LEVELS.items():
        if isinstance(level, FileSystemLevel):
            level = type(level)(Kernel(host.root))  # noqa: PLW2901 - the same, elsewhere
        probe = inspection.probe(level, device, partner, None)
        assert probe.available == (probe.reason is None)
        if probe.reason is not None:
            assert probe.reason.message
            assert probe.reason.hint, f"{name}: what would make it available?"
        found[name] = probe.reason.code if probe.reason else None
    assert found == EVERYWHERE | differs
    assert list(found) == list(EVERYWHERE)  # the order in which they are shown


def test_without_a_conventional_device_the_better_reason_stays() -> None:
    device, _ = devices("nvme")
    probe = inspection.probe(LEVELS["zenfs"], device, None, None)
    assert probe.reason is not None
    assert probe.reason.code == "program-missing"


def test_levels_are_known_by_their_names() -> None:
    assert all(LEVELS[name].name == name for name in LEVELS)
