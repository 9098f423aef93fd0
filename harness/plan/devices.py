"""The device of a cell: which of a host's zoned devices its runs are given, by zone size.

Devices that a study varies have equal capacity, so that the same bytes meet another geometry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from harness.errors import ConfigError, GuardRefused
from harness.plan.derive import file_size
from harness.plan.models import Flag, Study, Workload
from harness.plan.units import format_size, parse_size
from harness.store.spec import Device, Inspection

ZONE_SIZE = "zone_size"
_SST = "target_file_size_base"


def zone_sizes(study: Study) -> list[int]:
    """Return the zone sizes that a study varies, in bytes; none: it leaves the device alone."""
    return [parse_size(value) for value in study.factors.get(ZONE_SIZE, ())]


def place(inspection: Inspection, factors: Mapping[str, Flag]) -> Inspection:
    """Return the host as a cell sees it: with the device of its zone size, and its levels.

    Raises:
        ConfigError: no device that was named has zones of this size.
        GuardRefused: the device may not be overwritten.
    """
    if ZONE_SIZE not in factors:
        return inspection
    wanted = parse_size(factors[ZONE_SIZE])
    if inspection.device.zone_size == wanted:
        return inspection
    for other in inspection.others:
        if other.device.zone_size == wanted:
            if other.refusals:
                first = other.refusals[0]
                raise GuardRefused(first.message, hint=first.hint, code=first.code)
            return replace(inspection, device=other.device, levels=other.levels)
    known = ", ".join(format_size(device.zone_size or 0) for device in inspection.devices)
    raise ConfigError(
        f"{inspection.host.name} has no device with zones of {factors[ZONE_SIZE]}, but of {known}",
        hint="name all that the study varies: -e device=nvme0n1,nvme0n2 (inspect nvme0n1 nvme0n2)",
        code="no-such-device",
    )


def check(study: Study, inspection: Inspection) -> None:
    """Refuse to vary the zone size over devices that hold different amounts.

    Raises:
        ConfigError: their capacities differ.
    """
    sizes = {one.path: one.capacity for one in _varied(study, inspection)}
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{path} {format_size(size)}" for path, size in sizes.items())
        raise ConfigError(
            f"zone sizes are compared on devices of equal capacity, these have: {told}",
            hint="make the namespaces equal: zones x zone capacity",
            code="unequal-capacity",
        )


def same_files(study: Study, workload: Workload, inspection: Inspection) -> Workload:
    """Return the workload with one SST size in bytes for all zone sizes: the smallest zone's."""
    if ZONE_SIZE not in study.factors or _SST in workload.flags or _SST in study.factors:
        return workload
    size = min(file_size(workload, device) for device in _varied(study, inspection))
    return workload.model_copy(update={"flags": {**workload.flags, _SST: size}})


def _varied(study: Study, inspection: Inspection) -> list[Device]:
    values = study.factors.get(ZONE_SIZE, ())
    return [place(inspection, {ZONE_SIZE: value}).device for value in values]
