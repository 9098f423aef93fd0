"""What a guest image is made of, and the hash that names it in the cache."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from harness import levels
from harness.rig.model import PROJECT
from harness.rig.native import BUILD_PACKAGES, source_hash

NATIVE = PROJECT / "harness" / "native"
GUEST = Path(__file__).parent / "image_files"

# For the tests and the torture program that a rig carries and a lab host does not.
_TEST_PACKAGES = ("libgtest-dev",)

_FORMAT = 2  # raise when image.py changes what it makes of the same recipe
ROOT_SIZE = "6G"  # sparse; a full study leaves well under 1 GiB on it

# Beside what levels need (harness/levels).
_COMMON = (
    "systemd-sysv",
    "udev",
    "dbus",
    "openssh-server",
    "busybox-static",
    "python3",
    "python3-apt",
    "rocksdb-tools",
    "zbd-utils",
    "nvme-cli",
    "fio",
    "bpftrace",
    "iproute2",
    "kmod",
    "numactl",
    "procps",
    "zstd",
)


@dataclass(frozen=True, slots=True)
class Suite:
    """What differs between distribution releases.

    ``pocket`` is the suite the kernel comes from; ``lacks`` are packages of levels that it has not.
    """

    pocket: str
    lacks: frozenset[str] = frozenset()


SUITES = {
    "trixie": Suite("trixie-backports"),  # kernel >= 6.15: zoned XFS
    "bookworm": Suite("bookworm", frozenset({"dm-zoned-tools"})),
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides what is in an image. Equal recipes are the same image.

    ``newer`` are packages taken from another suite: (suite, package) pairs, sorted.
    """

    suite: str
    pocket: str
    packages: tuple[str, ...]
    newer: tuple[tuple[str, str], ...]
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


def recipe(
    suite: str,
    native: Path = NATIVE,
    guest: Path = GUEST,
    *,
    newer: Mapping[str, tuple[str, ...]] | None = None,
) -> Recipe:
    """Return the recipe of a suite's image as the checkout stands now.

    ``newer`` maps another suite to the packages that are taken from it.
    """
    chosen = SUITES[suite]
    pairs = sorted((other, name) for other, names in (newer or {}).items() for name in names)
    own = [name for name in levels.packages() if name not in chosen.lacks]
    common = [name for name in _COMMON if name not in own]
    has_native = (native / "CMakeLists.txt").is_file()
    return Recipe(
        suite=suite,
        pocket=chosen.pocket,
        packages=(f"linux-image-amd64/{chosen.pocket}", *common, *own),
        newer=tuple(pairs),
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
