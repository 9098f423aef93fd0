"""What a campaign costs a drive: bytes, full drive writes, share of its life; asked beforehand.

Rated endurance is the user's (``--rated-endurance``, from the data sheet), else the drive's own
word: the Endurance Estimate of NVMe's Endurance Group Information log, kept in the inspection.
Without either, the limit is about full drive writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.errors import ConfigError
from harness.plan.show import minutes
from harness.plan.units import format_size
from harness.store.spec import Bytes, DeviceKind, HostPlan, Plan

# Where no life is known: more than an evening's study, less than what wears a drive.
FULL_WRITES = 5.0


@dataclass(frozen=True, slots=True)
class Wear:
    """Of one host's drive. ``share`` is null where its endurance is unknown."""

    host: str
    written: Bytes
    seconds: float
    full_writes: float
    share: float | None

    @property
    def line(self) -> str:
        """Return it for people."""
        life = "of unknown endurance" if self.share is None else f"{self.share:.2%} of its life"
        bytes_and_time = f"{format_size(self.written)} in about {minutes(self.seconds)}"
        return f"{self.host}: {bytes_and_time}, {self.full_writes:.1f} full writes, {life}\n"


def wear(plan: Plan, rated: Bytes | None) -> list[Wear]:
    """Return what each host's drive pays; emulated ones pay nothing, and are left out."""
    real = [host for host in plan.hosts if host.inspection.device.kind is DeviceKind.HARDWARE]
    return [_wear(host, rated) for host in real]


def require_allowed(found: Sequence[Wear], limit: float) -> None:
    """Refuse what costs more than ``limit``, a share of the drive's life.

    Raises:
        ConfigError: it does (code ``endurance``); what to type is its hint.
    """
    for one in found:
        if one.share is None and one.full_writes > FULL_WRITES:
            raise ConfigError(
                f"{one.line.strip()}: more than {FULL_WRITES:g} full writes",
                hint="-e rated_endurance=3500TB (from its data sheet) lets the share be told;"
                " less: LEVELS=, REPETITIONS=",
                code="endurance",
            )
        if one.share is not None and one.share > limit:
            raise ConfigError(
                f"{one.line.strip()}: more than {limit:.2%}",
                hint=f"-e endurance_limit={one.share * 1.01:.2%} if that is meant;"
                " less: LEVELS=, REPETITIONS=",
                code="endurance",
            )


def _wear(host: HostPlan, rated: Bytes | None) -> Wear:
    missing = {probe.level for probe in host.inspection.levels if not probe.available}
    runs = [run.predicted for run in host.runs if run.level not in missing]
    written = sum(run.bytes_written for run in runs)
    inspection = host.inspection
    capacity = inspection.drive_capacity or inspection.device.capacity
    life = rated or inspection.endurance
    return Wear(
        host=host.host,
        written=Bytes(written),
        seconds=sum(run.seconds for run in runs),
        full_writes=written / capacity,
        share=written / life if life else None,
    )
