"""Number of operations of each phase, and the number of keys that they leave."""

from __future__ import annotations

import math

from harness.errors import ConfigError
from harness.plan.workload_models import Phase, Workload


def count(phase: Phase, keys: int, free_bytes: int, workload: Workload) -> int | None:
    """Return the number of operations of a phase; None for a phase that is limited by time.

    ``keys`` is the size of the key space, ``free_bytes`` the space left after the first fill.

    Raises:
        ConfigError: free space limits the phase, but the phase writes nothing.
    """
    rule = phase.operations
    if rule.duration is not None:
        return None
    if rule.keys is not None:
        number = math.ceil(rule.keys * keys)
    elif rule.free_space is not None:
        number = math.ceil(rule.free_space * free_bytes / _payload(phase, workload))
    else:
        number = rule.count or 0
    return number if rule.at_most is None else min(number, rule.at_most)


def most_keys(workload: Workload, keys: int, free_bytes: int) -> int:
    """Return the largest number of keys that the database reaches in any phase.

    A phase counts with its average growth. The real number varies by about the square root of the
    number of operations.
    """
    most = now = keys
    for phase in workload.phases:
        if phase.role == "fill":
            continue
        growth = phase.program.growth(phase.work)
        now += round(growth * (count(phase, keys, free_bytes, workload) or 0))
        most = max(most, now)
    return most


def _payload(phase: Phase, workload: Workload) -> float:
    payload = phase.program.payload(phase.work, workload.key_size, workload.value_size)
    if payload <= 0:
        raise ConfigError(
            f"phase {phase.name} writes nothing, so free_space gives no number of operations",
            hint="use keys, count or duration",
            code="no-payload",
        )
    return payload
