"""The NVMe rig through Vagrant, from its own image to nothing left (``make test-vagrant``)."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.rig import box, control, model
from harness.rig.talk import Talk
from harness.store.result import Status
from harness.store.rundir import completed, load_result
from harness.tools import proc

from .conftest import WHOLE
from .plays import ROOT

pytestmark = [
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not WHOLE, reason="takes a while: make test-vagrant"),
]
RIG = model.load("nvme")
# A name of its own, so that a second call does not find the first one's campaign.
CAMPAIGN = f"vagrant-{time.strftime('%m%d%H%M%S')}"
EMPTY = "0x1"  # as `zbd report -csv` prints it
VIRSH = ("virsh", "--connect", "qemu:///system")


class Vagrant:
    """``vagrant`` with its own boxes and machines in one folder; prints times of commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.begin = time.monotonic()

    def __call__(self, *words: str | Path, check: bool = True, **more: str) -> str:
        env = {
            "VAGRANT_HOME": str(self.folder / "home"),
            "VAGRANT_DOTFILE_PATH": str(self.folder / "dotfiles"),
            "PYTHONPATH": str(ROOT),  # the code of this checkout, whatever its .venv is of
            "STUDY": "smoke",
            "LEVELS": "conventional-ext4,zlfs",
            "CAMPAIGN": CAMPAIGN,
            **more,
        }
        started = time.monotonic()
        done = proc.run(["vagrant", *words], cwd=ROOT, env=env, timeout=2400, check=False)
        now = time.monotonic()
        with (ROOT / "build" / "test-vagrant.log").open("a") as log:
            what = " ".join(str(word) for word in words)
            log.write(f"=== {now - self.begin:5.0f} s: vagrant {what}: {now - started:.0f} s, ")
            log.write(f"exit {done.exit_code}\n{done.stdout}{done.stderr}")
        assert done.ok or not check, done.stdout[-4000:] + done.stderr
        return done.stdout

    def clean(self) -> None:
        """Remove the box everywhere."""
        home = {"VAGRANT_HOME": str(self.folder / "home")}
        proc.run(["make", "vagrant-clean", "RIG=nvme"], cwd=ROOT, env=home, timeout=120)

    def inside(self, command: str) -> str:
        """Run a shell command in the guest."""
        return self("ssh", "nvme", "--command", command)

    def not_empty(self, device: str) -> int:
        """Return how many zones of a device are not empty."""
        lines = self.inside(f"zbd report -csv {device}").splitlines()
        header, *zones = (
            [field.strip() for field in line.split(",")] for line in lines if "," in line
        )
        assert len(zones) == RIG.namespaces[2].zones
        return sum(zone[header.index("cond")] != EMPTY for zone in zones)

    def provision(self, **more: str) -> dict[str, int]:
        return recap(self("provision", "nvme", **more))


def recap(text: str) -> dict[str, int]:
    """Return the line in which Ansible sums up."""
    (line,) = re.findall(r"^nvme +: (.*)$", text, re.MULTILINE)
    return {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", line)}


def backing() -> list[Path]:
    """Return this user's files of rigs through Vagrant."""
    return sorted(Path(f"/var/tmp/zonelab-vagrant-{os.getuid()}").rglob("*"))


def libvirts() -> dict[str, list[str]]:
    """Return names that libvirt has: domains, and volumes of the pool that Vagrant uses.

    The pool itself and the network are made by the first machine, and stay for the next.
    """
    asked = {"domains": ("list", "--all"), "volumes": ("vol-list", "--pool", "default")}
    listings = {
        what: proc.run([*VIRSH, "--quiet", *words], timeout=60, check=False).stdout
        for what, words in asked.items()
    }
    return {what: sorted(text.split()) for what, text in listings.items()}


@pytest.fixture
def vagrant(tmp_path: Path) -> Iterator[Vagrant]:
    assert proc.run([*VIRSH, "version"], timeout=60, check=False).ok, "libvirtd does not answer"
    own = Vagrant(tmp_path)
    (ROOT / "build").mkdir(exist_ok=True)
    (ROOT / "build" / "test-vagrant.log").write_text("")
    yield own
    own("destroy", "--force", "nvme", check=False)
    own.clean()
    for name in (CAMPAIGN, f"{CAMPAIGN}-again"):
        shutil.rmtree(ROOT / "results" / name, ignore_errors=True)


def test_up_provision_halt_up_destroy(vagrant: Vagrant, tmp_path: Path) -> None:
    before = libvirts()
    image, _ = control.build(RIG, Talk())
    box.write(RIG, image, tmp_path / "nvme.box", Talk())
    vagrant("box", "add", "--name", "zonelab/nvme", tmp_path / "nvme.box")

    first = recap(vagrant("up", "nvme"))
    assert (first["failed"], first["unreachable"]) == (0, 0)
    assert statuses(CAMPAIGN) == [Status.OK, Status.OK]
    files = [path for path in backing() if path.is_file()]
    assert [path.stat().st_size for path in files] == [ns.length for ns in RIG.namespaces]

    again = vagrant.provision()
    assert (again["changed"], again["failed"]) == (0, 0)

    tenants = "/dev/disk/by-path/pci-0000:00:10.0-nvme-3"
    vagrant.inside(f"dd if=/dev/zero of={tenants} bs=4096 count=1 oflag=direct")
    assert vagrant.not_empty(tenants) == 1
    vagrant("halt", "nvme")
    assert backing() == []

    vagrant("up", "nvme")
    assert vagrant.not_empty(tenants) == 0  # another drive, with the name of the old one
    assert vagrant.provision()["changed"] == 0  # the campaign is on the controller, and complete
    # The new device is no stranger to the guard, although the journal knows the old one.
    vagrant.provision(CAMPAIGN=f"{CAMPAIGN}-again", LEVELS="zlfs")
    assert statuses(f"{CAMPAIGN}-again") == [Status.OK]

    vagrant("destroy", "--force", "nvme")
    vagrant.clean()
    assert backing() == []
    assert libvirts() == before


def statuses(campaign: str) -> list[Status]:
    runs = completed(ROOT / "results" / campaign / "hosts" / "nvme" / "runs")
    return [load_result(run).status for run in runs]
