"""The Debian 12 rig: an older kernel and RocksDB. Slow, because it needs an image of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from . import checks
from .conftest import WHOLE, RigHandle, booted

pytestmark = pytest.mark.skipif(not WHOLE, reason="make test-debian12 runs it")


@pytest.fixture(scope="module")
def rig() -> Iterator[RigHandle]:
    with booted("debian12") as handle:
        yield handle


def test_it_is_debian_12(rig: RigHandle) -> None:
    assert rig.ssh("uname -r").stdout.startswith("6.1.")
    assert "7.8" in rig.ssh("dpkg-query -W -f '${Version}' rocksdb-tools").stdout


def test_the_guest_sees_the_geometry_of_the_file(rig: RigHandle) -> None:
    checks.geometry_is_the_files(rig)


def test_every_namespace_has_its_identity(rig: RigHandle) -> None:
    checks.identities_are_set(rig)


def test_qemu_counts_what_the_guest_wrote(rig: RigHandle) -> None:
    counted, wrote = checks.write_zones(rig)
    assert counted == wrote == checks.ZONES_TO_WRITE * 4 * checks.MIB


def test_native_programs_and_tools_are_there(rig: RigHandle) -> None:
    checks.programs_are_there(rig)
