"""The programs and libraries that a run uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from harness.errors import ZonelabError
from harness.run.tenant import RunningTenant
from harness.tools import ldd
from harness.workloads import PROGRAMS


def used(tenants: Iterable[RunningTenant], db_bench: Path) -> list[Path]:
    """Return the files of tenants whose levels are up. ``db_bench`` is the run's.

    They are the programs of phases, the RocksDB that each is linked with, and the level's programs.
    """
    return list(dict.fromkeys(file for tenant in tenants for file in _of_tenant(tenant, db_bench)))


def _of_tenant(tenant: RunningTenant, db_bench: Path) -> Iterator[Path]:
    program = tenant.running.up.program or db_bench
    for name in sorted({phase.program for phase in tenant.phases}):
        with suppress(ZonelabError):  # a missing program fails its phase with a message
            path = PROGRAMS[name].path(program)
            yield path
            if library := ldd.rocksdb(path):
                yield library
    with suppress(ZonelabError):
        yield from tenant.level.own_files()
