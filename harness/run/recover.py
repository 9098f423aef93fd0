"""What a killed runner or a reset machine left behind, put right before anything else."""

from __future__ import annotations

import re
from pathlib import Path

from harness.run.bench import Paths
from harness.run.host import Host
from harness.run.schedulers import restore
from harness.store.rundir import remove_partials
from harness.tools import dmsetup, mount


def recover(host: Host, paths: Paths) -> list[str]:
    """Unmount, unmap, restore schedulers, remove half-written runs; return what was done.

    Only what carries our names is touched: mounts below the runtime folder, device-mapper names
    with our prefix. The devices' contents are left to the guard and the journal.
    """
    done = []
    for target in reversed(mounts_below(host, paths.runtime)):
        mount.umount(target)
        done.append(f"unmounted {target}")
    for name in mapped(host):
        dmsetup.remove(name)
        done.append(f"removed device-mapper {name}")
    if paths.schedulers.exists():
        restore(host, paths)
        done.append("restored schedulers")
    for runs in sorted((paths.state / "campaigns").glob("*/runs")):
        done += [f"removed half-written {name}" for name in remove_partials(runs)]
    if paths.runtime.is_dir():
        for folder in sorted(paths.runtime.iterdir()):
            _remove_empty(folder)
    return done


def mounts_below(host: Host, folder: Path) -> list[Path]:
    """Return mount points below ``folder``, in the order in which they were mounted."""
    found = []
    for line in host.proc_text("self/mountinfo").splitlines():
        fields = line.split()
        if len(fields) > 4:  # noqa: PLR2004 - proc(5): the fifth field is the mount point
            target = Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4]))
            if folder in target.parents:
                found.append(target)
    return found


def mapped(host: Host) -> list[str]:
    """Return our device-mapper names, from sysfs."""
    names = [host.sysfs.text(name, "dm/name") for name in host.sysfs.names()]
    return [name for name in names if name.startswith(dmsetup.PREFIX)]


def _remove_empty(folder: Path) -> None:
    """Remove a scratch directory; rmdir refuses when anything is left in it, and so do we."""
    for path in [*sorted(folder.rglob("*"), reverse=True), folder]:
        if path.is_dir() and not path.is_symlink():
            try:
                path.rmdir()
            except OSError:
                return
