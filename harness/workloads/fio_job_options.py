"""fio's options for jobs of the model's job language: each client is a section of one fio.

The label comes first, so zone n of a job is zone n + 1 of the device. Byte 0 of a job's
conventional namespace is the first byte of the region.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import ConfigError
from harness.quantities import format_size
from harness.store.spec import Device, Scalar
from harness.workloads.fio_jobs import ALL, LABEL_BYTES, LABEL_ZONES, DriveJob, JobClient


def sections(
    job: DriveJob, device: Device, region: int, ioengine: str, *, ramp: int = 0
) -> dict[str, Scalar]:
    """Return the options of all clients, each as ``client.option``; a ramp is limited by time.

    Raises:
        ConfigError: a client does not fit the device.
    """
    _check_limit(job, device)
    found: dict[str, Scalar] = {}
    for client in job.clients:
        place = _zones(job, client, device) if job.zoned else _part(job, client, region)
        own = {**_commands(client, zoned=job.zoned), **place}
        jobs = int(own.get("numjobs", 1))
        depth = client.depth // jobs
        if ramp:
            own = {key: value for key, value in own.items() if key != "io_size"}
            own |= {"time_based": 1, "runtime": ramp}
        own |= {"iodepth": depth, "ioengine": ioengine if depth > 1 else "psync", "direct": 1}
        own |= {"thread": 1, "new_group": 1, "group_reporting": 1}
        own |= {"lat_percentiles": 1, "clat_percentiles": 1}
        found |= {f"{client.name}.{key}": value for key, value in own.items()}
    return found


def end_of_zones(job: DriveJob, device: Device) -> int:
    """Return the first zone of the device after a job's zones.

    Raises:
        ConfigError: the device has fewer zones.
    """
    places = [one.zones for one in job.prepare] + [one.zones for one in job.clients]
    ends = [zones[1] for zones in places if zones is not None]
    end = LABEL_ZONES + max(ends, default=(device.zones or 0) - LABEL_ZONES)
    if end > (device.zones or 0):
        raise ConfigError(
            f"job {job.name} needs {end} zones, {device.path} has {device.zones}",
            hint="lower its zones",
            code="too-few-zones",
        )
    return end


def fills(job: DriveJob, device: Device, block: int) -> Iterator[dict[str, Scalar]]:
    """Yield fio's options for each range of zones that a job finds filled.

    Raises:
        ConfigError: more zones stay partly filled than the device keeps active.
    """
    size, capacity = device.zone_size or 0, device.zone_capacity or 0
    for state in job.prepare:
        if state.zones is None:
            continue
        part = state.written or int(capacity * state.fill_pct / ALL) // block * block
        zones = state.zones[1] - state.zones[0]
        place: dict[str, Scalar] = {
            "rw": "write",
            "bs": block,
            "zonemode": "zbd",
            "offset": (LABEL_ZONES + state.zones[0]) * size,
        }
        if part >= capacity:
            yield {**place, "size": zones * size, "io_size": zones * capacity}
        elif part:
            _check_active(job, device, zones)
            own = {"numjobs": zones, "offset_increment": size, "thread": 1, "group_reporting": 1}
            yield {**place, **own, "size": size, "io_size": part}


def _commands(client: JobClient, *, zoned: bool) -> dict[str, Scalar]:
    random = not client.sequential and not (zoned and client.writes)
    kinds = {ALL: "read", 0: "write"}
    rw = f"{'rand' if random else ''}{kinds.get(client.read_pct, 'rw')}"
    found: dict[str, Scalar] = {"rw": rw, "bs": client.size}
    if client.read_pct not in kinds:
        found["rwmixread"] = client.read_pct
    if random:
        found["norandommap"] = 1
    if client.run:  # commands from each random start
        found["rw"] = f"{rw}:{client.run // client.size}"
    if client.hot:
        (space, commands) = client.hot
        found["random_distribution"] = (
            f"zoned:{commands:g}/{space:g}:{ALL - commands:g}/{ALL - space:g}"
        )
    return found


def _limits(client: JobClient, *, loops: bool) -> dict[str, Scalar]:
    """Return when a client starts and ends; without ``bytes`` it can begin its part again."""
    found: dict[str, Scalar] = {}
    if client.start:
        found["startdelay"] = client.start
    if client.seconds:
        found["runtime"] = client.seconds
        if loops and client.bytes is None:
            found["time_based"] = 1
    return found


def _zones(job: DriveJob, client: JobClient, device: Device) -> dict[str, Scalar]:
    """Return a client's zones; a writing client has a clone for each zone that it keeps active."""
    size, capacity = device.zone_size or 0, device.zone_capacity or 0
    first, end = client.zones or (0, (device.zones or 0) - LABEL_ZONES)
    clones = _active(client, end - first) if client.writes else 1
    zones = (end - first) // clones
    for what, count in (("number of zones", end - first), ("depth", client.depth)):
        if count % clones:
            raise ConfigError(
                f"client {client.name} of job {job.name} writes {clones} zones at a time, so its "
                f"{what} ({count}) must be a multiple of {clones}",
                hint="change zones or depth: fio runs one clone for each zone at a time",
                code="does-not-fit",
            )
    if capacity % client.size:
        raise ConfigError(
            f"client {client.name} of job {job.name}: size {format_size(client.size)} does not "
            f"divide the zone capacity {format_size(capacity)}",
            hint="choose a size that divides it; else fio fills no zone and never ends",
            code="does-not-fit",
        )
    if client.writes and (client.most_bytes or 0) > clones * zones * capacity:
        raise ConfigError(
            f"client {client.name} of job {job.name} writes more than its zones hold",
            hint="fio would reset zones itself: lower bytes, rate or duration, or add zones",
            code="does-not-fit",
        )
    most = (client.bytes or clones * zones * capacity) // clones // client.size * client.size
    return {
        "zonemode": "zbd",
        "offset": (LABEL_ZONES + first) * size,
        "size": zones * size,
        **({"numjobs": clones, "offset_increment": zones * size} if clones > 1 else {}),
        **({"io_size": most} if client.writes or client.bytes else {}),
        **_rates(job, client, clones),
        **_limits(client, loops=not client.writes),
    }


def _part(job: DriveJob, client: JobClient, region: int) -> dict[str, Scalar]:
    first, end = client.range or (0, region)
    if end > region:
        raise ConfigError(
            f"client {client.name} of job {job.name} needs a region of {end} B; "
            f"the region has {region} B",
            hint="raise region, lower its range, or use a larger device",
            code="does-not-fit",
        )
    limit: dict[str, Scalar] = {"io_size": client.bytes} if client.bytes else {}
    place: dict[str, Scalar] = {"offset": LABEL_BYTES + first, "size": end - first}
    return {**place, **limit, **_rates(job, client, 1), **_limits(client, loops=True)}


def _rates(job: DriveJob, client: JobClient, clones: int) -> dict[str, Scalar]:
    """Return the rate of each clone; for a mix, fio takes a rate for each direction.

    Raises:
        ConfigError: a rate rounds to 0, which fio takes as no limit.
    """
    found: dict[str, Scalar] = {}
    for name, rate in (("rate", client.rate), ("rate_iops", client.rate_iops)):
        if rate is None:
            continue
        reads = rate * client.read_pct // ALL // clones
        writes = rate // clones - reads
        ways = ((reads, client.read_pct), (writes, ALL - client.read_pct))
        rates = [each for each, share in ways if share]
        if not all(rates):
            raise ConfigError(
                f"client {client.name} of job {job.name} has a rate that rounds to 0",
                hint="raise rate, or lower depth: each zone at a time has its part of the rate",
                code="does-not-fit",
            )
        found[name] = rates[0] if len(rates) == 1 else ",".join(map(str, rates))
    return found


def _active(client: JobClient, zones: int) -> int:
    return client.active or min(client.depth, zones)


def _check_limit(job: DriveJob, device: Device) -> None:
    if job.zoned:
        whole = (0, (device.zones or 0) - LABEL_ZONES)
        spans = [
            (one, (one.zones or whole)[1] - (one.zones or whole)[0])
            for one in job.clients
            if one.writes
        ]
        _check_active(job, device, sum(_active(one, zones) for one, zones in spans))


def _check_active(job: DriveJob, device: Device, zones: int) -> None:
    limit = device.zone_limit
    if limit is not None and zones > limit:
        raise ConfigError(
            f"job {job.name} writes to {zones} zones at once, {device.path} allows {limit}",
            hint="lower the zones of its clients, or fill whole zones",
            code="too-few-active-zones",
        )
