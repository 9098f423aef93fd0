"""The planner's view of a program: its field of a phase, its flags and its cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any

from harness.errors import ConfigError
from harness.quantities import LARGEST
from harness.store.spec import PhaseRole, Scalar


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of a value in a program's field, as in ``Annotated[int, Bounds(gt=0)]``."""

    gt: float | None = None
    ge: float | None = None
    lt: float | None = None
    le: float | None = None
    min_length: int | None = None


class Quantity(Enum):
    """A number that a file may give with a unit."""

    SIZE = "size"
    SHARE = "share"


SizeQuantity = Annotated[int, Quantity.SIZE]
ShareQuantity = Annotated[float, Quantity.SHARE]


@dataclass(frozen=True, slots=True)
class PlannedPhase:
    """A phase as its workload file describes it; ``work`` is the value of the program's field.

    ``operations`` is null if the time (``duration`` in seconds) limits the phase.
    """

    name: str
    role: PhaseRole
    work: Any
    flags: Mapping[str, Scalar]
    operations: int | None = None
    duration: int | None = None


@dataclass(frozen=True, slots=True)
class Database:
    """The database of a workload: sizes in bytes; ``flags`` are the workload's own.

    ``sizes`` are flags that follow from the device; the workload's own flags replace them.
    """

    keys: int
    key_size: int
    value_size: int
    sizes: Mapping[str, Scalar]
    flags: Mapping[str, Scalar]


@dataclass(frozen=True, slots=True)
class DerivedPhase:
    """The flags that the runner passes to the program for a phase, and their numbers."""

    benchmark: str
    flags: dict[str, Scalar]
    operations: int | None
    user_bytes_per_operation: int


# Numbers that follow from the device, by name, each with the formula for the user.
DerivedNumbers = Mapping[str, tuple[int, str]]


@dataclass(frozen=True, slots=True)
class BarePhase:
    """A phase of a workload without a database, sized for a device.

    ``command_seconds`` is the time of all commands other than writes. ``synchronous_writes`` counts
    the writes that wait for the previous one. ``most_seconds`` is the program's own time limit.
    ``stall_seconds`` is as in ``PhaseSpec``.
    """

    name: str
    derived: DerivedPhase
    written_bytes: int
    synchronous_writes: int
    command_seconds: float
    most_seconds: float | None = None
    stall_seconds: int = 600


@dataclass(frozen=True, slots=True)
class BareWork:
    """The phases of a workload without a database, in order; ``numbers`` describe the cell."""

    numbers: DerivedNumbers
    phases: tuple[BarePhase, ...]


@dataclass(frozen=True, slots=True)
class Cost:
    """The average operation, for predictions of time and bytes.

    ``entries`` and ``tombstones`` are writes, ``reads`` look up a key, ``scanned`` keys are read in
    order. ``write_amplification`` is file bytes (WAL, flush, compaction) per user byte. ``rate``
    is the number of operations per second of an open loop.
    """

    entries: float = 0.0
    tombstones: float = 0.0
    reads: float = 0.0
    scanned: float = 0.0
    write_amplification: float = 0.0
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class StartGate:
    """How tenants start together: with its database open, each program waits for a file.

    ``flag`` takes the file's path; the program prints ``ready`` on stderr while it waits.
    ``measured_flags`` are set for the measured phase of a tenant.
    """

    flag: str
    ready: str
    measured_flags: Mapping[str, Scalar] = field(default_factory=dict)


def flag_number(flags: Mapping[str, Scalar], name: str, default: float, *, least: int = 0) -> float:
    """Return a flag's value, or the default if the flag is not set.

    Raises:
        ConfigError: the value is not a number, or less than ``least``.
    """
    value = flags.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(
            f"flag {name} must be a number, got {value!r}",
            hint="write sizes in flags as plain bytes",
            code="flag-type",
        )
    if not least <= value < LARGEST:
        raise ConfigError(
            f"flag {name} is out of range: {str(value)[:40]}",
            hint=f"at least {least}, less than 2**63",
            code="flag-range",
        )
    return float(value)


def refuse_flags(phase: str, flags: Mapping[str, Scalar], reserved: frozenset[str]) -> None:
    """Refuse flags that zonelab sets itself.

    Raises:
        ConfigError: there is one.
    """
    taken = sorted(reserved & flags.keys())
    if taken:
        raise ConfigError(
            f"phase {phase} sets --{taken[0]}, which zonelab sets itself",
            hint=f"remove {', '.join(taken)} from the workload's flags",
            code="reserved-flag",
        )
