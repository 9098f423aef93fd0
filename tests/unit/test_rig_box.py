"""A box: the rig's disk with a login and the files that start it."""

from __future__ import annotations

import json
import struct
import subprocess
import tarfile
from pathlib import Path

import pytest

from harness.errors import HostError, ToolFailed
from harness.rig import box, model
from harness.rig.recipe import Image
from harness.rig.talk import Talk
from harness.tools import proc

NVME = model.load("nvme")
SIZE = 64 << 20
needs_tools = pytest.mark.skipif(
    not (box.GRUB / "boot.img").exists() or proc.which("qemu-img") is None,
    reason="grub-pc-bin or qemu-utils are not installed (make vagrant-packages)",
)


def test_the_first_sector_finds_the_rest() -> None:
    placed = box.placed_boot(bytes(512), first=12_582_912)
    assert struct.unpack_from("<Q", placed, 0x5C) == (12_582_912,)
    assert len(placed) == 512
    with pytest.raises(ToolFailed, match="has 1024 bytes"):
        box.placed_boot(bytes(1024), first=1)


@pytest.mark.parametrize(("size", "sectors"), [(512 * 3, 2), (512 * 3 + 1, 3)])
def test_the_rest_knows_how_long_it_is(size: int, sectors: int) -> None:
    placed = box.placed_core(b"x" * size, first=100)
    assert struct.unpack_from("<QHH", placed, 500) == (101, sectors, 0x820)
    assert len(placed) == 512 * (sectors + 1)
    assert placed[:500] == b"x" * 500


def test_the_kernel_gets_a_rigs_command_line() -> None:
    words = box.command_line(NVME).split()
    assert {"root=/dev/vda", "zonelab.net=dhcp", *NVME.append} <= set(words)
    assert not any(word.startswith("zonelab.witness=") for word in words)  # nobody answers there


@pytest.mark.slow
@needs_tools
def test_a_box_is_whole(tmp_path: Path) -> None:
    image = Image(tmp_path / "image")
    tree = tmp_path / "tree"
    for folder in ("root", "etc/ssh/sshd_config.d", "boot/zonelab"):
        (tree / folder).mkdir(parents=True)
    image.folder.mkdir()
    argv = ["mke2fs", "-q", "-F", "-t", "ext4", "-d", str(tree), str(image.root), str(SIZE >> 10)]
    proc.run(argv, timeout=60)
    before = image.root.read_bytes()

    target = tmp_path / "boxes" / "nvme.box"
    box.write(NVME, image, target, Talk(quiet=True))

    assert image.root.read_bytes() == before  # other rigs start from it
    assert [path.name for path in target.parent.iterdir()] == ["nvme.box"]
    with tarfile.open(target) as archive:
        archive.extractall(tmp_path / "out")  # noqa: S202 - just made
    facts = json.loads((tmp_path / "out" / "metadata.json").read_text())
    assert facts == {"provider": "libvirt", "format": "qcow2", "virtual_size": 1}
    disk = tmp_path / "disk.raw"
    proc.run(["qemu-img", "convert", "-O", "raw", tmp_path / "out" / "box.img", disk], timeout=60)
    data = disk.read_bytes()
    assert struct.unpack_from("<Q", data, 0x5C) == (SIZE // 512,)
    assert data[510:512] == b"\x55\xaa"
    start, count, _ = struct.unpack_from("<QHH", data, SIZE + 500)
    assert start == SIZE // 512 + 1
    assert any(data[SIZE + 512 * count : SIZE + 512 * (count + 1)])  # its last sector is there
    assert in_disk(disk, "/root/.ssh/authorized_keys") == box.VAGRANT_KEY
    assert in_disk(disk, "/etc/ssh/sshd_config.d/00-vagrant.conf").endswith("authorized_keys\n")
    modes = proc.run(["debugfs", "-R", "stat /root/.ssh/authorized_keys", disk], timeout=60).stdout
    assert "Mode:  0600" in modes
    # The superblock and all behind it are the file system's still.
    checked = subprocess.run(["e2fsck", "-fn", str(disk)], capture_output=True, check=False)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.needs("debugfs")
def test_a_checkout_can_have_a_blank_in_its_path(tmp_path: Path) -> None:
    work = tmp_path / "two words"
    tree = tmp_path / "tree"
    work.mkdir()
    for folder in ("root", "etc/ssh/sshd_config.d"):
        (tree / folder).mkdir(parents=True)
    disk = work / "disk.raw"
    proc.run(["mke2fs", "-q", "-F", "-t", "ext4", "-d", tree, disk, str(SIZE >> 10)], timeout=60)
    box._add_login(disk, work)
    assert in_disk(disk, "/root/.ssh/authorized_keys") == box.VAGRANT_KEY


def in_disk(disk: Path, path: str) -> str:
    return proc.run(["debugfs", "-R", f"cat {path}", disk], timeout=60).stdout


@needs_tools
def test_a_disk_without_the_rigs_folders_is_noticed(tmp_path: Path) -> None:
    image = Image(tmp_path / "image")
    image.folder.mkdir()
    argv = ["mke2fs", "-q", "-F", "-t", "ext4", str(image.root), str(SIZE >> 10)]
    proc.run(argv, timeout=60)
    with pytest.raises(ToolFailed, match="did not write /root/"):
        box.write(NVME, image, tmp_path / "boxes" / "nvme.box", Talk(quiet=True))
    assert list((tmp_path / "boxes").iterdir()) == []


def test_a_host_without_grub_gets_the_packages_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(box, "GRUB", tmp_path)
    monkeypatch.setattr(box, "_NEEDED", {})
    with pytest.raises(HostError) as caught:
        box.write(NVME, Image(tmp_path), tmp_path / "x.box", Talk(quiet=True))
    assert "grub-pc-bin" in caught.value.hint


def test_a_box_is_removed_from_vagrant_and_from_libvirt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    volumes = "zonelab-VAGRANTSLASH-xfs_vagrant_box_image_0_box.img"
    (tmp_path / "vagrant").write_text(
        f'#!/bin/sh\necho "vagrant $*" >>{log}\n'
        'case $2 in list) echo "zonelab/xfs (libvirt, 0)"; echo "zonelab/xfs2 (libvirt)";; esac\n'
    )
    (tmp_path / "virsh").write_text(
        f'#!/bin/sh\necho "virsh $4 $5 $6 $7" >>{log}\n'
        f'case $4 in vol-list) echo " {volumes} /p"; echo " other.img /q"; echo;; esac\n'
    )
    for name in ("vagrant", "virsh"):
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    box.remove("zonelab/xfs")
    assert log.read_text().splitlines() == [
        "vagrant box list",
        "vagrant box remove --force zonelab/xfs",
        "virsh vol-list default  ",
        f"virsh vol-delete --pool default {volumes}",
    ]
    log.unlink()
    box.remove("zonelab/nvme")
    assert log.read_text().splitlines() == ["vagrant box list", "virsh vol-list default  "]
