"""Build a guest image: distribution packages to root disk, kernel and initrd.

Two steps, neither of which needs root: mmdebstrap writes a tar in a user namespace, then mke2fs
makes a disk of it in such a namespace, so that file owners survive.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shlex
import shutil
from dataclasses import asdict
from pathlib import Path

from harness.errors import ToolFailed
from harness.quantities import parse_qemu_size
from harness.rig import apt, prerequisites
from harness.rig.process import locked, stream, workspace
from harness.rig.recipe import GUEST, NATIVE, Image, Recipe, cache, image_of
from harness.rig.talk import Talk
from harness.store.files import sync, sync_tree

# Documentation and translations would double the image, and nothing reads them.
_EXCLUDE = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
_OUTPUTS = ("vmlinuz", "initrd", "packages.txt", "host_key.pub")
_BUILD_TIMEOUT = 3600.0
_KEEP = 4  # images of about 1 GiB: two releases, before and after a change

# The namespace may not see our folders: the tar comes on stdin, and the disk is stdout (opened
# again through /proc, because mke2fs seeks). All tables are initialised here: the running guest
# would write them later, as noise. The disk stays sparse. Device nodes are left out: a user
# namespace cannot create them, and the initrd mounts devtmpfs. A signal ends dash without its EXIT
# trap, unless it has a trap of its own.
_PACK = """set -eu
tree=$(mktemp -d -p /var/tmp zonelab-root.XXXXXX)
trap 'rm -rf "$tree"' EXIT
trap 'exit 143' INT TERM HUP
tar --extract --exclude='./dev/*' --numeric-owner --xattrs --xattrs-include='*' --directory "$tree"
chmod 755 "$tree"
mke2fs -q -F -t ext4 -L zonelab -E lazy_itable_init=0,lazy_journal_init=0 -d "$tree" /proc/self/fd/1
"""


def mmdebstrap_argv(
    wanted: Recipe, out: Path, *, mirror: str | None, options: tuple[str, ...]
) -> list[str]:
    """Return the command that writes ``out/root.tar`` and the files for the host beside it."""
    chroot_env = shlex.join(
        [
            f"BUILD_PACKAGES={' '.join(wanted.build_packages)}",
            f"SOURCE_HASH={wanted.native_source}",
        ]
    )
    # unshare also for root: mounts disappear with the namespace. In root mode a killed build leaves
    # the host's /dev/shm bound, writable, inside a left-over tree.
    argv = ["mmdebstrap", "--mode=unshare", "--variant=apt"]
    argv += ["--format=tar", "--components=main"]
    argv += [f"--aptopt={option}" for option in (*options, 'APT::Install-Recommends "false"')]
    argv += ['--aptopt=Acquire::Languages "none"']
    argv += [f"--dpkgopt=path-exclude={pattern}" for pattern in _EXCLUDE]
    argv += ["--include=" + ",".join(wanted.packages)]
    if wanted.pocket != wanted.suite:
        # the mirror serves the pocket too: repeat the suite's line with the pocket's name
        edit = rf"s/^(deb .*) {wanted.suite} main$/\1 {wanted.suite} main\n\1 {wanted.pocket} main/"
        argv += [f'--setup-hook=sed -Ei "{edit}" "$1/etc/apt/sources.list"']
    argv += _newer(wanted)
    argv += [f"--customize-hook=sync-in {shlex.quote(str(GUEST / 'files'))} /"]
    if wanted.native:
        argv += ['--customize-hook=mkdir -p "$1/usr/src/zonelab"']
        argv += [f"--customize-hook=copy-in {shlex.quote(str(NATIVE))} /usr/src/zonelab"]
    argv += [f"--customize-hook=upload {shlex.quote(str(GUEST / 'setup.sh'))} /root/setup.sh"]
    argv += [f'--customize-hook=chroot "$1" env {chroot_env} sh /root/setup.sh']
    argv += ['--customize-hook=rm "$1/root/setup.sh"']
    for name in _OUTPUTS:
        argv += [f"--customize-hook=download /boot/zonelab/{name} {shlex.quote(str(out / name))}"]
    # proxy and archive settings are for this host only
    argv += ['--customize-hook=rm -f "$1/etc/apt/apt.conf.d/99mmdebstrap"']
    return [*argv, wanted.suite, str(out / "root.tar"), *([mirror] if mirror else [])]


def _newer(wanted: Recipe) -> list[str]:
    """Return the hooks that install single packages from another suite.

    Each package is pinned. ``package/suite`` on apt's command line would also take dependencies
    from that suite, which ends in conflicts.
    """
    hooks, pins = [], ""
    for suite in dict.fromkeys(suite for suite, _ in wanted.newer):
        names = " ".join(name for other, name in wanted.newer if other == suite)
        edit = (
            rf"0,/^deb /s/^(deb .*) {wanted.suite} main$/\1 {wanted.suite} main\n\1 {suite} main/"
        )
        hooks.append(f'--setup-hook=sed -Ei "{edit}" "$1/etc/apt/sources.list"')
        for packages, priority in (("*", 100), (names, 990)):
            pins += f"Package: {packages}\\nPin: release n={suite}\\nPin-Priority: {priority}\\n\\n"
    if pins:
        hooks.append(
            '--setup-hook=mkdir -p "$1/etc/apt/preferences.d" && '
            f"printf '{pins}' > \"$1/etc/apt/preferences.d/zonelab\""
        )
    return hooks


def ensure(wanted: Recipe, talk: Talk) -> tuple[Image, bool]:
    """Return the image of a recipe and whether it had to be built.

    Raises:
        HostError: this machine lacks a program, a keyring, memory or disk space.
        ToolFailed: the build failed; the message ends with the last line of its log.
    """
    image = image_of(wanted)
    if image.complete:
        with contextlib.suppress(OSError):  # of another user, or read-only
            os.utime(image.folder)  # _prune removes the image used longest ago
        return image, False
    prerequisites.check_build(cache())
    cache().mkdir(parents=True, exist_ok=True)
    with locked(cache() / f"{image.folder.name}.lock", talk, "another build of the same image"):
        if image.complete:  # the other build finished it
            return image, False
        with workspace(cache(), f"{image.folder.name}.") as work:
            _build(wanted, work, talk)
            sync_tree(work)  # a folder with this name counts as complete, also after a power loss
            work.rename(image.folder)
            sync(cache())
        _prune()
    talk.say(f"image ready: {image.folder}")
    return image, True


def _prune() -> None:
    """Remove the images used longest ago, and what killed builds left.

    A running rig keeps its open files.
    """
    for path in cache().glob("*.partial"):
        lock = cache() / f"{path.name.partition('.')[0]}.lock"
        with lock.open("w") as file, contextlib.suppress(BlockingIOError):  # a build has it
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
    built = [path for path in cache().iterdir() if path.is_dir() and not path.suffix]
    for path in sorted(built, key=lambda path: path.stat().st_mtime)[:-_KEEP]:
        shutil.rmtree(path, ignore_errors=True)


def _build(wanted: Recipe, work: Path, talk: Talk) -> None:
    root = os.geteuid() == 0
    log = cache() / "build.log"
    talk.say(f"building a {wanted.suite} image ({len(wanted.packages)} packages named); log: {log}")
    argv = mmdebstrap_argv(wanted, work, mirror=apt.mirror(), options=apt.options())
    stream(argv, log, talk, timeout=_BUILD_TIMEOUT)
    talk.say("writing the root disk")
    disk = work / "root.img"
    with disk.open("wb") as file:
        os.ftruncate(file.fileno(), parse_qemu_size(wanted.root_size))
    disk.chmod(0o666)  # the namespace's root is another user
    pack = ["sh", "-c", _PACK]
    with (work / "root.tar").open("rb") as tar, disk.open("r+b") as file:
        stream(
            pack if root else ["mmdebstrap", "--unshare-helper", *pack],
            log,
            talk,
            timeout=_BUILD_TIMEOUT,
            stdin=tar.fileno(),
            stdout=file.fileno(),
        )
    (work / "root.tar").unlink()
    disk.chmod(0o644)  # QEMU opens it for writing, although it maps a private copy
    for name in _OUTPUTS:
        if not (work / name).is_file():
            raise ToolFailed(f"the image build left no {name}", hint=f"read {log}")
    facts = {**asdict(wanted), "digest": wanted.digest}
    (work / "recipe.json").write_text(json.dumps(facts, indent=2) + "\n")
