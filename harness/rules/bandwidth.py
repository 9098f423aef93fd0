"""Share of the drive's bandwidth that a phase used: an idle device shows no difference."""

from __future__ import annotations

from collections.abc import Iterator

from harness import known_drives
from harness.known_drives import BandwidthCap
from harness.rules.facts import PhaseFacts, RunFacts
from harness.rules.rule import info, issue, rule, warning
from harness.store.result import Issue
from harness.store.spec import Device, DeviceKind, RunSpec

# A study whose device was nearly idle found no difference between any two levels.
_LEAST = 0.3


@rule(
    warning(
        "bandwidth-low",
        "a measured phase that writes used less than 30 % of its drive's bandwidth",
        "the device was no bottleneck: levels that differ under load look alike",
    ),
    info(
        "bandwidth-unknown",
        "the run is on real hardware with unknown bandwidth",
        "the run may have been far below the device's limit",
    ),
)
def used(run: RunFacts) -> Iterator[Issue]:
    """Phases that write use the drive's bandwidth; phases that only read depend on latency."""
    reported = False
    for phase in run.phases:
        device = _main(run.spec, phase)
        writes = phase.measured and phase.spec.user_bytes_per_operation > 0
        if device is None or device.kind is not DeviceKind.HARDWARE or not writes:
            continue
        used_share = share(run.spec, phase)
        if used_share is not None and used_share < _LEAST:
            yield issue(
                "bandwidth-low",
                f"{phase.spec.name} used {used_share:.0%} of the bandwidth of {device.model}",
                phase,
                expected=_LEAST,
                actual=round(used_share, 6),
            )
        elif _cap(device) is None and not reported:
            reported = True
            yield issue(
                "bandwidth-unknown",
                f"the bandwidth of {device.model} is unknown (harness/known_drives.py)",
            )


def share(spec: RunSpec, phase: PhaseFacts) -> float | None:
    """Return the time that the drive needs at full bandwidth, as a share of the phase's time.

    Counts the bytes of every device on the main device's drive. Null where the drive's bandwidth
    is unknown, as on emulated drives.
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
    """Return the zoned device where the level uses it, else the conventional one."""
    return spec.device if phase.zoned is not None else spec.conventional


def _cap(device: Device) -> BandwidthCap | None:
    return None if device.kind is not DeviceKind.HARDWARE else known_drives.cap(device.model)
