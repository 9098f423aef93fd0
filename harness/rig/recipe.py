"""Recipe of a guest image, and the hash that names the image in the cache."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from harness import levels, workloads
from harness.rig.model import PROJECT, Rig
from harness.rig.native_build import packages, source_hash
from harness.rig.releases import releases
from harness.store import checksums

NATIVE = PROJECT / "harness" / "native"
GUEST = Path(__file__).parent / "image_files"

_FORMAT = 2  # raise when image.py makes another image of the same recipe
ROOT_SIZE = "6G"  # sparse; a full study leaves well under 1 GiB on it

# In addition to the packages of levels. Their order is part of the image's identity.
_COMMON = (
    "systemd-sysv",
    "udev",
    "dbus",
    "openssh-server",
    "busybox-static",
    "python3",
    "python3-apt",
    *workloads.packages(),
    "zbd-utils",
    "nvme-cli",
    "bpftrace",
    "iproute2",
    "kmod",
    "numactl",
    "procps",
    "zstd",
)


@dataclass(frozen=True, slots=True)
class Recipe:
    """All inputs of an image. Equal recipes give the same image.

    ``newer`` holds sorted (suite, package) pairs: packages that come from another suite.
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
        """SHA-256 over all fields: the image's name in the cache."""
        return checksums.of_json(asdict(self))

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
    more: tuple[str, ...] = (),
) -> Recipe:
    """Return the recipe of a suite's image for the current checkout.

    ``newer`` maps another suite to the packages that come from it. ``more`` are further packages.
    """
    chosen = releases()[suite]
    pairs = sorted((other, name) for other, names in (newer or {}).items() for name in names)
    own = [name for name in levels.packages() if name not in chosen.lacks]
    common = [name for name in _COMMON if name not in own]
    # setup.sh purges the packages of the build.
    build = [name for name in (*packages("native"), *packages("native-test")) if name not in more]
    has_native = (native / "CMakeLists.txt").is_file()
    return Recipe(
        suite=suite,
        pocket=chosen.pocket,
        packages=(f"linux-image-amd64/{chosen.pocket}", *common, *own, *more),
        newer=tuple(pairs),
        build_packages=tuple(build) if has_native else (),
        guest_files=source_hash(guest),
        native_source=source_hash(native) if has_native else "",
    )


def recipe_of(rig: Rig) -> Recipe:
    """Return the recipe of a rig's image."""
    return recipe(rig.suite, newer=rig.newer, more=rig.packages)


def cache() -> Path:
    """Return the folder of built images, ``$XDG_CACHE_HOME/zonelab/images``."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "zonelab" / "images"


@dataclass(frozen=True, slots=True)
class Image:
    """A folder of the cache, renamed into place when the image is complete."""

    folder: Path

    @property
    def root(self) -> Path:
        """The raw ext4 root disk."""
        return self.folder / "root.img"

    @property
    def kernel(self) -> Path:
        """Maps to QEMU's -kernel."""
        return self.folder / "vmlinuz"

    @property
    def initrd(self) -> Path:
        """Maps to QEMU's -initrd."""
        return self.folder / "initrd"

    @property
    def host_key(self) -> Path:
        """The guest's public ssh host key."""
        return self.folder / "host_key.pub"

    @property
    def complete(self) -> bool:
        """Whether the image has been built."""
        return self.folder.is_dir()


def image_of(wanted: Recipe) -> Image:
    """Return where the image of a recipe is, built or not."""
    return Image(cache() / wanted.digest[:32])
