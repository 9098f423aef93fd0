"""The I/O scheduler of a run: saved, set, verified, and restored afterwards, also after a kill."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from harness import cleanup
from harness.errors import HostError
from harness.machine.host import Host
from harness.machine.paths import Paths
from harness.machine.signals import Stop
from harness.store.files import dumps, read_json, write_atomic
from harness.store.spec import Device


@contextmanager
def schedulers(
    host: Host, paths: Paths, stop: Stop, devices: Sequence[Device], wanted: str
) -> Iterator[None]:
    """Use the scheduler ``wanted`` on every device inside the block; '' changes nothing.

    Raises:
        HostError: the kernel does not offer the scheduler for one of them.
    """
    sysfs = host.sysfs
    names = [sysfs.disk(d.name) for d in devices]
    before = {name: sysfs.schedulers(name)[0] for name in names}
    if not wanted or all(current == wanted for current in before.values()):
        yield
        return
    write_atomic(paths.schedulers, dumps({"boot_id": host.boot_id(), "schedulers": before}))

    def put_back() -> None:
        with stop.deferred():
            restore(host, paths)

    with cleanup.cleaned(put_back):
        for name in names:
            sysfs.set_scheduler(name, wanted)
        yield


def restore(host: Host, paths: Paths) -> None:
    """Restore saved schedulers, if any; devices that are gone are left out.

    A restart has restored them, and may have given a name to another device.
    """
    if not paths.schedulers.exists():
        return
    saved = read_json(paths.schedulers)
    of_this_boot = saved["schedulers"] if saved.get("boot_id") == host.boot_id() else {}
    for name, scheduler in of_this_boot.items():
        # Another device has the name, or device or module is gone. Others are still restored.
        with suppress(HostError, OSError):
            host.sysfs.set_scheduler(name, scheduler)
    paths.schedulers.unlink()
