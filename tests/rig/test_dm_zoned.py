"""dm-zoned on its own rig: the mapping that a killed runner leaves does no harm."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.store.result import Severity, Status
from harness.tools import dmsetup

from .conftest import WHOLE, RigHandle, booted
from .guest_runner import GuestRunner

# This module is over before the NVMe rig boots: one rig at a time.
pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not WHOLE, reason="make test-dm-zoned runs it"),
]

RUN = "dm-zoned--r01"
LEVELS = "levels=[dm-zoned, conventional-ext4]"
FIRST = "seed=2"  # the order in which this seed takes them


@pytest.fixture(scope="module")
def rig() -> Iterator[RigHandle]:
    with booted("dm-zoned") as handle:
        yield handle


def mapped(rig: RigHandle) -> list[str]:
    """Return the names of all mapped devices, sorted."""
    return sorted(dmsetup.parse_ls(rig.ssh("dmsetup ls").stdout))


def unit_journal(rig: RigHandle) -> str:
    """Return the runner's lines in its unit's journal."""
    return rig.ssh("journalctl --no-pager --output=cat -u zonelab-run").stdout


def test_a_killed_runner_leaves_a_mapping_that_is_found_as_ours(
    rig: RigHandle, tmp_path: Path
) -> None:
    own = GuestRunner(rig, tmp_path, "killed", ["--set", LEVELS, "--set", FIRST])
    assert own.planned == ["conventional-ext4--r01", RUN]
    own.start()
    own.wait_phase("overwrite")
    own.kill(RUN)
    # The target has the run's label for a name, the slice under it our prefix.
    target, piece = mapped(rig)
    assert target.startswith("zl-")
    assert piece == f"zonelab-{rig.node(rig.conventional)}"
    assert " zoned " in rig.ssh(f"dmsetup status {target}").stdout

    own.start()
    own.wait_end()
    assert mapped(rig) == []
    lines = unit_journal(rig)
    removed = [f"removed device-mapper {name}" for name in (target, piece)]
    assert [line for line in lines.splitlines() if "device-mapper" in line] == removed
    assert f"{RUN} of campaign killed was killed there" in lines
    results = own.assert_complete()
    assert {result.status for result in results.values()} == {Status.OK}
    caveats = {issue.code: issue.severity for issue in results[RUN].issues}
    assert caveats["active-limit-ignored"] is Severity.INFO  # this rig has no limit

    before = own.fingerprint()
    own.start()
    own.wait_end()
    assert own.fingerprint() == before
