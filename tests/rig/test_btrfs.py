"""btrfs on sufficiently large zones: the kernel's counts equal the drive's counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.store.files import load_record
from harness.store.ledger import ClosureState, Ledger
from harness.store.result import Status

from .conftest import WHOLE, RigHandle, booted
from .guest_runner import GuestRunner

# This module is over before the NVMe rig boots: one rig at a time.
pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not WHOLE, reason="make test-geometry runs it"),
]

ALONE = ("--set", "levels=[btrfs]", "--set", "baseline=btrfs")


@pytest.fixture(scope="module")
def rig() -> Iterator[RigHandle]:
    """Its first drive has zones of 288 MiB."""
    with booted("geometry-plain") as handle:
        yield handle


def test_every_phase_closes_to_the_byte(rig: RigHandle, tmp_path: Path) -> None:
    own = GuestRunner(rig, tmp_path, "btrfs", ALONE)
    own.start()
    own.wait_end(timeout=600)
    (result,) = own.assert_complete().values()
    assert result.status is Status.OK, (result.reason, result.issues)
    run = own.results / "hosts" / "rig" / "runs" / result.run
    ledger = load_record(Ledger, run / "ledger.json")
    device = rig.node(rig.zoned)
    assert {entry.name for entry in ledger.entries} >= {"cold", "fillrandom", "overwrite", "run"}
    for entry in ledger.entries:
        closures = {(one.upper, one.lower): one for one in entry.closures}
        for below in ("driver", "device"):
            one = closures[f"kernel {device}", f"{below} {device}"]
            assert one.above == one.below > 0, (entry.name, below, one)
            assert one.state is ClosureState.EXACT
