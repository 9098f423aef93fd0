"""dm-zap on its own rig: the guest builds a module without a network, and the user's dm-zap runs.

``DM_ZAP_SOURCE`` names a folder with its sources; without it a stand-in is built, and nothing runs.
"""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from harness.store.result import Result, Status

from . import plays
from .conftest import WHOLE, RigHandle, booted
from .guest_runner import GuestRunner

# This module is over before the NVMe rig boots: one rig at a time.
pytestmark = [
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not WHOLE, reason="make test-dm-zap runs it"),
]

STAND_IN = plays.ROOT / "tests/fixtures/dm-zap/stand-in"
SOURCE = os.environ.get("DM_ZAP_SOURCE", "")
LEVELS = "levels=[dm-zap, conventional-ext4]"


@pytest.fixture(scope="module")
def rig() -> Iterator[RigHandle]:
    with booted("dm-zap") as handle:
        yield handle


def build(rig: RigHandle, folder: Path, source: Path) -> plays.Played:
    """Copy a source into the guest and run the role; compiling takes minutes there."""
    there = "/root/dm-zap"
    archive = folder / "source.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(source, arcname=".")
    plays.copy(rig, archive, "/root/source.tar")
    rig.ssh(f"rm -rf {there}; mkdir {there}; tar -C {there} -xf /root/source.tar")
    playbook = folder / "play.yml"
    playbook.write_text(
        yaml.safe_dump([{"hosts": "all", "gather_facts": False, "roles": ["dm_zap"]}])
    )
    given = {"zonelab_root": str(plays.ROOT), "dm_zap_source": there}
    argv = ["ansible-playbook", str(playbook), "-e", "@group_vars/all.yml", "-e", json.dumps(given)]
    own = plays.Plays(rig, folder / "plays")
    return own.play(plays.ROOT / "ansible", argv, timeout=1500)


def targets(rig: RigHandle) -> list[str]:
    return [line.split()[0] for line in rig.ssh("dmsetup targets").stdout.splitlines()]


def test_a_guest_without_a_network_builds_and_loads_a_module(
    rig: RigHandle, tmp_path: Path
) -> None:
    played = build(rig, tmp_path, STAND_IN)
    assert played.code == 0, played.text
    assert played.text.count("does not fit this source") == 2
    assert "zap" in targets(rig)
    again = build(rig, tmp_path, STAND_IN)
    assert (again.code, again.recap["changed"]) == (0, 0), again.text
    rig.ssh("rmmod dm_zap")
    assert "zap" not in targets(rig)


@pytest.mark.skipif(not SOURCE, reason="DM_ZAP_SOURCE=FOLDER names the sources of dm-zap")
def test_the_users_source_is_mended_and_runs_twice_in_one_boot(
    rig: RigHandle, tmp_path: Path
) -> None:
    played = build(rig, tmp_path, Path(SOURCE))
    assert played.code == 0, played.text
    assert "does not fit" not in played.text
    own = GuestRunner(rig, tmp_path, "dm-zap", ["--set", LEVELS, "--set", "repetitions=2"])
    own.start()
    own.wait_end(timeout=900)
    results = own.assert_complete()
    assert {name: (run.status, run.reason) for name, run in results.items()} == dict.fromkeys(
        results, (Status.OK, None)
    )
    mapped = [run for run in results.values() if run.level == "dm-zap"]
    assert len(mapped) == 2
    assert len({build_id(run) for run in mapped}) == 1
    rig.ssh("test ! -e /sys/kernel/zap")


def build_id(run: Result) -> str:
    """Return the hash of the module, which the manifest has."""
    found: str = run.manifest["level"]["facts"]["module_build_id"]
    assert len(found) == 40
    return found
