"""How much of its drive's bandwidth a phase used; a device that idles compares nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.rules.facts import PhaseFacts, RunFacts
from harness.rules.phases import issue
from harness.store.result import Issue, Severity
from harness.store.spec import Device, DeviceKind, RunSpec

MIB = 1 << 20
# A levels study whose device was hardly used found no difference between any two levels.
_LEAST = 0.3


@dataclass(frozen=True, slots=True)
class Cap:
    """What a drive does at most, in B/s."""

    write: int
    read: int


# By the model as the controller tells it. Doekemeijer et al. 2023, "Performance characterization of
# NVMe flash devices with ZNS": Western Digital's ZN540 of 1 TB, 904 zones.
CAPS = {"WZS4C8T1TDSP303": Cap(1155 * MIB, 2507 * MIB)}


def used(run: RunFacts) -> Iterator[Issue]:
    """Levels differ when the device limits them.

    Only phases that write are judged: how fast single reads are is a matter of latency.
    """
    told = False
    for phase in run.phases:
        device = _main(run.spec, phase)
        writes = phase.measured and phase.spec.user_bytes_per_operation > 0
        if device is None or device.kind is not DeviceKind.HARDWARE or not writes:
            continue
        found = share(run.spec, phase)
        if found is not None and found < _LEAST:
            yield issue(
                "bandwidth-low",
                Severity.WARNING,
                f"{phase.spec.name} used {found:.0%} of the bandwidth of {device.model}",
                phase,
                expected=_LEAST,
                actual=round(found, 6),
            )
        elif _cap(device) is None and not told:
            told = True
            yield issue(
                "bandwidth-unknown",
                Severity.INFO,
                f"nobody told what {device.model} does at most (harness/rules/bandwidth.py)",
            )


def share(spec: RunSpec, phase: PhaseFacts) -> float | None:
    """Return the time that the drive needs for a phase's bytes at its best, over the phase's.

    Of all devices that are on one drive with the level's main one. Null where the drive's caps are
    not known, as those of an emulated one.
    """
    main = _main(spec, phase)
    cap = _cap(main) if main else None
    if main is None or cap is None or not phase.seconds:
        return None
    pairs = ((spec.device, phase.zoned), (spec.conventional, phase.conventional))
    serial = main.identity.serial
    disks = [
        disk
        for device, disk in pairs
        if device is not None and disk is not None and device.identity.serial == serial
    ]
    seconds = sum(disk.write_bytes / cap.write + disk.read_bytes / cap.read for disk in disks)
    return seconds / phase.seconds


def _main(spec: RunSpec, phase: PhaseFacts) -> Device | None:
    """Return the zoned device, where the level uses it."""
    return spec.device if phase.zoned is not None else spec.conventional


def _cap(device: Device) -> Cap | None:
    return None if device.kind is not DeviceKind.HARDWARE else CAPS.get(device.model.strip())
