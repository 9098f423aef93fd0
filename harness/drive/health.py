"""Whether a drive is fit to be measured: its own warnings, and its temperature."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from harness.errors import HostError
from harness.run.host import Host

# A drive that is worn out or out of spares behaves as no other of its model.
_WORN_PCT = 100
# Warm drives throttle before they warn; kelvin below the drive's own warning temperature.
_MARGIN = 5
_LOOK_SECONDS = 5.0
# An idle drive in a chassis with fans gives off 20 K in some minutes.
COOL_SECONDS = 900.0

# Bits of SMART's critical warning (NVM Express base specification).
_WARNINGS = (
    "available spare is below its threshold",
    "its temperature is above or below a threshold",
    "reliability is degraded",
    "media are read-only",
    "the volatile memory's backup failed",
    "the persistent memory region is read-only or unreliable",
)
_TEMPERATURE_BIT = 1


def require_healthy(host: Host, name: str) -> None:
    """Refuse a drive that warns of itself; one that does not tell is let through.

    Raises:
        HostError: code ``drive-unhealthy``.
    """
    smart = host.smart(name)
    reasons = [] if smart is None else faults(smart)
    if reasons:
        raise HostError(
            f"{name}: {'; '.join(reasons)}",
            hint="nvme smart-log shows it; what such a drive measures is not comparable",
            code="drive-unhealthy",
        )


def faults(smart: Mapping[str, int]) -> list[str]:
    """Return what a SMART log says against the drive; too warm is none, it passes."""
    warning = smart["critical_warning"]
    found = [
        f"SMART warns that {text}"
        for bit, text in enumerate(_WARNINGS)
        if warning >> bit & 1 and bit != _TEMPERATURE_BIT
    ]
    if smart["percentage_used"] >= _WORN_PCT:
        found.append(f"{smart['percentage_used']} % of its rated life are used")
    return found


def wait_cool(
    host: Host,
    name: str,
    say: Callable[[str], None],
    *,
    pause: Callable[[float], None] = time.sleep,
    patience: float = COOL_SECONDS,
) -> int | None:
    """Wait until a drive is no longer near its warning temperature; return it in kelvin.

    None where the drive does not tell.

    Raises:
        HostError: it stays as warm (code ``drive-hot``).
    """
    limit = host.warning_temperature(name)
    deadline = host.monotonic() + patience
    told = False
    while True:
        smart = host.smart(name)
        kelvin = smart["temperature_kelvin"] if smart else 0
        if not kelvin or not limit or kelvin <= limit - _MARGIN:
            return kelvin or None
        if host.monotonic() > deadline:
            raise HostError(
                f"{name} stays at {kelvin - 273} degrees C, it warns at {limit - 273}",
                hint="improve its cooling; a warm drive slows itself down",
                code="drive-hot",
            )
        if not told:
            say(f"{name} is at {kelvin - 273} degrees C: waiting until it is cooler")
            told = True
        pause(_LOOK_SECONDS)
