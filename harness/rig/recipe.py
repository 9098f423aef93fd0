"""What a guest image is made of, and the hash that names it in the cache."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.rig.model import PROJECT
from harness.rig.native import BUILD_PACKAGES, source_hash

NATIVE = PROJECT / "harness" / "native"
GUEST = Path(__file__).parent / "image_files"

# For the tests and the torture program that a rig carries and a lab host does not.
_TEST_PACKAGES = ("libgtest-dev",)

_FORMAT = 1  # raise when image.py changes what it makes of the same recipe
ROOT_SIZE = "6G"  # sparse; a full study leaves well under 1 GiB on it

_COMMON = (
    "systemd-sysv",
    "udev",
    "dbus",
    "openssh-server",
    "busybox-static",
    "python3",
    "python3-apt",
    "rocksdb-tools",
    "f2fs-tools",
    "btrfs-progs",
    "xfsprogs",
    "e2fsprogs",
    "zbd-utils",
    "nvme-cli",
    "fio",
    "dmsetup",
    "bpftrace",
    "iproute2",
    "kmod",
    "numactl",
    "procps",
    "zstd",
)


@dataclass(frozen=True, slots=True)
class Suite:
    """What differs between distribution releases. ``pocket`` is the suite the kernel comes from."""

    pocket: str
    packages: tuple[str, ...]


SUITES = {
    "trixie": Suite("trixie-backports", ("dm-zoned-tools",)),  # kernel >= 6.15: zoned XFS
    "bookworm": Suite("bookworm", ()),
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides what is in an image. Equal recipes are the same image."""

    suite: str
    pocket: str
    packages: tuple[str, ...]
    build_packages: tuple[str, ...]
    guest_files: str
    native_source: str
    root_size: str = ROOT_SIZE
    format: int = _FORMAT

    @property
    def digest(self) -> str:
        """SHA-256 over all fields, the image's name in the cache."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    @property
    def native(self) -> bool:
        """Whether there are native programs to build."""
        return bool(self.build_packages)


def recipe(suite: str, native: Path = NATIVE, guest: Path = GUEST) -> Recipe:
    """Return the recipe of a suite's image as the checkout stands now."""
    chosen = SUITES[suite]
    has_native = (native / "CMakeLists.txt").is_file()
    return Recipe(
        suite=suite,
        pocket=chosen.pocket,
        packages=(f"linux-image-amd64/{chosen.pocket}", *_COMMON, *chosen.packages),
        build_packages=(*BUILD_PACKAGES, *_TEST_PACKAGES) if has_native else (),
        guest_files=source_hash(guest),
        native_source=source_hash(native) if has_native else "",
    )


def cache() -> Path:
    """Return the folder of built images, ``$XDG_CACHE_HOME/zonelab/images``."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "zonelab" / "images"


@dataclass(frozen=True, slots=True)
class Image:
    """A finished image: a directory of the cache that was renamed into place when complete."""

    folder: Path

    @property
    def root(self) -> Path:
        """The raw ext4 root disk."""
        return self.folder / "root.img"

    @property
    def kernel(self) -> Path:
        """What QEMU boots with -kernel."""
        return self.folder / "vmlinuz"

    @property
    def initrd(self) -> Path:
        """What QEMU boots with -initrd."""
        return self.folder / "initrd"

    @property
    def host_key(self) -> Path:
        """The guest's public ssh host key."""
        return self.folder / "host_key.pub"

    @property
    def complete(self) -> bool:
        """Whether it has been built; there are no half images under this name."""
        return self.folder.is_dir()


def image_of(wanted: Recipe) -> Image:
    """Return where the image of a recipe is, built or not."""
    return Image(cache() / wanted.digest[:32])
