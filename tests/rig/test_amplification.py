"""Write amplification of f2fs and zlfs for the same load in one campaign, at 80 % utilisation."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.store.result import Status
from harness.store.rundir import completed, load_result

from .conftest import WHOLE, RigHandle
from .plays import ROOT, Plays

pytestmark = pytest.mark.skipif(not WHOLE, reason="make test-amplification runs it")

CAMPAIGN = "amplification"


def test_zlfs_writes_no_more_than_f2fs(rig: RigHandle, tmp_path: Path) -> None:
    """Device bytes over what RocksDB wrote, in the default study's overwrite."""
    own = Plays(
        rig,
        tmp_path,
        study="integration-levels",
        campaign=CAMPAIGN,
        levels="f2fs,zlfs",
        repetitions="1",
    )
    device = f"device={rig.node(rig.zoned)}"
    played = own.play(ROOT, ["ansible-playbook", "site.yml", "-e", device], timeout=1200)
    assert played.code == 0, played.text
    amplification = {}
    for path in completed(own.results / CAMPAIGN / "hosts" / "rig" / "runs"):
        found = load_result(path)
        assert found.status is Status.OK, (found.reason, found.issues)
        assert found.utilisation is not None
        assert found.utilisation.u_ns == pytest.approx(0.8, abs=0.02)
        amplification[found.level] = found.metrics["overwrite.level_write_amplification"].value
    assert 1 <= amplification["zlfs"] <= amplification["f2fs"]
    rig.ssh(f"rm -rf /var/lib/zonelab/campaigns/{CAMPAIGN}")
