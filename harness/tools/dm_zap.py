"""dm-zap: its device-mapper table, and a parser of its trace."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ConfigError
from harness.quantities import SECTOR
from harness.store.spec import Scalar

TARGET = "zap"

# The arguments of the table in order, with upstream's names and the values of an upstream example:
# conventional zones at the start (only 0 is accepted), reserved zones (% of all), length and
# optimal length of reclaim class 0, victim selection (0 greedy, 1 cost-benefit, 2 fast
# cost-benefit, 3 approximate cost-benefit; newer sources have up to 7), share of free zones (%)
# below which it reclaims, length of the queue.
DEFAULTS: dict[str, int] = {
    "nr_conv_zones": 0,
    "overprovisioning_rate": 30,
    "class_0_cap": 125,
    "class_0_optimal": 25,
    "victim_selection_method": 0,
    "reclaim_limit": 10,
    "q_cap": 30,
}
_LIMITS = {
    "nr_conv_zones": 0,
    "overprovisioning_rate": 100,
    "victim_selection_method": 7,
    "reclaim_limit": 100,
}

# trace_printk() of dmzap_handle_bio(): "User written sectors: 133464, GC written sectors: 0, vsm:"
_WRITTEN = re.compile(r"User written sectors: (\d+), GC written sectors: (\d+),")


@dataclass(frozen=True, slots=True)
class Written:
    """Bytes written since the target was made, by its user and by its garbage collector."""

    user: int
    gc: int


def arguments(device: Path, options: Mapping[str, Scalar]) -> str:
    """Return the arguments that follow ``zap`` in the table.

    Raises:
        ConfigError: a value is not a whole number, or upstream does not accept it.
    """
    return " ".join([str(device), *map(str, values(options))])


def values(options: Mapping[str, Scalar]) -> list[int]:
    """Return the numbers of the table in order; missing options have their defaults.

    Raises:
        ConfigError: as for :func:`arguments`.
    """
    table = {name: _value(name, options.get(name, default)) for name, default in DEFAULTS.items()}
    if table["class_0_cap"] < table["class_0_optimal"]:
        raise ConfigError(
            "class_0_optimal exceeds class_0_cap", hint="lower class_0_optimal", code="bad-option"
        )
    return list(table.values())


def _value(name: str, value: Scalar) -> int:
    limit = _LIMITS.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{name} must be a whole number, got {value!r}", code="bad-option")
    if value < 0 or (limit is not None and value > limit):
        raise ConfigError(
            f"{name} is out of range: {value}",
            hint=f"0 to {limit}" if limit else "0 or more",
            code="bad-option",
        )
    return value


def last_written(trace: Path) -> Written | None:
    """Return the newest counts in the kernel's trace, or None if there are none."""
    try:
        return parse_trace(trace.read_text(encoding="ascii", errors="replace"))
    except OSError:
        return None


def parse_trace(text: str) -> Written | None:
    """Parse the module's last line in a trace."""
    counts = _WRITTEN.findall(text)
    if not counts:
        return None
    user, gc = (int(sectors) * SECTOR for sectors in counts[-1])
    return Written(user, gc)


def clear(trace: Path) -> None:
    """Empty the trace, so that only lines of this target follow; no effect without tracing."""
    try:
        trace.write_text("")
    except OSError:
        return
