"""``patches/dm-zap/compat.h`` against the kernel headers of Debian 12."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMPAT = ROOT / "patches/dm-zap/compat.h"
CALLS = ROOT / "tests/fixtures/dm-zap/calls.c"
GONE = {"bio_clone_fast", "bdevname", "blk_queue_zone_sectors", "blkdev_nr_zones", "vmalloc"}
# As the kernel's own Makefiles have it for a module, as far as types and declarations go.
FLAGS = (
    "-fsyntax-only",
    "-nostdinc",
    "-std=gnu11",
    "-fshort-wchar",
    "-fno-pie",
    "-mcmodel=kernel",
    "-mno-sse",
    "-D__KERNEL__",
    "-DMODULE",
    '-DKBUILD_MODNAME="zap"',
    "-Wno-pointer-sign",
    "-Werror=implicit-function-declaration",
    "-Werror=incompatible-pointer-types",
    "-Werror=int-conversion",
)
FOLDERS = (
    "arch/x86/include",
    "arch/x86/include/generated",
    "include",
    "arch/x86/include/uapi",
    "arch/x86/include/generated/uapi",
    "include/uapi",
    "include/generated/uapi",
)


def run(*argv: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(scope="module")
def headers(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The two trees of headers of Linux 6.1 from this host's apt."""
    if platform.machine() != "x86_64" or not all(map(shutil.which, ("gcc", "apt-get", "dpkg"))):
        pytest.skip("needs gcc and Debian's packages for x86-64")
    folder = tmp_path_factory.mktemp("headers")
    listed = run("apt-cache", "depends", "linux-headers-amd64", cwd=folder).stdout
    found = re.search(r"Depends: (linux-headers-6\.1\.\S+)-amd64", listed)
    if found is None:
        pytest.skip("this distribution's kernel is not Linux 6.1, which the header is for")
    packages = [f"{found[1]}-common", f"{found[1]}-amd64"]
    fetched = run("apt-get", "-q", "download", *packages, cwd=folder)
    if fetched.returncode:
        pytest.skip(f"the archive cannot be reached: {fetched.stderr.strip()}")
    for file in folder.glob("*.deb"):
        assert run("dpkg", "-x", str(file), "tree", cwd=folder).returncode == 0
    return [folder / "tree/usr/src" / name for name in packages]


def compiled(headers: list[Path], *more: str) -> subprocess.CompletedProcess[str]:
    common, _ = headers
    own = run("gcc", "-print-file-name=include", cwd=ROOT).stdout.strip()
    search = [f"-I{tree / name}" for name in FOLDERS for tree in headers]
    first = [
        f"-include{common / 'include/linux' / name}" for name in ("kconfig.h", "compiler_types.h")
    ]
    return run("gcc", *FLAGS, "-isystem", own, *search, *first, *more, str(CALLS), cwd=ROOT)


@pytest.mark.slow
def test_without_the_header_all_of_it_is_gone(headers: list[Path]) -> None:
    errors = compiled(headers).stderr
    assert set(re.findall(r"implicit declaration of function \W(\w+)\W", errors)) == GONE, errors


def test_with_it_everything_is_there(headers: list[Path]) -> None:
    done = compiled(headers, f"-include{COMPAT}", "-Wall", "-Werror")
    assert done.returncode == 0, done.stderr


def test_each_name_has_its_reason() -> None:
    text = (ROOT / "patches/README.md").read_text().partition("## dm-zap/compat.h")[2]
    listed = {match[1] for match in re.finditer(r"^\| `(\w+)\(\)`", text, re.MULTILINE)}
    assert listed == GONE
