"""Check the rates of fio's commands against the bandwidth of a drive, if it is known.

With a higher rate, a phase would measure the drive at its full speed.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness import known_drives
from harness.errors import ConfigError
from harness.known_drives import BandwidthCap
from harness.observe import zoneblk
from harness.plan import drive_files
from harness.plan.drive_models import DriveModel
from harness.plan.drive_values import BANDWIDTHS, nanoseconds, number, size
from harness.quantities import format_size
from harness.store.spec import Device, DeviceKind
from harness.workloads import fio_phases
from harness.workloads.fio_jobs import ALL
from harness.workloads.fio_sweeps import Fio

_NS_PER_S = 10**9


def check(work: Fio, device: Device) -> None:
    """Refuse rates of sweeps and jobs that the drive cannot reach, if its bandwidth is known.

    Raises:
        ConfigError: the jobs of a point, or a client of a job, have a higher rate.
    """
    cap = cap_of(device)
    if cap is None:
        return
    for name, rate, jobs, read_pct in _rates(work, zoned=device.zoned):
        most = ALL / (read_pct / cap.read + (ALL - read_pct) / cap.write)
        if jobs * rate > most:
            times = f"{jobs} x " if jobs > 1 else ""
            raise ConfigError(
                f"rate of {name}: {times}{format_size(rate)}/s is above the "
                f"{format_size(int(most))}/s of {device.path}",
                hint="lower rate, or leave it out",
                code="rate-above-drive",
            )


def cap_of(device: Device) -> BandwidthCap | None:
    """Return the cap of a ZN540, or of a modelled drive; null for other drives."""
    if device.kind is DeviceKind.HARDWARE:
        return known_drives.cap(device.model)
    model = _model(device)
    return _cap(model) if model is not None else None


def _rates(work: Fio, *, zoned: bool) -> Iterator[tuple[str, int, int, float]]:
    """Yield a name, bytes per second of a job, the number of jobs, and the share of reads in %."""
    for sweep in work.sweeps:
        for point in fio_phases.points(sweep) if sweep.zoned == zoned else ():
            yield f"sweep {sweep.name}", point.rate or 0, point.jobs, 0 if sweep.writes else ALL
    for job in work.drive_jobs:
        for client in job.clients if job.zoned == zoned else ():
            rate = client.bytes_per_second or 0
            yield f"client {client.name} of job {job.name}", rate, 1, client.read_pct


def _model(device: Device) -> DriveModel | None:
    """Return the model that zoneblk serves as the device; null if this release does not have it."""
    server, _, rest = device.model.partition(" ")
    if device.kind is not DeviceKind.MODELLED or server != zoneblk.SERVER:
        return None
    return drive_files.model_served_as(rest.split(" ")[0])


def _cap(model: DriveModel) -> BandwidthCap:
    """Return the bandwidth of the slowest part that all data passes."""
    flash, front = model.flash, model.front
    programs = flash.dies * size(flash.program_unit.value)
    rates = (front.link_rate.value, front.write_rate.value)
    link, buffer = (float(number(rate, BANDWIDTHS, "bandwidth")) for rate in rates)
    media = programs * _NS_PER_S / nanoseconds(flash.program.value)
    return BandwidthCap(write=min(link, buffer, media), read=link)
