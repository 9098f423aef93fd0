"""How full a device is behind a barrier, by definitions A and V of docs/methods.md."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from harness.drive import precondition
from harness.run.bench import Bench
from harness.run.phases import Stage
from harness.store.result import Utilisation
from harness.store.spec import Bytes, ColdSpec

_NO_COLD = ColdSpec(target_utilisation=0.0, tolerance=1.0, bytes=Bytes(0))


def utilisation(
    bench: Bench,
    stage: Stage,
    wanted: ColdSpec | None,
    *,
    cold: int,
    database: int,
    allocated: int | None,
    maximum: float | None,
    besides: Collection[str] = (),
) -> Utilisation:
    """Return what lives on the stage's device, held against what was wanted.

    Args:
        bench: knows how large the whole drive is.
        stage: whose device it is.
        wanted: null where no cold data was asked for.
        cold: bytes of cold data.
        database: bytes of the databases on the device.
        allocated: bytes behind the write pointers; null where no zone tells.
        maximum: the share that the fresh level offered; null where it did not tell.
        besides: identities of the drive's namespaces that other tenants use.
    """
    wanted = wanted or _NO_COLD
    live, capacity = cold + database, stage.device.capacity
    drive = bench.host.drive_capacity(Path(stage.device.path).name)
    beside = precondition.kept_bytes(bench.host, bench.paths.state, stage.device, besides)
    return Utilisation(
        target=wanted.target_utilisation,
        tolerance=wanted.tolerance,
        u_ns=live / capacity,
        u_drive=(live + beside) / drive if drive else None,
        live_bytes=live,
        allocated_bytes=allocated,
        cold_bytes=cold,
        database_bytes=database,
        capacity_bytes=capacity,
        max_utilisation=maximum,
    )
