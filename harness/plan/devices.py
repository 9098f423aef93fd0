"""Device of a cell: the one with the cell's zone size, or each one that a bare level measures.

Devices of different zone size have equal capacity, so that only the geometry differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from harness import levels
from harness.errors import ConfigError
from harness.machine.guard import refuse
from harness.plan.derive import file_size
from harness.plan.fields import Flag
from harness.plan.level_entry import LevelEntry
from harness.plan.study_models import Study
from harness.plan.workload_models import Workload
from harness.quantities import format_size, parse_size
from harness.store.spec import Device, Inspection

ZONE_SIZE = "zone_size"
_SST = "target_file_size_base"


def zone_sizes(study: Study) -> list[int]:
    """Return the zone sizes that a study varies, in bytes; empty if it does not vary them."""
    return [parse_size(value) for value in study.factors.get(ZONE_SIZE, ())]


def place(inspection: Inspection, factors: Mapping[str, Flag]) -> Inspection:
    """Return the inspection of the device with the cell's zone size, and of its levels.

    Raises:
        ConfigError: no named device has zones of this size.
        GuardRefused: the device must not be overwritten.
    """
    if ZONE_SIZE not in factors:
        return inspection
    wanted = parse_size(factors[ZONE_SIZE])
    if inspection.device.zone_size == wanted:
        return inspection
    for other in inspection.others:
        if other.device.zone_size == wanted:
            refuse(other.refusals)
            return replace(inspection, device=other.device, levels=other.levels)
    known = ", ".join(format_size(device.zone_size or 0) for device in inspection.devices)
    raise ConfigError(
        f"{inspection.host.name} has no device with zones of {factors[ZONE_SIZE]}, only of {known}",
        hint="name a device for each zone size: -e device=nvme0n1,nvme0n2",
        code="no-such-device",
    )


def side_by_side(
    level: LevelEntry, inspection: Inspection
) -> Iterator[tuple[LevelEntry, Inspection]]:
    """Yield a level for each conventional device that it measures; the second has variant ``2``.

    Raises:
        GuardRefused: a device must not be overwritten.
    """
    yield level, inspection
    module = levels.LEVELS[level.name]
    if not module.measures_conventional:
        return
    for number, other in enumerate(inspection.more_conventional, start=2):
        refuse(other.refusals)
        variant = f"{level.variant}-{number}" if level.variant else str(number)
        entry = level.model_copy(update={"variant": variant})
        yield entry, replace(inspection, conventional=other.device, levels=other.levels)


def check(study: Study, inspection: Inspection) -> None:
    """Refuse to vary the zone size over devices of different capacity.

    Raises:
        ConfigError: their capacities differ.
    """
    sizes = {one.path: one.capacity for one in _varied(study, inspection)}
    if len(set(sizes.values())) > 1:
        capacities = ", ".join(f"{path} {format_size(size)}" for path, size in sizes.items())
        raise ConfigError(
            f"a study of zone sizes needs devices of equal capacity, got {capacities}",
            hint="create namespaces with equal zones x zone capacity",
            code="unequal-capacity",
        )


def same_files(study: Study, workload: Workload, inspection: Inspection) -> Workload:
    """Return the workload with the SST size of the smallest zones for all zone sizes."""
    if ZONE_SIZE not in study.factors or _SST in workload.flags or _SST in study.factors:
        return workload
    size = min(file_size(workload, device) for device in _varied(study, inspection))
    return workload.model_copy(update={"flags": {**workload.flags, _SST: size}})


def _varied(study: Study, inspection: Inspection) -> list[Device]:
    values = study.factors.get(ZONE_SIZE, ())
    return [place(inspection, {ZONE_SIZE: value}).device for value in values]
