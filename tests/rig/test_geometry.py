"""Every probe on real namespaces of every geometry, against the table of the unit tests.

One rig at a time, and this module is over before the NVMe rig boots. `make test` takes two
drives (one boot); `make test-geometry` all six (two boots), and brings up each level that can run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.levels import LEVELS
from harness.rig.state import GuestDevice
from harness.store.codec import decode
from harness.store.spec import Inspection
from tests.fixtures.geometry import GEOMETRIES, Geometry

from . import plays
from .conftest import WHOLE, RigHandle, booted

# The short way takes multipath heads: no other test of a rig sees one.
RIGS = ("geometry-plain", "geometry-multipath") if WHOLE else ("geometry-multipath",)
DRIVES = (0, 1, 2) if WHOLE else (0, 1)  # of each rig, in the order of the table
STUBS = "/root/zenfs-stubs"
ZIPAPP = "/root/zonelab-geometry.pyz"
SCRIPT = Path(__file__).with_name("level_up.py")
COLD = 8 << 20
ADVISED_OPEN = 128  # block/blk-zoned.c: BLK_ZONE_WPLUG_DEFAULT_POOL_SIZE


@dataclass(frozen=True)
class Machine:
    """A booted rig with the runner, and a stub of ZenFS's tool that nothing ever starts."""

    rig: RigHandle

    def devices(self, case: Geometry) -> tuple[GuestDevice, GuestDevice | None]:
        """Return the zoned and the conventional namespace of a drive."""
        wanted = {ns.eui: ns.zoned for ns in case.drive.namespaces}
        found = {d.zoned: d for d in self.rig.state.devices if d.eui64 in wanted}
        return found[True], found.get(False)

    def inspect(self, case: Geometry) -> Inspection:
        """Return the output of ``zonelab inspect`` for a drive in the guest."""
        zoned, _ = self.devices(case)
        asked = f"python3 {ZIPAPP} inspect {zoned.path} --format json --host-name rig"
        inspection = self.rig.ssh(f"ZONELAB_ZENFS={STUBS} {asked}").stdout
        return decode(Inspection, json.loads(inspection))


@pytest.fixture(scope="module", params=RIGS)
def machine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Machine]:
    """One rig after the other: pytest runs all tests of one before it asks for the next."""
    with booted(request.param) as rig:
        plays.install(rig, tmp_path_factory.mktemp("geometry"), ZIPAPP)
        plays.copy(rig, SCRIPT, f"/root/{SCRIPT.name}")
        stub = f"printf '#!/bin/false\\n' > {STUBS}/zenfs && chmod +x {STUBS}/zenfs"
        rig.ssh(f"mkdir -p {STUBS} && {stub}")
        yield Machine(rig)


@pytest.fixture(params=DRIVES)
def case(request: pytest.FixtureRequest, machine: Machine) -> Geometry:
    """One drive of the rig that is up."""
    return [case for case in GEOMETRIES if case.rig == machine.rig.name][request.param]


def test_every_level_answers_as_in_the_table(machine: Machine, case: Geometry) -> None:
    found = machine.inspect(case)
    assert {probe.level: probe.reason.code if probe.reason else None for probe in found.levels} == (
        case.in_guest
    )


def test_inspection_matches_the_namespace(machine: Machine, case: Geometry) -> None:
    found, zoned = machine.inspect(case), case.zoned
    device = found.device
    assert device.identity.key == f"eui.{zoned.eui}"
    assert (device.max_active_zones, device.max_open_zones) == (case.limit, open_limit(case))
    assert (device.zones, device.zone_size) == (zoned.zones, zoned.zone_size)
    assert (device.capacity, device.logical_block_size) == (zoned.capacity, case.block)
    assert "mq-deadline" in device.schedulers
    assert (found.conventional is not None) == case.conventional
    assert found.refusals == ()
    paths = machine.rig.ssh("ls /sys/class/block | grep -c 'nvme[0-9]*c'", check=False).stdout
    assert (int(paths) > 0) == case.head  # the rig is of the kind that it is for


def open_limit(case: Geometry) -> int:
    """Return Linux's limit of open zones; without any limit it advises at most 128."""
    return case.limit or (ADVISED_OPEN if (case.zoned.zones or 0) > ADVISED_OPEN else 0)


@pytest.mark.skipif(not WHOLE, reason="make test-geometry runs it")
def test_available_levels_come_up(machine: Machine, case: Geometry) -> None:
    """The other half of a right answer; the kernel's counters of a head count, too."""
    nodes = [device.path for device in machine.devices(case) if device is not None]
    wrong = {}
    for level, code in case.in_guest.items():
        if code is None:
            words = ["python3", f"/root/{SCRIPT.name}", ZIPAPP, level, str(COLD), *nodes]
            done = machine.rig.ssh(" ".join(words), timeout=300, check=False)
            problem = came_up(level, json.loads(done.stdout)) if done.ok else done.stderr[-500:]
            if problem:
                wrong[level] = problem
    assert wrong == {}


def came_up(level: str, bytes_by_place: dict[str, int]) -> str:
    """Return the fault in the bytes that a level used, '' if there is none."""
    zoned = bytes_by_place["zoned_written"]
    if not LEVELS[level].uses_zoned:
        right = zoned == 0
    else:  # with a companion, some of them may be there
        right = zoned >= COLD or LEVELS[level].needs_conventional
    return "" if right and bytes_by_place["stored"] == COLD else f"{bytes_by_place}"
