"""QEMU's drive: it claims namespace management, but its firmware refuses it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import plays
from .conftest import WHOLE, RigHandle
from .plays import ROOT, Played, Plays

ZIPAPP = "/root/zonelab-layout.pyz"
SMALL = "--conventional-size 64MiB --experiment-size 256MiB --cold-size rest"


@pytest.fixture
def layout(rig: RigHandle, tmp_path: Path) -> Iterator[str]:
    """Return the command in the guest, for the drive with the zoned namespace."""
    plays.install(rig, tmp_path, ZIPAPP)
    kept = "/root/layout-state"
    yield f"python3 {ZIPAPP} layout {rig.node(rig.zoned)} --state-dir {kept}"
    rig.ssh(f"rm -rf {kept} {ZIPAPP}")


def nodes(rig: RigHandle) -> str:
    return rig.ssh("lsblk --nodeps --noheadings -o NAME,SIZE,ZONED | sort").stdout


def test_drive_reports_its_namespaces(rig: RigHandle, layout: str) -> None:
    before = plays.written(rig), nodes(rig)
    shown = json.loads(rig.ssh(f"{layout} {SMALL} --format json").stdout)
    assert shown["drive"]["controller"]["serial"] == "zonelab0"
    spaces = {one["nsid"]: one for one in shown["drive"]["namespaces"]}
    assert [spaces[n]["zone_size"] for n in (1, 2, 3)] == [None, 8 << 20, 8 << 20]
    assert [spaces[n]["zone_capacity"] for n in (2, 3)] == [4 << 20] * 2
    assert [spaces[n]["active"] for n in (2, 3)] == [14, 14]
    assert [one["zones"] for one in shown["layout"]["create"][:2]] == [None, 64]
    assert (plays.written(rig), nodes(rig)) == before


def test_a_refused_layout_is_reported_and_changes_nothing(rig: RigHandle, layout: str) -> None:
    for device in (rig.zoned, rig.tenants):
        rig.ssh(f"zbd reset {device.path}")
    shown = json.loads(rig.ssh(f"{layout} {SMALL} --format json").stdout)
    consents = [seen["consent"] for seen in shown["contents"] if seen["consent"]]
    erase = f"--erase {','.join(consents)}" if consents else ""
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


def played(rig: RigHandle, folder: Path, *more: str) -> Played:
    """Play the whole site with a layout; nothing may be written, and no node change."""
    own = Plays(rig, folder, campaign="layout")
    before = plays.written(rig), nodes(rig)
    asked = ["-e", f"device={rig.node(rig.zoned)}", "-e", "namespaces_conventional=64MiB"]
    asked += ["-e", "namespaces_experiment=256MiB", "-e", "namespaces_cold=rest"]
    done = own.play(ROOT, ["ansible-playbook", "site.yml", *asked, *more])
    assert (plays.written(rig), nodes(rig)) == before
    assert not own.results.exists()
    return done


@pytest.mark.skipif(not WHOLE, reason="make test-campaigns runs it")
def test_the_playbook_shows_the_layout_and_the_drives_refusal(
    rig: RigHandle, tmp_path: Path
) -> None:
    rig.ssh(f"zbd reset {rig.zoned.path}; zbd reset {rig.tenants.path}")
    before = plays.guest_files(rig)
    shown = played(rig, tmp_path, "--check")
    assert shown.code == 0, shown.text
    assert shown.recap["changed"] == 0
    assert plays.guest_files(rig) == before
    assert "f2fs--r01" in shown.text  # the plan
    assert "note: active zones are not divided" in shown.text
    assert re.findall(r"^(\d+) +deleted ", shown.text, re.MULTILINE) == ["1", "2", "3"]
    assert re.search(
        r"^experiment +created +zoned +512\.0 MiB +256\.0 MiB +64 ", shown.text, re.MULTILINE
    )
    consents = re.findall(r"erase=(eui\.[0-9a-f]{16}@[0-9a-f]{8})", shown.text)
    allowed = ["-e", "recreate_namespaces=zonelab0", "-e", json.dumps({"erase": consents})]
    refused = played(rig, tmp_path, *allowed)
    assert refused.code == 2, refused.text
    assert "nvme list-ctrl: Invalid Field in Command" in refused.fatal
