"""A rig's image as a Vagrant box for libvirt: the same disk, made to boot by itself.

``zonelab rig`` passes kernel, key and network to QEMU; a box has to contain them. Three things are
added, without root or a mount. debugfs writes the key for Vagrant's first login. GRUB is written
after the file system, and GRUB's first sector to the first sector of the disk: ext4 leaves it free.
"""

from __future__ import annotations

import json
import os
import struct
import tarfile
import tempfile
from pathlib import Path

from harness.errors import HostError, ToolFailed
from harness.quantities import SECTOR
from harness.rig import prerequisites, qemu
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

# GRUB 2, grub-core/boot/i386/pc/{boot,diskboot}.S, include/grub/i386/pc/boot.h. In boot.img: the
# offset of the number of core.img's first sector. In the last 12 bytes of that sector: first sector
# and number of sectors of the rest, and the segment to load it to.
_KERNEL_SECTOR = 0x5C
_BLOCKLIST = struct.Struct("<QHH")
_LOAD_SEGMENT = 0x820
# ext4(5) leaves the first 1024 bytes free; the BIOS loads one sector.
_BOOT_AREA = SECTOR

# The public key that Vagrant publishes for a box's first login. Vagrant then replaces it by a key
# made for the machine.
VAGRANT_KEY = (
    "ssh-rsa AAAAB3NzaC1yc2EAAAABIwAAAQEA6NF8iallvQVp22WDkTkyrtvp9eWW6A8YVr+kz4TjGYe7gHzIw+niNltGEF"
    "HzD8+v1I2YJ6oXevct1YeS0o9HZyN1Q9qgCgzUFtdOKLv6IedplqoPkcmF0aYet2PkEDo3MlTBckFXPITAMzF8dJSIFo9D"
    "8HfdOV0IAdx4O7PtixWKn5y2hMNG0zQPyUecp4pzC6kivAIhyfHilFR61RGL+GPXQ2MWZWFYbAGjyiYJnAmCP3NOTd0jMZ"
    "EnDkbUvxhMmBYSdETk1rRgm+R4LOzFUGaHqHDLKLX+FIPKcF96hrucXzcWyLbIbEgE98OHlnVYCzRdK8jlqm8tehUc9c9W"
    "hQ== vagrant insecure public key\n"
)
# Read before zonelab.conf: sshd uses the first value that it finds.
_SSHD = "AuthorizedKeysFile .ssh/authorized_keys\n"
_VAGRANTFILE = """\
# Settings of this box; Vagrant reads them before the project's Vagrantfile.
Vagrant.configure("2") do |config|
  config.ssh.username = "root"
  config.ssh.sudo_command = "%c" # root already
end
"""


def name(rig: Rig) -> str:
    """Return the box's name, as in the Vagrantfile."""
    return f"zonelab/{rig.name}"


def command_line(rig: Rig) -> str:
    """Return the kernel's command line: as for a rig, with DHCP and without the witness."""
    return " ".join((qemu.DISK, *qemu.APPEND, "zonelab.net=dhcp", *rig.append))


def write(rig: Rig, image: Image, target: Path, talk: Talk) -> None:
    """Write a box, complete or not at all.

    Raises:
        HostError: this machine lacks a program or space.
        ToolFailed: a program failed.
    """
    prerequisites.check_programs(_NEEDED)
    if not (GRUB / "boot.img").is_file():
        hint = "apt-get install --no-install-recommends grub-pc-bin"
        raise HostError(f"no {GRUB}/boot.img", hint=hint, code="program-missing")
    target.parent.mkdir(parents=True, exist_ok=True)
    prerequisites.check_space(target.parent, _SPACE, "making a box")
    with tempfile.TemporaryDirectory(
        prefix=f".{target.name}.", dir=target.parent, ignore_cleanup_errors=True
    ) as folder:
        work = Path(folder)
        disk = work / "disk.raw"
        talk.say(f"copying {image.root}")
        _run("cp", "--sparse=always", "--no-preserve=mode", str(image.root), str(disk))
        _add_login(disk, work)
        _make_bootable(disk, _core_image(rig, work))
        talk.say("converting the disk")
        _run("qemu-img", "convert", "-O", "qcow2", str(disk), str(work / "box.img"))
        _pack(work, disk.stat().st_size).rename(target)


def remove(box: str) -> None:
    """Remove a box from Vagrant, and its disk, which Vagrant leaves in libvirt's default pool."""
    home = {name: os.environ[name] for name in ("VAGRANT_HOME",) if name in os.environ}
    listed = proc.run(["vagrant", "box", "list"], timeout=_TIMEOUT, env=home).stdout
    if any(line.split()[:1] == [box] for line in listed.splitlines()):
        argv = ["vagrant", "box", "remove", "--force", box]
        proc.run(argv, timeout=_TIMEOUT, env=home)
    virsh = ["virsh", "--connect", "qemu:///system", "--quiet"]
    pool = proc.run([*virsh, "vol-list", "default"], timeout=60, check=False)
    disks = f"{box.replace('/', '-VAGRANTSLASH-')}_vagrant_box_image_"
    for line in pool.stdout.splitlines():
        volume = (line.split() or [""])[0]
        if volume.startswith(disks):
            _run(*virsh, "vol-delete", "--pool", "default", volume)


def _add_login(disk: Path, work: Path) -> None:
    """Accept Vagrant's key and let Vagrant replace it; a rig takes its key from QEMU."""
    files = {
        "/root/.ssh/authorized_keys": (VAGRANT_KEY, 0o600),
        "/etc/ssh/sshd_config.d/00-vagrant.conf": (_SSHD, 0o644),
    }
    script = ["mkdir /root/.ssh", "sif /root/.ssh mode 040700"]
    for number, (path, (text, mode)) in enumerate(files.items()):
        source = work / f"file{number}"
        source.write_text(text)
        # quoted: debugfs splits commands at blanks
        script += [f'write "{source}" {path}', f"sif {path} mode 0100{mode:o}"]
        script += [f"sif {path} uid 0", f"sif {path} gid 0"]
    (work / "script").write_text("\n".join(script) + "\n")
    _run("debugfs", "-w", "-f", str(work / "script"), str(disk))
    for path, (text, _) in files.items():  # debugfs exits 0 even if a command failed
        found = _run("debugfs", "-R", f"cat {path}", str(disk))
        if found != text:
            raise ToolFailed(f"debugfs did not write {path} of the box")


def _core_image(rig: Rig, work: Path) -> bytes:
    """Return GRUB's core.img with a configuration that starts the image's kernel."""
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
    """Write core.img after the file system, and boot.img to the first sector."""
    first = disk.stat().st_size // SECTOR
    boot = (GRUB / "boot.img").read_bytes()
    with disk.open("r+b") as file:
        file.write(placed_boot(boot, first))
        file.seek(first * SECTOR)
        file.write(placed_core(core, first))
        os.truncate(file.fileno(), (first * SECTOR + len(core) + (1 << 20)) & -(1 << 20))


def placed_boot(boot: bytes, first: int) -> bytes:
    """Return boot.img for a core.img that begins in sector ``first``.

    Raises:
        ToolFailed: boot.img is not one sector long.
    """
    if len(boot) != _BOOT_AREA:
        raise ToolFailed(f"{GRUB}/boot.img has {len(boot)} bytes, not {_BOOT_AREA}")
    patched = bytearray(boot)
    struct.pack_into("<Q", patched, _KERNEL_SECTOR, first)
    return bytes(patched)


def placed_core(core: bytes, first: int) -> bytes:
    """Return core.img with its list of sectors filled in, as ``grub-bios-setup`` does."""
    sectors = -(-len(core) // SECTOR)
    patched = bytearray(core.ljust(sectors * SECTOR, b"\0"))
    where = SECTOR - _BLOCKLIST.size
    _BLOCKLIST.pack_into(patched, where, first + 1, sectors - 1, _LOAD_SEGMENT)
    return bytes(patched)


def _pack(work: Path, size: int) -> Path:
    """Write the archive: the disk, its metadata and the box's Vagrantfile."""
    metadata = {"provider": "libvirt", "format": "qcow2", "virtual_size": -(-size // (1 << 30))}
    (work / "metadata.json").write_text(json.dumps(metadata) + "\n")
    (work / "Vagrantfile").write_text(_VAGRANTFILE)
    box = work / "box"
    with tarfile.open(box, "w") as archive:
        for member in ("metadata.json", "Vagrantfile", "box.img"):
            archive.add(work / member, member)
    return box


def _run(*argv: str) -> str:
    return proc.run(list(argv), timeout=_TIMEOUT).stdout
