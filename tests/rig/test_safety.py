"""Refusals of a play, and restoration of tuning after an interruption."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from . import plays
from .checks import consent_in
from .conftest import WHOLE, RigHandle
from .plays import ROOT, Played, Plays

ANSIBLE = ROOT / "ansible"


def refused(rig: RigHandle, tmp_path: Path, device: str, *more: str) -> Played:
    """Play with a device that must not be used; nothing must be written anywhere."""
    own = Plays(rig, tmp_path, campaign="refused")
    before = plays.written(rig), plays.guest_files(rig)
    played = own.play(ROOT, ["ansible-playbook", "site.yml", "-e", f"device={device}", *more])
    assert played.code == 2, played.text
    assert (plays.written(rig), plays.guest_files(rig)) == before
    assert not own.results.exists()
    return played


def test_zones_with_foreign_data_are_refused(rig: RigHandle, tmp_path: Path) -> None:
    node = rig.node(rig.tenants)
    rig.ssh(f"zbd reset /dev/{node}")
    try:
        rig.ssh(f"dd if=/dev/urandom of=/dev/{node} bs=1M count=2 oflag=direct status=none")
        message = refused(rig, tmp_path, node).fatal
        assert f"/dev/{node} has 1 zones that are not empty" in message
        assert "that zonelab did not write" in message
        assert consent_in(message, rig.tenants.eui64)
        checked = refused(rig, tmp_path, node, "--check")
        assert '"zones_not_empty": 1' in checked.text
        assert consent_in(checked.text, rig.tenants.eui64) in message
    finally:
        rig.ssh(f"zbd reset /dev/{node}")


@pytest.mark.skipif(not WHOLE, reason="make test-campaigns runs it")
def test_a_missing_device_is_refused(rig: RigHandle, tmp_path: Path) -> None:
    message = refused(rig, tmp_path, "nvme9n9").fatal
    assert "nvme9n9" in message


@pytest.mark.skipif(not WHOLE, reason="make test-campaigns runs it")
def test_restore_puts_back_what_an_interrupted_play_changed(rig: RigHandle, tmp_path: Path) -> None:
    # A choice of words; a plain value and a file that is not there are in the pipeline's tests.
    pages = "/sys/kernel/mm/transparent_hugepage/enabled"
    tuning = {"settings": [{"path": pages, "value": "never"}]}
    (tmp_path / "own.yml").write_text(yaml.safe_dump({"name": "own", **tuning}))
    name = os.path.relpath(tmp_path / "own", ROOT / "configs" / "tunings")
    own = Plays(rig, tmp_path / "play", tuning_name=name)
    # The tuning of site.yml alone: as if the play had been killed right behind it.
    (tmp_path / "tune.yml").write_text(
        "- {name: Tune, hosts: all, tasks: [{name: Tune, import_role: {name: tuning}}]}\n"
    )
    shared = ["-e", f"@{ANSIBLE}/group_vars/all.yml", "-e", f"zonelab_root={ROOT}"]
    tune = ["ansible-playbook", str(tmp_path / "tune.yml"), *shared]
    restore = ["ansible-playbook", "restore.yml"]

    def value() -> str:
        return rig.ssh(f"cat {pages}").stdout.strip()

    before = value()
    assert "[never]" not in before
    tuned = own.play(ANSIBLE, tune)
    assert tuned.code == 0, tuned.text
    assert value() == "always madvise [never]"
    first = own.play(ANSIBLE, restore)
    assert (first.code, value()) == (0, before), first.text
    assert first.recap["changed"] > 0
    second = own.play(ANSIBLE, restore)
    assert (second.code, second.recap["changed"], value()) == (0, 0, before), second.text
