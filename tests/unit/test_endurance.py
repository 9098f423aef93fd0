"""A plan shows a campaign's wear, and refuses a campaign above the limit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.observe import nvme_ioctl
from harness.plan.reference import RIG
from harness.store.spec import Bytes, Device, DeviceKind, OtherDevice
from tests.fixtures.planner import Planner, rig

TB = 10**12


@pytest.fixture
def zonelab(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Planner:
    return Planner(tmp_path, capsys)


def written(out: str) -> tuple[str, ...]:
    """Return the parts of the line about a host's drive: bytes and time, full writes, life."""
    (line,) = (one for one in out.splitlines() if " full writes" in one)
    return tuple(line.partition(": ")[2].split(", "))


def test_wear_is_shown_and_refused_without_a_known_life(zonelab: Planner) -> None:
    drive = replace(rig("zn540"), endurance=None)
    assert drive.device.kind is DeviceKind.HARDWARE
    words = ("integration-levels", "--repetitions", "3")
    assert zonelab(*words, "--check", inspection=drive) == 0
    bytes_and_time, full, life = written(zonelab.out)
    assert "GiB in about" in bytes_and_time
    assert float(full.partition(" ")[0]) > 5
    assert life == "of unknown endurance"
    error = zonelab.refused(*words, inspection=drive)
    assert "more than 5 full writes" in error
    assert "-e rated_endurance=" in error


def test_the_share_of_a_life_decides_where_it_is_known(zonelab: Planner) -> None:
    drive = replace(rig("zn540"), endurance=Bytes(1000 * TB))
    words = ("integration-levels", "--repetitions", "3")
    error = zonelab.refused(*words, inspection=drive)
    assert "of its life: more than 1.00%" in error
    offered = error.partition("endurance_limit=")[2].split()[0]
    assert zonelab(*words, "--endurance-limit", offered, inspection=drive) == 0
    # A campaign that goes on has been asked.
    assert zonelab(*words, inspection=drive) == 0
    assert "unchanged" in zonelab.err


def test_the_data_sheet_wins_over_the_drive(zonelab: Planner) -> None:
    drive = replace(rig("zn540"), endurance=Bytes(TB))
    words = ("integration-levels", "--repetitions", "3", "--rated-endurance", "6000TB")
    assert zonelab(*words, inspection=drive) == 0


def test_an_emulated_drive_pays_nothing(zonelab: Planner) -> None:
    assert zonelab("integration-levels", "--endurance-limit", "0%") == 0
    assert "full writes" not in zonelab.out


def test_preconditioning_and_the_remainder_wear_the_drive(zonelab: Planner) -> None:
    drive = replace(rig("zn540"), endurance=Bytes(1000 * TB))
    rest = replace(drive.device, path="/dev/nvme2n3", zones=4000)
    whole = drive.drive_capacity or drive.device.capacity

    def full_writes(*words: str, others: tuple[OtherDevice, ...] = ()) -> float:
        inspection = replace(drive, remainder=rest, others=others)
        check = ("integration-levels", "--repetitions", "1", "--check", *words)
        assert zonelab(*check, inspection=inspection) == 0
        return float(written(zonelab.out)[1].partition(" ")[0])

    runs = full_writes()
    two = 2 * drive.device.capacity
    assert full_writes("--precondition-passes", "2") == pytest.approx(runs + two / whole, abs=0.1)
    assert "GiB of preconditioning" in zonelab.out or "TiB of preconditioning" in zonelab.out
    fill = rest.capacity / whole
    assert full_writes("--precondition-passes", "2", "--remainder-full") == pytest.approx(
        runs + two / whole + fill, abs=0.1
    )
    second = OtherDevice(replace(drive.device, path="/dev/nvme2n4"), (), drive.levels)
    assert full_writes("--precondition-passes", "2", others=(second,)) == pytest.approx(
        full_writes(others=(second,)) + 2 * two / whole, abs=0.1
    )
    words = ("integration-levels", "--repetitions", "1", "--endurance-limit", "5%")
    error = zonelab.refused(*words, "--precondition-passes", "1000", inspection=drive)
    assert "of its life: more than 5.00%" in error
    error = zonelab.refused(*words, "--remainder-full", inspection=drive)
    assert "has no remainder" in error
    assert zonelab(*words, inspection=drive) == 0


def test_a_conventional_device_of_another_drive_wears_itself(zonelab: Planner) -> None:
    drive = replace(rig("zn540"), endurance=None)
    drive = replace(drive, levels=RIG.levels)
    own = replace(
        drive.device,
        path="/dev/nvme2n1",
        size=Bytes(TB),
        zoned=False,
        zones=None,
        zone_size=None,
        zone_capacity=None,
    )
    other = replace(own, path="/dev/sdb", identity=replace(own.identity, serial="another"))
    words = ("block-level", "--levels", "raw-conventional", "--repetitions", "1")

    def lines(conventional: Device) -> dict[str, float]:
        inspection = replace(drive, conventional=conventional)
        assert zonelab(*words, "--check", inspection=inspection) == 0
        found = [line for line in zonelab.out.splitlines() if "full writes" in line]
        return {line.partition(":")[0]: float(line.split(", ")[1].split()[0]) for line in found}

    ((host, together),) = lines(own).items()
    apart = lines(other)
    assert apart[host] == 0.0
    capacity = drive.drive_capacity or drive.device.capacity
    assert apart[f"{host} /dev/sdb"] == pytest.approx(together * capacity / TB, rel=0.05)
    error = zonelab.refused(*words, inspection=replace(drive, conventional=other))
    assert "/dev/sdb" in error
    assert "more than 5 full writes" in error


def test_the_drives_own_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offsets of the base specification: ENDGID at 102 of the namespace, the estimate at 32."""
    asked = []

    def admin(
        name: str, dev: Path, opcode: int, word10: int, size: int, *, nsid: int = 0, word11: int = 0
    ) -> bytes:
        asked.append((opcode, word10 & 0xFF, nsid, word11))
        data = bytearray(size)
        data[102:104] = (3).to_bytes(2, "little")
        if opcode == 2:
            data[32:48] = (6387).to_bytes(16, "little")
        return bytes(data)

    monkeypatch.setattr(nvme_ioctl, "_admin", admin)
    assert nvme_ioctl.endurance("nvme0n2", 2) == 6387 * 10**9
    assert asked == [(6, 0, 2, 0), (2, 9, 0, 3 << 16)]
    monkeypatch.setattr(nvme_ioctl, "_admin", lambda *_, **__: b"")
    assert nvme_ioctl.endurance("nvme0n2", 2) is None
