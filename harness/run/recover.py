"""What a killed runner or a reset machine left behind, put right before anything else."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from harness.errors import GuardRefused
from harness.levels.base import AUX
from harness.run.bench import Paths
from harness.run.claim import clear
from harness.run.guard import Guard
from harness.run.host import Host
from harness.run.journal import Event, Journal
from harness.run.schedulers import restore
from harness.store.rundir import remove_partials
from harness.store.spec import Device
from harness.tools import dmsetup, mount


def recover(host: Host, paths: Paths) -> list[str]:
    """Unmount, unmap, restore schedulers, remove half-written runs; return what was done.

    Only what carries our names is touched: mounts below the runtime folder, device-mapper names
    with our prefix. The devices' contents are left to :func:`release`.
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
        for gate in paths.runtime.glob("*.go"):
            gate.unlink()  # what released tenants
        for folder in sorted(paths.runtime.iterdir()):
            shutil.rmtree(folder / AUX, ignore_errors=True)  # a level's own files, no mount
            _remove_empty(folder)
    return done


def release(host: Host, journal: Journal, guard: Guard, planned: Iterable[Device]) -> list[str]:
    """Wipe and release the devices of the newest run when it was killed; return what was done.

    Some levels keep their label on one of two devices only. A level that runs next and needs that
    one alone would overwrite the proof that the other one is ours too.

    Devices that this plan does not name, that are not found as planned, or of which the label does
    not prove that they are as that run left them, stay as they are; the guard decides about them.
    """
    entries = {entry.identity: entry for entry in journal.unfinished()}
    known = {device.identity.key: device for device in planned}
    if not entries or not entries.keys() <= known.keys():
        return []
    try:
        devices = [host.find(known[key]) for key in entries]
    except GuardRefused:
        return []
    devices.sort(key=lambda device: not device.zoned)
    last = next(iter(entries.values()))
    if not guard.proves(last.label, devices):
        return []
    clear(host, guard, devices)
    for device in devices:
        journal.append(
            replace(
                entries[device.identity.key],
                event=Event.RELEASE,
                fingerprint=guard.fingerprint(device),
                time=host.now(),
                boot_id=host.boot_id(),
            )
        )
    paths = " and ".join(device.path for device in devices)
    return [f"wiped {paths}: {last.run} of campaign {last.campaign} was killed there"]


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
    """Return our device-mapper names, from sysfs; what is stacked on another comes before it."""
    named = {name: host.sysfs.text(name, "dm/name") for name in host.sysfs.names()}
    ours = [name for name, mapped_as in named.items() if dmsetup.is_ours(mapped_as)]
    return [named[name] for name in sorted(ours, key=lambda one: len(host.sysfs.family(one)))]


def _remove_empty(folder: Path) -> None:
    """Remove a scratch directory; rmdir refuses when anything is left in it, and so do we."""
    for path in [*sorted(folder.rglob("*"), reverse=True), folder]:
        if path.is_dir() and not path.is_symlink():
            try:
                path.rmdir()
            except OSError:
                return
