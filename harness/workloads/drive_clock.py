"""Rates of the load programs, on the clock of a modelled drive."""

from __future__ import annotations

from collections.abc import Mapping

from harness.store.spec import Scalar
from harness.workloads.planning import flag_number


def slowed(
    flags: Mapping[str, Scalar], rates: Mapping[str, float], dilation: int
) -> dict[str, Scalar]:
    """Return rate flags divided by the dilation; none if the drive is not slowed down.

    A second of the drive takes ``dilation`` seconds of the program. ``rates`` are the program's own
    values by flag, per second. Whole numbers stay whole, and a rate of 0 (no limit) stays 0.

    Raises:
        ConfigError: a rate is not a number.
    """
    if dilation == 1:
        return {}
    found: dict[str, Scalar] = {}
    for name, usual in rates.items():
        rate = flag_number(flags, name, usual) / dilation
        if rate:
            found[name] = max(1, int(rate)) if isinstance(usual, int) else rate
    return found
