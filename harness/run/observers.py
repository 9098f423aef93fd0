"""What is sampled once a second while phases run: devices, zones, the machine, the level."""

from __future__ import annotations

from collections.abc import Sequence

from harness.observe import sampler, system, zone_states
from harness.observe.gauges import Gauge, Reader
from harness.observe.sampler import Series
from harness.run.bench import Bench
from harness.run.phases import Stage


def observers(bench: Bench, stage: Stage) -> list[Series]:
    """Return the series of a run whose level is up."""
    found = [
        sampler.disks(stage.names, bench.host.sysfs.block),
        _series("system", system.gauges(bench.host.proc, bench.cgroups.load)),
        _series("level", stage.level.gauges(stage.up)),
    ]
    if stage.zoned_name is not None:
        states = bench.host.zone_states(stage.device)
        found.append(Series("zones", zone_states.COLUMNS, states.read, states.close))
    return found


def _series(name: str, gauges: Sequence[Gauge]) -> Series:
    reader = Reader(gauges)
    return Series(name, reader.columns, reader.read, reader.close)
