"""Time limits on a machine whose clock counts instructions (docs/rigs.md).

Its drives are many times slower than real ones. And while it waits for the host's network, it is
idle, and its clock jumps from timer to timer. So time limits must be generous.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

FLAG = "zonelab.dilation="  # on the kernel's command line
_PATIENCE = 100.0


@cache
def patience(cmdline: Path = Path("/proc/cmdline")) -> float:
    """Return the factor for time limits on this machine's clock: 1 on a real clock."""
    return factor(cmdline.read_text(encoding="utf-8"))


def factor(cmdline: str) -> float:
    """Return the factor of a machine by its kernel's command line."""
    return _PATIENCE if FLAG in cmdline else 1.0
