"""ZenFS on its own rig: the user's source is built against the guest's RocksDB, and runs.

``ZENFS_SOURCE`` names a folder with its sources, ``ROCKSDB_SOURCE`` the tree of the RocksDB in the
guest, which has no network.
"""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from harness.store.result import Status

from . import plays
from .conftest import WHOLE, RigHandle, booted
from .guest_runner import ZIPAPP, GuestRunner

GIVEN = {name: os.environ.get(name, "") for name in ("ZENFS_SOURCE", "ROCKSDB_SOURCE")}
MISSING = [name for name, folder in GIVEN.items() if not folder]

# This module is over before the NVMe rig boots: one rig at a time.
pytestmark = [
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not WHOLE, reason="make test-zenfs runs it"),
    pytest.mark.skipif(bool(MISSING), reason=f"{'=FOLDER and '.join(MISSING)}=FOLDER is not given"),
]

LEVELS = "levels=[zenfs, zlfs]"


@pytest.fixture(scope="module")
def rig() -> Iterator[RigHandle]:
    with booted("zenfs") as handle:
        yield handle


def send(rig: RigHandle, folder: Path, source: Path, there: str) -> str:
    """Copy a folder into the guest, with its hidden files: git has the version."""
    archive = folder / "source.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(source, arcname=".")
    plays.copy(rig, archive, "/root/source.tar")
    rig.ssh(f"rm -rf {there}; mkdir {there}; tar -C {there} -xf /root/source.tar")
    rig.ssh(f"chown -R root: {there}; rm /root/source.tar")  # git trusts only its owner
    return there


def build(rig: RigHandle, folder: Path) -> plays.Played:
    """Run the roles; compiling takes minutes there."""
    runner = folder / "zonelab.pyz"
    plays.install(rig, folder, ZIPAPP)  # packs it there
    given = {
        "zonelab_root": str(plays.ROOT),
        "zonelab_runner": str(runner),
        "zenfs_source": send(rig, folder, Path(GIVEN["ZENFS_SOURCE"]), "/root/zenfs"),
        "rocksdb_source": send(rig, folder, Path(GIVEN["ROCKSDB_SOURCE"]), "/root/rocksdb"),
    }
    playbook = folder / "play.yml"
    playbook.write_text(
        yaml.safe_dump([{"hosts": "all", "gather_facts": False, "roles": ["zenfs"]}])
    )
    argv = ["ansible-playbook", str(playbook), "-e", "@group_vars/all.yml", "-e", json.dumps(given)]
    return plays.Plays(rig, folder / "plays").play(plays.ROOT / "ansible", argv, timeout=1800)


def test_the_users_source_is_built_once_and_runs(rig: RigHandle, tmp_path: Path) -> None:
    played = build(rig, tmp_path)
    assert played.code == 0, played.text
    again = build(rig, tmp_path)
    assert (again.code, again.recap["changed"]) == (0, 0), again.text
    own = GuestRunner(rig, tmp_path, "zenfs", ["--set", LEVELS, "--set", "baseline=zlfs"])
    own.start()
    own.wait_end(timeout=900)
    results = own.assert_complete()
    assert {run.level for run in results.values()} == {"zenfs", "zlfs"}
    assert {name: (run.status, run.reason) for name, run in results.items()} == dict.fromkeys(
        results, (Status.OK, None)
    )
