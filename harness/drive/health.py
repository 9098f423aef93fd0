"""Check whether a drive is fit to be measured: its SMART warnings and its temperature."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.errors import HostError
from harness.machine.host import Host

# A drive that is worn out performs differently from others of its model.
_WORN_PCT = 100
# Kelvin below the drive's own warning temperature: warm drives throttle before they warn.
_MARGIN = 5
_LOOK_SECONDS = 5.0
# An idle drive in a chassis with fans cools by 20 K in some minutes.
_COOL_SECONDS = 900.0

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
    """Refuse a drive with SMART warnings; a drive without SMART passes.

    Raises:
        HostError: the drive is not healthy (code ``drive-unhealthy``).
    """
    smart = host.smart(name)
    reasons = [] if smart is None else faults(smart)
    if reasons:
        raise HostError(
            f"{name} is unhealthy: {'; '.join(reasons)}",
            hint="see nvme smart-log; measurements on such a drive are not comparable",
            code="drive-unhealthy",
        )


def faults(smart: Mapping[str, int]) -> list[str]:
    """Return the faults in a SMART log; a temperature warning is not one, because it passes."""
    warning = smart["critical_warning"]
    found = [
        f"SMART warns that {text}"
        for bit, text in enumerate(_WARNINGS)
        if warning >> bit & 1 and bit != _TEMPERATURE_BIT
    ]
    if smart["percentage_used"] >= _WORN_PCT:
        found.append(f"{smart['percentage_used']} % of its rated life are used")
    return found


def wait_cool(host: Host, name: str, say: Callable[[str], None]) -> int | None:
    """Wait until a drive has cooled down; return its temperature in kelvin.

    Returns None if the drive does not report it.

    Raises:
        HostError: the drive stays warm (code ``drive-hot``).
    """
    limit = host.warning_temperature(name)
    deadline = host.monotonic() + _COOL_SECONDS
    announced = False
    while True:
        smart = host.smart(name)
        kelvin = smart["temperature_kelvin"] if smart else 0
        if not kelvin or not limit or kelvin <= limit - _MARGIN:
            return kelvin or None
        if host.monotonic() > deadline:
            raise HostError(
                f"{name} stays at {kelvin - 273} degrees C; it warns above {limit - 273}",
                hint="cool it better: a warm drive slows itself down",
                code="drive-hot",
            )
        if not announced:
            say(f"{name} is at {kelvin - 273} degrees C: waiting until it is cooler")
            announced = True
        host.pause(_LOOK_SECONDS)
