"""Wear of a drive by a campaign, predicted and checked before anything is written.

It counts the runs, the passes of preconditioning, and the fill of the drive's other namespace.

The rated endurance comes from the user (``--rated-endurance``, from the data sheet) or from the
drive: the Endurance Estimate in NVMe's Endurance Group Information log. If neither is known, the
number of full drive writes is limited.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness import levels
from harness.errors import ConfigError
from harness.plan.show import minutes
from harness.quantities import format_size
from harness.store.spec import Bytes, Device, DeviceKind, HostPlan, Plan, RunSpec

# Limit if the endurance is unknown: more than a usual study, and far from wearing a drive out.
FULL_WRITES = 5.0


@dataclass(frozen=True, slots=True)
class Conditioning:
    """What is written to each drive before the runs."""

    passes: int = 0  # of preconditioning: how often each device under test is written
    remainder_full: bool = False  # the drive's other namespace is filled


@dataclass(frozen=True, slots=True)
class Wear:
    """Wear of one host's drive. ``share`` is null if the endurance is unknown."""

    host: str
    written: Bytes  # by the runs
    conditioning: Bytes  # before the runs
    seconds: float  # of the runs
    full_writes: float  # of both, as multiples of the drive's capacity
    share: float | None

    @property
    def line(self) -> str:
        """The wear in one line of text."""
        life = "of unknown endurance" if self.share is None else f"{self.share:.2%} of its life"
        bytes_and_time = f"{format_size(self.written)} in about {minutes(self.seconds)}"
        if self.conditioning:
            bytes_and_time += f" after {format_size(self.conditioning)} of preconditioning"
        return f"{self.host}: {bytes_and_time}, {self.full_writes:.1f} full writes, {life}\n"


def wear(plan: Plan, rated: Bytes | None, before: Conditioning) -> list[Wear]:
    """Return the wear of each host's drives; emulated drives are omitted.

    ``rated`` holds for each drive. A conventional device of another drive has its own line.

    Raises:
        ConfigError: the remainder is to be filled, but an inspection has none (code ``remainder``).
    """
    found = []
    for host in plan.hosts:
        if host.inspection.device.kind is DeviceKind.HARDWARE:
            found.append(_wear(host, rated, before))
        found += _wear_of_other_drives(host, rated)
    return found


def require_allowed(wears: Sequence[Wear], limit: float) -> None:
    """Refuse a campaign that uses more than ``limit``, a share of the drive's endurance.

    Raises:
        ConfigError: a drive would wear more (code ``endurance``).
    """
    for drive in wears:
        if drive.share is None and drive.full_writes > FULL_WRITES:
            raise ConfigError(
                f"{drive.line.strip()}: more than {FULL_WRITES:g} full writes",
                hint="give the rated endurance: -e rated_endurance=3500TB; or reduce "
                "LEVELS=, REPETITIONS=",
                code="endurance",
            )
        if drive.share is not None and drive.share > limit:
            raise ConfigError(
                f"{drive.line.strip()}: more than {limit:.2%}",
                hint=f"allow it with -e endurance_limit={drive.share * 1.01:.2%} or reduce "
                "LEVELS=, REPETITIONS=",
                code="endurance",
            )


def _wear(host: HostPlan, rated: Bytes | None, before: Conditioning) -> Wear:
    inspection = host.inspection
    runs = [run for run in _possible_runs(host) if _device_on_another_drive(host, run) is None]
    capacity = inspection.drive_capacity or inspection.device.capacity
    life = rated or inspection.endurance
    return _of_runs(host.host, runs, _conditioning(host, before), capacity, life)


def _wear_of_other_drives(host: HostPlan, rated: Bytes | None) -> Iterator[Wear]:
    """Yield the wear of drives that only levels without zones use."""
    runs: dict[Device, list[RunSpec]] = defaultdict(list)
    for run in _possible_runs(host):
        device = _device_on_another_drive(host, run)
        if device is not None and device.kind is DeviceKind.HARDWARE:
            runs[device].append(run)
    for device, own in runs.items():
        yield _of_runs(f"{host.host} {device.path}", own, Bytes(0), device.size, rated)


def _of_runs(
    name: str, runs: Sequence[RunSpec], conditioning: Bytes, capacity: int, life: int | None
) -> Wear:
    written = sum(run.predicted.bytes_written for run in runs)
    total = written + conditioning
    return Wear(
        host=name,
        written=Bytes(written),
        conditioning=conditioning,
        seconds=sum(run.predicted.seconds for run in runs),
        full_writes=total / capacity,
        share=total / life if life else None,
    )


def _possible_runs(host: HostPlan) -> list[RunSpec]:
    missing = {probe.level for probe in host.inspection.levels if not probe.available}
    return [run for run in host.runs if run.level not in missing]


def _device_on_another_drive(host: HostPlan, run: RunSpec) -> Device | None:
    """Return the device that takes a run's bytes, if it is not on the drive with the zones."""
    level, device = levels.LEVELS.get(run.level), run.conventional
    if level is None or level.uses_zoned or device is None:
        return None
    same = device.identity.serial == host.inspection.device.identity.serial
    return None if same else device


def _conditioning(host: HostPlan, before: Conditioning) -> Bytes:
    """Return the bytes written before the runs, as if no earlier campaign had written them."""
    written = before.passes * sum(device.capacity for device in host.inspection.devices)
    if before.remainder_full:
        if host.inspection.remainder is None:
            raise ConfigError(
                f"the inspection of {host.host} has no remainder, so its bytes are unknown",
                hint="zonelab inspect DEVICE --remainder DEVICE --format json",
                code="remainder",
            )
        written += host.inspection.remainder.capacity
    return Bytes(written)
