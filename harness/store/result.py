"""What a run proves: ``result.json``. A number that was not measured is null, never 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from harness.store.codec import SCHEMA_VERSION
from harness.store.spec import Device, PhaseSpec, Reason, Scalar


class Status(StrEnum):
    """How a run ended. Only ``ok`` runs enter a comparison."""

    OK = "ok"
    INVALID = "invalid"
    FAILED = "failed"
    SKIPPED = "skipped"
    ABORTED = "aborted"


class Severity(StrEnum):
    """``error`` makes the run invalid; ``warning`` and ``info`` travel with it."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Issue:
    """Something a reader must know before trusting the run."""

    code: str
    severity: Severity
    message: str
    phase: str | None = None
    expected: Scalar | None = None
    actual: Scalar | None = None


@dataclass(frozen=True, slots=True)
class Metric:
    """One number. ``harness.metrics`` has its kind and direction, keyed by the last name part."""

    value: int | float | None
    unit: str


@dataclass(frozen=True, slots=True)
class PhaseResult:
    """One db_bench invocation as it happened. Paths are relative to the run directory."""

    name: str
    benchmark: str
    role: str
    argv: tuple[str, ...]
    started: str
    seconds: float
    exit_code: int | None
    signal: int | None
    operations_requested: int | None
    operations_done: int | None
    stdout: str
    stderr: str
    histogram: str | None


@dataclass(frozen=True, slots=True)
class Utilisation:
    """Measured after the fill phases and before the measured ones (docs/methods.md).

    ``live_bytes`` (V) is the size of cold data and database files; ``allocated_bytes`` (A) the
    zone bytes behind them (full zone: capacity; else write pointer minus start), null where the
    device is conventional. ``u_ns`` = V / capacity of the namespace; ``u_drive`` = V / capacity
    of the drive.
    """

    target: float
    tolerance: float
    u_ns: float | None
    u_drive: float | None
    live_bytes: int | None
    allocated_bytes: int | None
    cold_bytes: int
    database_bytes: int | None
    capacity_bytes: int
    max_utilisation: float | None


@dataclass(frozen=True, slots=True)
class Result:
    """``result.json``. ``metrics`` keys are ``<phase>.<metric>`` or ``run.<metric>``."""

    status: Status
    level: str
    cell: str
    repetition: int
    metrics: Mapping[str, Metric]
    issues: tuple[Issue, ...]
    reason: Reason | None
    campaign: str
    study: str
    run: str
    factors: Mapping[str, Scalar]
    attempt: int
    block: int
    position: int
    seed: int
    device: Device
    started: str
    finished: str
    seconds: float
    utilisation: Utilisation | None
    phases: tuple[PhaseResult, ...]
    manifest: Mapping[str, Any] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION

    def begun(self, planned: Sequence[PhaseSpec]) -> tuple[PhaseSpec, ...]:
        """Return those of the planned phases that the run came to, in their order."""
        names = {phase.name for phase in self.phases}
        return tuple(phase for phase in planned if phase.name in names)
