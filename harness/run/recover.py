"""Cleans up after a killed runner or a machine reset."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from harness.errors import GuardRefused
from harness.levels.level import AUX
from harness.machine.claim import clear
from harness.machine.guard import Guard
from harness.machine.hold import Hold
from harness.machine.host import Host
from harness.machine.journal import Journal, JournalEvent
from harness.machine.paths import Paths
from harness.machine.schedulers import restore
from harness.store.rundir import remove_partials
from harness.store.spec import Device
from harness.tools import dmsetup, kernel, mount

# Files and folders of runs begin with a run's name. The user can name a runtime folder that others
# use too.
_RUN = re.compile(r".--r\d+(?:\.|$)")


def recover(host: Host, paths: Paths) -> list[str]:
    """Unmount, unmap, restore schedulers, remove half-written runs; return a line for each.

    Only mounts and files of runs in the runtime folder, and devices mapped by zonelab are touched.
    :func:`release` deals with the contents of devices.
    """
    done = []
    for target in reversed(mounts_below(host, paths.runtime)):
        mount.umount(target)
        done.append(f"unmounted {target}")
    for name in mapped(host, Journal(paths.journal)):
        dmsetup.remove(name)
        done.append(f"removed device-mapper {name}")
    if paths.schedulers.exists():
        restore(host, paths)
        done.append("restored schedulers")
    for runs in sorted((paths.state / "campaigns").glob("*/runs")):
        done += [f"removed half-written {name}" for name in remove_partials(runs)]
    if paths.runtime.is_dir():
        mine = [path for path in sorted(paths.runtime.iterdir()) if _RUN.search(path.name)]
        for path in mine:
            if path.suffix == ".go" and path.is_file():
                path.unlink()  # it releases a tenant's program
        for folder in filter(Path.is_dir, mine):
            shutil.rmtree(folder / AUX, ignore_errors=True)  # a level's own files, not a mount
            _remove_empty(folder)
    return done


def release(host: Host, journal: Journal, guard: Guard, planned: Iterable[Device]) -> list[str]:
    """Wipe and release the devices of the newest run if it was killed; return a line about it.

    Some levels write their label to only one of two devices. If a later level used only this
    device, it would overwrite the proof of ownership of the other one.

    Nothing happens unless the plan names all devices of that run and they are found as planned.
    The label must prove that they are as that run left them. The guard decides about other devices.
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
    if not guard.proves(last.label, last.boot_id, devices):
        return []
    hold = Hold(host)
    with hold.taken(devices):
        if not guard.proves(last.label, last.boot_id, devices, held=True):
            return []
        clear(host, guard, devices, hold)
        for device in devices:  # still held: nobody formats one before its fingerprint
            journal.append(
                replace(
                    entries[device.identity.key],
                    event=JournalEvent.RELEASE,
                    fingerprint=guard.fingerprint(device),
                    time=host.now(),
                    boot_id=host.boot_id(),
                )
            )
    paths = " and ".join(device.path for device in devices)
    return [f"wiped {paths}: {last.run} of campaign {last.campaign} was killed there"]


def mounts_below(host: Host, folder: Path) -> list[Path]:
    """Return mount points in folders of runs below ``folder``, in order of mounting."""
    mounts = kernel.parse_mounts(host.proc_text("self/mountinfo"))
    targets = [mount.target for mount in mounts if folder in mount.target.parents]
    return [one for one in targets if _RUN.search(one.relative_to(folder).parts[0])]


def mapped(host: Host, journal: Journal) -> list[str]:
    """Return zonelab's device-mapper names from sysfs, upper devices before lower ones."""
    labels = {entry.label for entry in journal.unfinished()}
    named = {name: host.sysfs.text(name, "dm/name") for name in host.sysfs.names()}
    own = [
        name
        for name, mapped_as in named.items()
        if mapped_as and dmsetup.is_ours(mapped_as, host.sysfs.text(name, "dm/uuid"), labels)
    ]
    return [named[name] for name in sorted(own, key=lambda name: len(host.sysfs.family(name)))]


def _remove_empty(folder: Path) -> None:
    """Remove a scratch directory, unless files are left in it."""
    for path in [*sorted(folder.rglob("*"), reverse=True), folder]:
        if path.is_dir() and not path.is_symlink():
            try:
                path.rmdir()
            except OSError:
                return
