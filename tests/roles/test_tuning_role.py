"""``roles/tuning`` with the real ansible: settings in a scratch folder, system programs faked."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from tests.fixtures.roles import ROOT, play

pytestmark = pytest.mark.slow

# Each keeps its state in files beside it: areas in use with their priorities, and timers at work.
# swapon is as in util-linux 2.38 on Linux 6.1: areas get -2, -3, ... in order of activation.
FAKES = {
    "swapon": 'case "$1" in --show=NAME,PRIO) cat {0}/swaps; exit;; '
    "--priority) priority=$2; shift 2;; *) priority=$((-2 - $(grep -c ' -' {0}/swaps)));; esac; "
    'grep -q "^$1 " {0}/swaps && exit 255; echo "$1 $priority" >>{0}/swaps',
    "swapoff": 'grep -v "^$1 " {0}/swaps >{0}/new; mv {0}/new {0}/swaps',
    "systemctl": 'case "$1" in list-units) shift 4; for t in "$@"; do '
    'grep -x "$t" {0}/timers; done | sed "s/$/ loaded active waiting/";; '
    'stop) grep -vx "$2" {0}/timers >{0}/new; mv {0}/new {0}/timers;; '
    'start) [ -e {0}/"$2".removed ] && exit 5; '
    '[ -e {0}/"$2".masked ] && {{ echo "Unit $2 is masked." >&2; exit 1; }}; '
    'grep -qx "$2" {0}/timers || echo "$2" >>{0}/timers;; esac; true',
}


# As the kernel lists them: in order of slots, not of priorities.
AREAS = ["/dev/sda2 -3", "/dev/zram0 100", "/swapfile -2"]


class Machine:
    """This machine as the role sees it.

    Args:
        folder: has the settings, the fakes and what the role saves.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, body in FAKES.items():
            program = folder / "bin" / name
            program.parent.mkdir(exist_ok=True)
            program.write_text(f"#!/bin/sh\n{body.format(folder)}\n")
            program.chmod(0o755)
        self.swaps, self.timers = folder / "swaps", folder / "timers"
        self.swaps.write_text("".join(f"{area}\n" for area in AREAS))
        self.timers.write_text("man-db.timer\nother.timer\n")
        self.value, self.words = folder / "value", folder / "words"
        self.value.write_text("60\n")
        self.words.write_text("always [madvise] never\n")
        self.tuning = {
            "name": "own",
            "settings": [
                {"path": str(self.value), "value": "0"},
                {"path": str(self.words), "value": "never"},
                {"path": str(folder / "absent*"), "value": "1"},
            ],
            "swap": "off",
            "timers": ["man-db.timer", "fstrim.timer"],
        }
        self.saved = folder / "state" / "saved"

    def state(self) -> tuple[list[str], list[str], str, str]:
        """Return the present swap areas, timers and the two settings."""
        lists = (
            sorted(self.swaps.read_text().splitlines()),
            sorted(self.timers.read_text().splitlines()),
        )
        return *lists, self.value.read_text().strip(), self.words.read_text().strip()

    def play(self, *, restore: bool = False, refused: Sequence[str] = ()) -> int:
        """Tune or restore; return how many tasks changed something.

        ``refused`` are parts of the message with which the play must fail.
        """
        (self.folder / "own.yml").write_text(yaml.safe_dump(self.tuning))
        part = {"tasks_from": "restore"} if restore else {}
        task = {"ansible.builtin.import_role": {"name": "tuning"} | part}
        file = self.folder / "play.yml"
        file.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": [task]}]))
        variables = {
            "zonelab_state": str(self.folder / "state"),
            "tuning_name": os.path.relpath(self.folder / "own", ROOT / "configs/tunings"),
        }
        changed, failed, output = play(file, variables, self.folder / "bin")
        assert failed == bool(refused), output
        assert [part for part in refused if part not in output] == [], output
        return changed


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


BEFORE = (AREAS, ["man-db.timer", "other.timer"], "60")


def test_everything_is_saved_changed_and_put_back(machine: Machine) -> None:
    assert machine.play() > 0
    assert machine.state() == ([], ["other.timer"], "0", "never")
    # A second play finds what an interrupted one left, and saves what was there before both.
    assert machine.play() > 0
    assert machine.state()[:3] == ([], ["other.timer"], "0")
    stopped = json.loads((machine.saved / "stopped.json").read_text())
    areas = [["/dev/zram0", "100"], ["/swapfile", "-2"], ["/dev/sda2", "-3"]]
    assert stopped == {"swaps": areas, "timers": ["man-db.timer"]}
    assert machine.play(restore=True) > 0
    assert machine.state() == (*BEFORE, "madvise")
    assert list(machine.saved.iterdir()) == []
    assert machine.play(restore=True) == 0


def test_none_changes_nothing(machine: Machine) -> None:
    machine.tuning = yaml.safe_load((ROOT / "configs/tunings/none.yml").read_text())
    assert machine.play() == 0
    assert machine.state() == (*BEFORE, "always [madvise] never")
    assert not machine.saved.exists()


def test_swap_and_timers_that_a_reboot_restored_are_accepted(machine: Machine) -> None:
    """A reboot uses swap areas again and starts timers; the settings are then put back on top."""
    machine.play()
    machine.swaps.write_text("".join(f"{area}\n" for area in reversed(AREAS)))
    machine.timers.write_text("man-db.timer\nother.timer\n")
    machine.play(restore=True)
    assert machine.state()[:3] == BEFORE


def test_areas_that_an_earlier_release_saved_are_enabled(machine: Machine) -> None:
    machine.swaps.write_text("")
    machine.saved.mkdir(parents=True)
    (machine.saved / "stopped.json").write_text('{"swaps": ["/dev/sda2"], "timers": []}')
    machine.play(restore=True)
    assert machine.swaps.read_text() == "/dev/sda2 -2\n"


def test_a_setting_or_timer_that_is_gone_does_not_keep_the_others_from_being_put_back(
    machine: Machine,
) -> None:
    machine.play()
    machine.value.unlink()
    (machine.folder / "man-db.timer.removed").touch()
    machine.play(restore=True)
    assert not machine.value.exists()
    assert machine.words.read_text().strip() == "madvise"
    assert sorted(machine.swaps.read_text().splitlines()) == AREAS
    assert list(machine.saved.iterdir()) == []


def test_what_is_refused_keeps_nothing_else_from_being_put_back(machine: Machine) -> None:
    machine.play()
    machine.value.unlink()
    machine.value.mkdir()
    (machine.folder / "man-db.timer.masked").touch()
    refused = [
        "2 settings",
        f'{{"path": "{machine.value}", "value": "60"}}',
        f"tee: {machine.value}: Is a directory",
        "man-db.timer is masked",
    ]
    machine.play(restore=True, refused=refused)
    assert machine.words.read_text().strip() == "madvise"
    assert sorted(machine.swaps.read_text().splitlines()) == AREAS
    assert list(machine.saved.iterdir()) == []
    assert machine.play(restore=True) == 0


def test_files_that_a_power_cut_left_empty_are_as_absent(machine: Machine) -> None:
    machine.saved.mkdir(parents=True)
    for name in ("tuning.json", "stopped.json"):
        (machine.saved / name).touch()
    machine.play()
    assert machine.state() == ([], ["other.timer"], "0", "never")
    machine.play(restore=True)
    assert machine.state() == (*BEFORE, "madvise")
