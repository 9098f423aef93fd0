"""A drive whose firmware refuses to make namespaces, although it says that it can: QEMU's."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.rig import state
from harness.tools import proc

from . import plays
from .conftest import RigHandle

pytestmark = pytest.mark.rig

ZIPAPP = "/root/zonelab-layout.pyz"
SMALL = "--conventional 64MiB --experiment 256MiB --cold rest"


@pytest.fixture
def layout(rig: RigHandle, tmp_path: Path) -> Iterator[str]:
    """Return the command in the guest, for the drive with the zoned namespace."""
    zipapp = tmp_path / "zonelab.pyz"
    proc.run([sys.executable, "-m", "harness.pack", zipapp], cwd=plays.ROOT, timeout=60)
    config = state.folder(rig.name) / "ssh_config"
    proc.run(["scp", "-q", "-F", config, zipapp, f"{state.host_name(rig.name)}:{ZIPAPP}"])
    kept = "/root/layout-state"
    yield f"python3 {ZIPAPP} layout {rig.node(rig.zoned)} --state-dir {kept}"
    rig.ssh(f"rm -rf {kept} {ZIPAPP}")


def nodes(rig: RigHandle) -> str:
    return rig.ssh("lsblk --nodeps --noheadings -o NAME,SIZE,ZONED | sort").stdout


def test_what_the_drive_says_of_itself(rig: RigHandle, layout: str) -> None:
    before = plays.written(rig), nodes(rig)
    shown = json.loads(rig.ssh(f"{layout} {SMALL} --format json").stdout)
    assert shown["drive"]["controller"]["serial"] == "zonelab0"
    spaces = {one["nsid"]: one for one in shown["drive"]["namespaces"]}
    assert [spaces[n]["zone_size"] for n in (1, 2, 3)] == [None, 8 << 20, 8 << 20]
    assert [spaces[n]["zone_capacity"] for n in (2, 3)] == [4 << 20] * 2
    assert [spaces[n]["active"] for n in (2, 3)] == [14, 14]
    assert [one["zones"] for one in shown["layout"]["create"][:2]] == [None, 64]
    assert (plays.written(rig), nodes(rig)) == before


def test_what_it_refuses_is_told_and_changes_nothing(rig: RigHandle, layout: str) -> None:
    for device in (rig.zoned, rig.tenants):
        rig.ssh(f"zbd reset {device.path}")
    erase = " ".join(f"--erase eui.{one.eui64}" for one in rig.state.devices)
    before = plays.written(rig), nodes(rig)
    unnamed = rig.ssh(f"{layout} {SMALL} --apply {erase}", check=False)
    assert unnamed.exit_code == 3
    assert "-e recreate_namespaces=zonelab0" in unnamed.stderr
    refused = rig.ssh(f"{layout} {SMALL} --apply --recreate zonelab0 {erase}", check=False)
    assert refused.exit_code == 4, refused.stderr
    # Without a subsystem QEMU does not even list the controllers of a namespace.
    assert "nvme list-ctrl: Invalid Field in Command" in refused.stderr
    assert "the command was: nvme list-ctrl" in refused.stderr
    assert (plays.written(rig), nodes(rig)) == before
