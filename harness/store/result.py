"""Records of ``result.json``. A number that was not measured is null, never 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from harness.metrics.catalogue import CATALOGUE
from harness.store.codec import SCHEMA_VERSION
from harness.store.spec import Device, PhaseSpec, Reason, RunSpec, Scalar

# What a result copies from the run as it was planned.
COPIED = (
    *("level", "cell", "repetition", "campaign", "study", "factors"),
    *("attempt", "block", "position", "seed", "device"),
)


class Status(StrEnum):
    """How a run ended. Only ``ok`` runs enter a comparison."""

    OK = "ok"
    INVALID = "invalid"
    FAILED = "failed"
    SKIPPED = "skipped"
    ABORTED = "aborted"


# A command that meets one of these ends with exit code 4.
BAD = frozenset({Status.INVALID, Status.FAILED})
# Runs that were measured to their end, and runs that ended in the middle.
MEASURED = frozenset({Status.OK, Status.INVALID})
CUT_SHORT = frozenset({Status.FAILED, Status.ABORTED})


class Severity(StrEnum):
    """Weight of an issue: ``error`` makes the run invalid, the others only inform."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Issue:
    """Something a reader must know before trusting the run."""

    code: str  # documented in docs/rules.md or docs/troubleshooting.md
    severity: Severity  # whether it makes the run invalid
    message: str  # one line
    phase: str | None = None  # phase it is about; null: the whole run
    expected: Scalar | None = None  # value that was required
    actual: Scalar | None = None  # value that was measured


@dataclass(frozen=True, slots=True)
class IssueInfo:
    """The documentation of an issue code: when the issue is raised, and why readers must know."""

    code: str
    severities: tuple[Severity, ...]
    fires: str
    why: str


@dataclass(frozen=True, slots=True)
class Metric:
    """One number. The last part of its key names its entry in ``harness.metrics.catalogue``."""

    value: int | float | None  # null: not measured
    unit: str  # B, B/s, ops/s, us, s, 1 …


def catalogued(values: Mapping[str, int | float | None], of: str = "") -> dict[str, Metric]:
    """Return values by catalogue name as metrics, which have the catalogue's units.

    Their keys begin with ``of``, the name of a phase or ``run``; '' leaves the names.
    """
    begin = f"{of}." if of else ""
    return {begin + name: Metric(value, CATALOGUE[name].unit) for name, value in values.items()}


@dataclass(frozen=True, slots=True)
class PhaseResult:
    """One invocation of a load program as it happened. Paths are relative to the run directory."""

    name: str  # as in the plan
    benchmark: str  # as in the plan
    role: str  # fill or measured
    argv: tuple[str, ...]  # command line that was executed
    started: str  # UTC, ISO 8601
    seconds: float  # wall-clock duration
    exit_code: int | None  # null: killed by a signal, or never ended
    signal: int | None  # number of the signal that ended it
    operations_requested: int | None  # null for time-limited phases
    operations_done: int | None  # null when the program reported none
    stdout: str  # file with its output
    stderr: str  # file with its messages
    histogram: str | None  # file with its latency histograms


@dataclass(frozen=True, slots=True)
class Utilisation:
    """Utilisation measured after the fill phases, before the measured ones (docs/methods.md)."""

    target: float  # wanted share of the capacity
    tolerance: float  # allowed difference from the target
    u_ns: float | None  # V / capacity of the namespace
    u_drive: float | None  # V / capacity of the whole drive
    live_bytes: int | None  # V: size of cold data and database files
    allocated_bytes: int | None  # A: zone bytes in use; null on a conventional device
    cold_bytes: int  # size of the cold data
    database_bytes: int | None  # size of the database files
    capacity_bytes: int  # capacity of the namespace
    max_utilisation: float | None  # free bytes of the fresh level / capacity


@dataclass(frozen=True, slots=True)
class Result:
    """``result.json``: what one run measured, and whether it is valid."""

    status: Status  # how it ended
    level: str  # integration level, or the mix of tenants
    cell: str  # slug of level and factors
    repetition: int  # from 1
    metrics: Mapping[str, Metric]  # by ``<phase>.<metric>`` or ``run.<metric>``
    issues: tuple[Issue, ...]  # what rules found
    reason: Reason | None  # why it failed or was skipped; null when it is ok
    campaign: str  # name of the campaign
    study: str  # name of the study
    run: str  # name of the run directory
    factors: Mapping[str, Scalar]  # as in run.json
    attempt: int  # as in run.json
    block: int  # as in run.json
    position: int  # as in run.json
    seed: int  # as in run.json
    device: Device  # device under test, as inspected when the run began
    started: str  # UTC, ISO 8601
    finished: str  # UTC, ISO 8601
    seconds: float  # wall-clock duration
    utilisation: Utilisation | None  # null when the run did not come that far
    phases: tuple[PhaseResult, ...]  # in the order of execution
    manifest: Mapping[str, Any] = field(default_factory=dict)  # the host's state during the run
    schema_version: int = SCHEMA_VERSION  # of this file

    def begun(self, planned: Sequence[PhaseSpec]) -> tuple[PhaseSpec, ...]:
        """Return the planned phases that the run began, in order."""
        names = {phase.name for phase in self.phases}
        return tuple(phase for phase in planned if phase.name in names)


def empty(
    spec: RunSpec,
    status: Status,
    *,
    started: str,
    finished: str,
    seconds: float,
    reason: Reason | None = None,
) -> Result:
    """Return a result that identifies the run and holds no measurement."""
    copied: dict[str, Any] = {name: getattr(spec, name) for name in COPIED}
    return Result(
        **copied,
        run=spec.run,
        status=status,
        reason=reason,
        metrics={},
        issues=(),
        started=started,
        finished=finished,
        seconds=seconds,
        utilisation=None,
        phases=(),
    )
