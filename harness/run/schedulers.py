"""The scheduler of a run: saved, set, read back, and put back afterwards, also after a kill."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.errors import HostError
from harness.run.bench import Bench, Paths
from harness.run.host import Host
from harness.store.files import dumps, read_json, write_atomic
from harness.store.spec import Device


@contextmanager
def schedulers(bench: Bench, devices: Sequence[Device], wanted: str) -> Iterator[None]:
    """Use ``wanted`` ('' leaves things alone) on every device while the block runs.

    Raises:
        HostError: the kernel does not offer the scheduler for one of them.
    """
    sysfs = bench.host.sysfs
    names = [sysfs.parent(Path(d.path).name) or Path(d.path).name for d in devices]
    before = {name: sysfs.schedulers(name)[0] for name in names}
    if not wanted or all(current == wanted for current in before.values()):
        yield
        return
    write_atomic(bench.paths.schedulers, dumps(before))
    try:
        for name in names:
            sysfs.set_scheduler(name, wanted)
        yield
    finally:
        with bench.stop.deferred():
            restore(bench.host, bench.paths)


def restore(host: Host, paths: Paths) -> None:
    """Put saved schedulers back, when there are any; a device that is gone needs nothing."""
    if not paths.schedulers.exists():
        return
    for name, scheduler in read_json(paths.schedulers).items():
        if host.sysfs.block(name).is_dir():
            try:
                host.sysfs.set_scheduler(name, scheduler)
            except HostError:
                continue  # after a reboot the module may not be loaded; the default is back anyway
    paths.schedulers.unlink()
