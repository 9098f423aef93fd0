"""Checks before a rig is built or started: programs, space, memory; and whether KVM works."""

from __future__ import annotations

import os
import platform
import pwd
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.errors import HostError
from harness.rig import apt
from harness.rig.model import Rig
from harness.tools import proc

BUILD_SPACE = 6 << 30  # tar, tree and disk at once: 3 GiB measured, doubled
BUILD_MEMORY = 1 << 30  # dpkg and one compiler
QEMU_MEMORY = 512 << 20  # QEMU itself beside the guest's memory

_BUILD = {"mmdebstrap": "mmdebstrap", "mke2fs": "e2fsprogs", "tar": "tar", "apt-get": "apt"}
_RUN = {
    "qemu-system-x86_64": "qemu-system-x86",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "setpriv": "util-linux",
    "timeout": "coreutils",
}
_SUBUID = Path("/etc/subuid")


def accelerator(cpuinfo: str, kvm: Path = Path("/dev/kvm")) -> str:
    """Return ``kvm`` or ``tcg``.

    /dev/kvm alone is no proof: if the CPU has neither vmx nor svm, a stock kernel hangs.
    """
    flags = {
        flag
        for line in cpuinfo.splitlines()
        if line.startswith("flags")
        for flag in line.partition(":")[2].split()
    }
    usable = os.access(kvm, os.R_OK | os.W_OK)
    return "kvm" if flags & {"vmx", "svm"} and usable else "tcg"


def check_programs(
    needed: dict[str, str], which: Callable[[str], Path | None] = proc.which
) -> None:
    """Raise HostError that names each missing program and the command that installs them."""
    missing = sorted(program for program in needed if which(program) is None)
    if missing:
        packages = " ".join(sorted({needed[program] for program in missing}))
        raise HostError(
            f"not installed: {', '.join(missing)}",
            hint=f"apt-get install --no-install-recommends {packages}",
            code="program-missing",
        )


def check_space(folder: Path, needed: int, what: str) -> None:
    """Raise HostError when the file system of ``folder`` has less than ``needed`` bytes free."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if free < needed:
        raise HostError(
            f"{what} needs {needed / 2**30:.1f} GiB in {folder}, {free / 2**30:.1f} GiB are free",
            hint=f"free some space in {folder}",
            code="disk-space",
        )


def available_memory(meminfo: Path = Path("/proc/meminfo")) -> int:
    """Return the bytes of memory that programs can have without swapping (proc(5))."""
    fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
    return int(fields["MemAvailable"].split()[0]) * 1024


def check_memory(needed: int, what: str, meminfo: Path = Path("/proc/meminfo")) -> None:
    """Raise HostError when less than ``needed`` bytes of memory are available."""
    available = available_memory(meminfo)
    if available < needed:
        raise HostError(
            f"{what} needs {needed / 2**30:.1f} GiB of memory,"
            f" {available / 2**30:.1f} GiB are available",
            hint="end other programs, or lower `m` in configs/rigs",
            code="memory",
        )


def check_build(cache: Path) -> None:
    """Refuse an image build that cannot succeed, before the first download."""
    if platform.machine() != "x86_64":
        raise HostError(f"rigs need an x86-64 host, this is {platform.machine()}")
    check_programs(_BUILD)
    if os.geteuid() != 0:
        _check_unprivileged()
    if not apt.KEYRING.is_file():
        raise HostError(
            f"no keyring at {apt.KEYRING}",
            hint="apt-get install debian-archive-keyring",
            code="keyring",
        )
    check_space(cache, BUILD_SPACE, "building an image")
    check_space(Path("/var/tmp"), BUILD_SPACE // 2, "unpacking an image")  # noqa: S108
    check_memory(BUILD_MEMORY, "building an image")


def check_run(rig: Rig, folder: Path) -> None:
    """Refuse to start a rig for which this host is too small.

    The space is the capacity of its namespaces.
    """
    check_programs(_RUN)
    check_space(folder, sum(ns.capacity for ns in rig.namespaces), f"rig {rig.name}")
    check_machines([rig], rig.name)


def check_machines(machines: Sequence[Rig], name: str) -> None:
    """Raise HostError when this host has too little memory for machines that run at once.

    A machine that has just booted has not touched most of its memory, so all are checked before the
    first one starts.
    """
    check_memory(sum(one.memory + QEMU_MEMORY for one in machines), f"rig {name}")


def _check_unprivileged() -> None:
    check_programs({"newuidmap": "uidmap"})
    number = os.geteuid()
    try:
        user = pwd.getpwuid(number).pw_name
    except KeyError:  # no account, as in a container
        user = str(number)
    entries = _SUBUID.read_text().splitlines() if _SUBUID.is_file() else []
    if not any(line.split(":")[0] in (user, str(number)) for line in entries):
        raise HostError(
            f"user {user} has no subordinate ids in {_SUBUID}",
            hint=f"usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {user}",
            code="subuid",
        )
