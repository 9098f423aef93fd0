"""A rig's image as a Vagrant box for libvirt: the same disk, made to start by itself.

``zonelab rig`` hands QEMU the kernel, a key and a network; a box brings its own. Three things are
added, none of which needs root or a mount: debugfs writes the key that Vagrant first logs in with,
GRUB goes behind the file system, and its first sector into the first one, which ext4 leaves free.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import tarfile
import tempfile
from pathlib import Path

from harness.errors import HostError, ToolFailed
from harness.rig import host, qemu
from harness.rig.model import Rig
from harness.rig.recipe import Image
from harness.rig.talk import Talk
from harness.tools import proc

GRUB = Path("/usr/lib/grub/i386-pc")

_NEEDED = {
    "debugfs": "e2fsprogs",
    "cp": "coreutils",
    "grub-mkimage": "grub-common",
    "qemu-img": "qemu-utils",
}
_SPACE = 4 << 30  # a sparse copy, the box's disk and the box: 1 GiB each, and a reserve
_TIMEOUT = 1800.0
_SECTOR = 512

# GRUB 2, grub-core/boot/i386/pc/{boot,diskboot}.S, include/grub/i386/pc/boot.h: where boot.img says
# in which sector of the disk the rest begins; and the last 12 bytes of the rest's own first sector:
# where what follows it begins, how many sectors that are, and the segment it is loaded to.
_KERNEL_SECTOR = 0x5C
_BLOCKLIST = struct.Struct("<QHH")
_LOAD_SEGMENT = 0x820
# Room that a file system leaves in front of its superblock (ext4(5): the first 1024 bytes).
_BOOT_AREA = _SECTOR

# The public half of the pair that Vagrant publishes for a box's first login. Vagrant replaces it
# with one of its own, made for the machine, as soon as it has logged in.
VAGRANT_KEY = (
    "ssh-rsa AAAAB3NzaC1yc2EAAAABIwAAAQEA6NF8iallvQVp22WDkTkyrtvp9eWW6A8YVr+kz4TjGYe7gHzIw+niNltGEF"
    "HzD8+v1I2YJ6oXevct1YeS0o9HZyN1Q9qgCgzUFtdOKLv6IedplqoPkcmF0aYet2PkEDo3MlTBckFXPITAMzF8dJSIFo9D"
    "8HfdOV0IAdx4O7PtixWKn5y2hMNG0zQPyUecp4pzC6kivAIhyfHilFR61RGL+GPXQ2MWZWFYbAGjyiYJnAmCP3NOTd0jMZ"
    "EnDkbUvxhMmBYSdETk1rRgm+R4LOzFUGaHqHDLKLX+FIPKcF96hrucXzcWyLbIbEgE98OHlnVYCzRdK8jlqm8tehUc9c9W"
    "hQ== vagrant insecure public key\n"
)
# Read before zonelab.conf, and sshd takes the first value it finds.
_SSHD = "AuthorizedKeysFile .ssh/authorized_keys\n"
_VAGRANTFILE = """\
# What Vagrant has to know of this box; it comes before the project's Vagrantfile.
Vagrant.configure("2") do |config|
  config.ssh.username = "root"
  config.ssh.sudo_command = "%c" # root already
end
"""


def name(rig: Rig) -> str:
    """Return the box's name, which the Vagrantfile asks for."""
    return f"zonelab/{rig.name}"


def command_line(rig: Rig) -> str:
    """Return the kernel's command line: a rig's own, but for the network and the witness."""
    return " ".join((*qemu.APPEND, "zonelab.net=dhcp", *rig.append))


def write(rig: Rig, image: Image, target: Path, talk: Talk) -> None:
    """Write a box, complete or not at all.

    Raises:
        HostError: this machine lacks a program, or room.
        ToolFailed: one of them failed.
    """
    host.check_programs(_NEEDED)
    if not (GRUB / "boot.img").is_file():
        hint = "apt-get install --no-install-recommends grub-pc-bin"
        raise HostError(f"no {GRUB}/boot.img", hint=hint, code="program-missing")
    target.parent.mkdir(parents=True, exist_ok=True)
    host.check_space(target.parent, _SPACE, "making a box")
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        disk = work / "disk.raw"
        talk.say(f"copying {image.root}")
        _run("cp", "--sparse=always", "--no-preserve=mode", str(image.root), str(disk))
        _add_login(disk, work)
        _make_bootable(disk, _core(rig, work))
        talk.say("converting the disk")
        _run("qemu-img", "convert", "-O", "qcow2", str(disk), str(work / "box.img"))
        _pack(work, disk.stat().st_size).rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _add_login(disk: Path, work: Path) -> None:
    """Let Vagrant's key in, and it write keys of its own, where a rig takes its key from QEMU."""
    files = {
        "/root/.ssh/authorized_keys": (VAGRANT_KEY, 0o600),
        "/etc/ssh/sshd_config.d/00-vagrant.conf": (_SSHD, 0o644),
    }
    script = ["mkdir /root/.ssh", "sif /root/.ssh mode 040700"]
    for number, (path, (text, mode)) in enumerate(files.items()):
        (work / f"file{number}").write_text(text)
        script += [f"write {work / f'file{number}'} {path}", f"sif {path} mode 0100{mode:o}"]
        script += [f"sif {path} uid 0", f"sif {path} gid 0"]
    (work / "script").write_text("\n".join(script) + "\n")
    _run("debugfs", "-w", "-f", str(work / "script"), str(disk))
    for path, (text, _) in files.items():  # debugfs exits 0 whatever became of its commands
        found = _run("debugfs", "-R", f"cat {path}", str(disk))
        if found != text:
            raise ToolFailed(f"debugfs did not write {path} of the box")


def _core(rig: Rig, work: Path) -> bytes:
    """Return GRUB with a configuration that starts the image's kernel from the whole disk."""
    (work / "grub.cfg").write_text(
        "set root=(hd0)\n"
        f"linux /boot/zonelab/vmlinuz {command_line(rig)}\n"
        "initrd /boot/zonelab/initrd\n"
        "boot\n"
    )
    argv = ["grub-mkimage", "-O", "i386-pc", "-p", "(hd0)/boot/grub", "-c", str(work / "grub.cfg")]
    _run(*argv, "-o", str(work / "core.img"), "biosdisk", "ext2", "linux", "boot")
    return (work / "core.img").read_bytes()


def _make_bootable(disk: Path, core: bytes) -> None:
    """Write GRUB behind the file system, and what the BIOS loads in front of it."""
    first = disk.stat().st_size // _SECTOR
    boot = (GRUB / "boot.img").read_bytes()
    with disk.open("r+b") as file:
        file.write(placed_boot(boot, first))
        file.seek(first * _SECTOR)
        file.write(placed_core(core, first))
        os.truncate(file.fileno(), (first * _SECTOR + len(core) + (1 << 20)) & -(1 << 20))


def placed_boot(boot: bytes, first: int) -> bytes:
    """Return GRUB's first sector for a rest that begins in sector ``first``.

    Raises:
        ToolFailed: it is not one sector, which is what fits in front of a file system.
    """
    if len(boot) != _BOOT_AREA:
        raise ToolFailed(f"{GRUB}/boot.img has {len(boot)} bytes, not {_BOOT_AREA}")
    patched = bytearray(boot)
    struct.pack_into("<Q", patched, _KERNEL_SECTOR, first)
    return bytes(patched)


def placed_core(core: bytes, first: int) -> bytes:
    """Return the rest of GRUB, its own list of sectors filled in, as ``grub-bios-setup`` does."""
    sectors = -(-len(core) // _SECTOR)
    patched = bytearray(core.ljust(sectors * _SECTOR, b"\0"))
    where = _SECTOR - _BLOCKLIST.size
    _BLOCKLIST.pack_into(patched, where, first + 1, sectors - 1, _LOAD_SEGMENT)
    return bytes(patched)


def _pack(work: Path, size: int) -> Path:
    """Write the archive: a disk, what it is, and what Vagrant has to know."""
    facts = {"provider": "libvirt", "format": "qcow2", "virtual_size": -(-size // (1 << 30))}
    (work / "metadata.json").write_text(json.dumps(facts) + "\n")
    (work / "Vagrantfile").write_text(_VAGRANTFILE)
    box = work / "box"
    with tarfile.open(box, "w") as archive:
        for member in ("metadata.json", "Vagrantfile", "box.img"):
            archive.add(work / member, member)
    return box


def _run(*argv: str) -> str:
    return proc.run(list(argv), timeout=_TIMEOUT).stdout
