"""Translation of jobs in the model's job language to jobs that fio can play."""

from __future__ import annotations

import math
from typing import Any

from harness.errors import ConfigError
from harness.plan.drive_values import BANDWIDTHS, BYTES, RATES, nanoseconds, number, size
from harness.plan.job_models import Client, Job, Prepare
from harness.workloads.fio_jobs import ALL

_SECOND = 10**9
_PAGE = "docs/studies.md lists what fio plays"


def translated(job: Job) -> dict[str, Any]:
    """Return the fields of a job as harness/workloads/fio_jobs.py reads them.

    ``stack``, ``seed`` and ``at_full`` are left out: the device has its own stack, the run its
    seed, and no client writes more than its zones hold. Times are rounded up to seconds.

    Raises:
        ConfigError: fio has no such command or state.
    """
    kinds = {_zoned(job, client) for client in job.clients}
    if len(kinds) > 1:
        raise _refused(job, "its clients use two namespaces, and a phase has one device")
    return {
        "name": job.name,
        "zoned": kinds.pop(),
        "warmup": _seconds(job.warmup) or 0,
        "prepare": [_state(job, one) for one in job.prepare],
        "clients": [_client(job, one) for one in job.clients],
    }


def _zoned(job: Job, client: Client) -> bool:
    """Whether a client uses the zoned namespace; else its zones, its range or the job decide."""
    if client.namespace is not None:
        return client.namespace == "zoned"
    if client.zones is not None or client.range is not None:
        return client.zones is not None
    return not any(one.conventional for one in job.prepare)


def _state(job: Job, state: Prepare) -> dict[str, Any]:
    if state.state is not None or state.used is not None:
        raise _refused(job, "prepare has a state, and fio only fills zones")
    found = {
        "zones": state.zones,
        "fill_pct": state.fill_pct,
        "written": None if state.written is None else size(state.written),
        "conventional": state.conventional,
        "times": state.times,
    }
    return _without_nulls(found)


def _client(job: Job, client: Client) -> dict[str, Any]:
    zoned, reads, commands = _zoned(job, client), _reads(job, client), 0
    if zoned and 0 < reads < ALL:
        raise _refused(job, f"client {client.name} reads and writes zones: make it two clients")
    if client.size is None or client.refill is not None:
        raise _refused(job, f"client {client.name} has no size, or has a refill")
    block = size(client.size)
    if client.commands is not None:
        commands = client.commands * block
    limit = min([one for one in (commands, _bytes(client.bytes)) if one], default=None)
    start = _seconds(client.start) or 0
    whole = _seconds(client.duration) or (_seconds(job.duration) or 0) - start
    rate = client.rate or ""
    in_bytes = any(rate.endswith(unit) for unit in BANDWIDTHS)
    per_second = int(number(rate, RATES, "rate")) if rate else None
    if limit is None and (whole <= 0 or (reads < ALL and not rate)):
        raise _refused(
            job, f"client {client.name} has no end: bytes, commands, or rate and duration limit it"
        )
    found = {
        "name": client.name,
        "read_pct": reads,
        "size": block,
        "depth": client.depth,
        "zones": client.zones,
        "active": client.active,
        "range": None if client.range is None else [*map(size, client.range)],
        "sequential": client.pattern == "sequential",
        "run": _bytes(client.run),
        "hot": None if client.hot is None else [client.hot.range_pct, client.hot.commands_pct],
        "rate": per_second if in_bytes else None,
        "rate_iops": None if in_bytes else per_second,
        "start": start,
        "seconds": whole if whole > 0 else None,
        "bytes": limit,
    }
    return _without_nulls(found)


def _reads(job: Job, client: Client) -> int:
    """Return the percentage of reads."""
    mix = {command: weight for command, weight in (client.mix or {}).items() if weight}
    if not mix or not mix.keys() <= {"read", "write"}:
        raise _refused(job, f"client {client.name} has commands besides read and write")
    share = ALL * mix.get("read", 0) / sum(mix.values())
    if share != int(share):
        raise _refused(job, f"client {client.name} has {share:g} % of reads, not a whole number")
    return int(share)


def _seconds(text: str | None) -> int | None:
    return None if text is None else math.ceil(nanoseconds(text) / _SECOND)


def _bytes(text: str | None) -> int | None:
    return None if text is None else int(number(text, BYTES, "size"))


def _without_nulls(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _refused(job: Job, why: str) -> ConfigError:
    return ConfigError(f"fio cannot play job {job.name}: {why}", hint=_PAGE, code="fio-job")
