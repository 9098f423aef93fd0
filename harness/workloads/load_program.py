"""The interface of a phase's program, and the metrics that all programs share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from harness.levels.level import LevelUp
from harness.metrics.catalogue import CATALOGUE
from harness.store import packed
from harness.store.result import Metric
from harness.store.spec import Device, PhaseSpec, Scalar
from harness.tools import db_bench, histogram, native
from harness.tools.histogram import Histogram
from harness.tools.rocksdb_stats import LevelRow, Statistics
from harness.workloads.planning import (
    BareWork,
    Cost,
    Database,
    DerivedPhase,
    PlannedPhase,
    StartGate,
    flag_number,
)

# Programs print tens of KiB; more is kept in raw/. Reports on stderr can be larger, and errors are
# at its end.
_OUTPUT_LIMIT, _ERRORS = 4 << 20, 64 << 10

# Seconds since the program began, and the other columns of a series as CSV.
Rows = list[tuple[float, str]]

# Metric name and quantile in 1/10,000.
_QUANTILES = (
    ("latency_p50", 5_000),
    ("latency_p99", 9_900),
    ("latency_p99_9", 9_990),
    ("latency_p99_99", 9_999),
)


class ProgramSummary(Protocol):
    """The program's own summary: ``operations`` done in ``seconds``."""

    @property
    def seconds(self) -> float: ...  # noqa: D102
    @property
    def operations(self) -> int: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class BareCounts:
    """Commands that a program sent to a bare device, by its own exact count; sizes in bytes."""

    written: int
    writes: int
    read: int
    reads: int
    resets: int


@dataclass(frozen=True, slots=True)
class Parsed:
    """A phase's parsed output. ``summary`` is null unless there is exactly one, of this benchmark.

    ``summaries`` counts all summary lines; ``histograms`` by operation (write, read, update, …);
    ``skipped``: db_bench refused to fill an existing database; ``assertions``: a debug build.
    ``statistics`` are null unless requested, ``levels`` if ``stats`` printed nothing.
    ``user_bytes`` is U if the program counts it. ``intended`` are histograms from the intended
    start of operations (open loops only). ``wrong_reads`` counts reads that returned wrong data;
    null if the program does not verify them. ``more`` are metrics of this program only, by their
    name without the phase. ``counts`` are set by programs that count their own commands.
    """

    summary: ProgramSummary | None
    summaries: int
    histograms: dict[str, Histogram] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    skipped: bool = False
    assertions: bool = False
    statistics: Statistics | None = None
    levels: tuple[LevelRow, ...] | None = None
    user_bytes: int | None = None
    intended: dict[str, Histogram] = field(default_factory=dict)
    wrong_reads: int | None = None
    more: Mapping[str, Metric] = field(default_factory=dict)
    counts: BareCounts | None = None

    @property
    def stored(self) -> dict[str, Histogram]:
        """Histograms by the name under which they are stored."""
        late = {f"{name}-intended": histogram for name, histogram in self.intended.items()}
        return {**self.histograms, **late}


class EndedPhase(Protocol):
    """A phase after its end: ``output`` is everything that the program printed."""

    @property
    def spec(self) -> PhaseSpec: ...  # noqa: D102
    @property
    def parsed(self) -> Parsed | None: ...  # noqa: D102
    @property
    def output(self) -> str: ...  # noqa: D102
    @property
    def seconds(self) -> float | None: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class ProgramReport:
    """The report of operations per second that a program writes while it runs.

    ``path`` is the file that grows line by line, ``flags`` are the program's that turn it on.
    """

    path: Path
    flags: Mapping[str, Scalar]


@dataclass(frozen=True, slots=True)
class Invocation:
    """What a program's argument list depends on; the ``first`` phase makes the database.

    ``seed`` is the phase's. ``key_seed`` is the same in all phases of a run, so that their keys are
    the same.
    """

    spec: PhaseSpec
    up: LevelUp
    seed: int
    first: bool
    program: Path
    report: ProgramReport
    key_seed: int = 0


class LoadProgram(ABC):
    """A program that runs phases: a concrete subclass in a module of this folder.

    The planner calls ``check``, ``payload``, ``growth``, ``derive``, ``cost`` and ``with_rate``
    with ``work``, the value of the program's field; the runner calls the other methods. For a
    program without a database it calls ``plan_bare`` instead.
    """

    name: ClassVar[str]  # PhaseSpec.program
    field: ClassVar[str]  # the field of a phase in a workload file that selects this program
    work: ClassVar[Any]  # type of that field: a Literal, or a frozen dataclass
    digest_field: ClassVar[str] = ""  # name of the field in study digests, if it differs
    reserved: ClassVar[frozenset[str]]  # flags that zonelab sets: workloads must not
    packages: ClassVar[tuple[str, ...]] = ()  # distribution packages
    uses_database: ClassVar[bool] = True
    # For programs without a database: the schema of their workload files, and the numbers of
    # ``work`` that a study can vary.
    file_schema: ClassVar[str] = ""
    factors: ClassVar[tuple[str, ...]] = ()
    start_gate: ClassVar[StartGate | None] = None  # how tenants start it together
    failure_code: ClassVar[str] = "load-failed"  # reason code of a failed fill
    seed_flag: ClassVar[str] = "seed"  # flag that takes the seed of a phase
    rates: ClassVar[Mapping[str, float]] = {}  # flags per second, with the program's own values

    @abstractmethod
    def path(self, db_bench: Path) -> Path:
        """Return the program's file; ``db_bench`` is the run's. HostError: it is missing."""

    def check_host(self) -> None:  # noqa: B027 - optional
        """Refuse a host that cannot run the program (HostError), if this is known before a run.

        By default nothing is checked, because playbooks install zonelab's own programs later.
        """

    @abstractmethod
    def report(self, up: LevelUp, csv: Path, stderr: Path) -> ProgramReport:
        """Return where the program will report: in one of these files."""

    def slowed(self, flags: Mapping[str, Scalar], dilation: int) -> dict[str, Scalar]:
        """Return the rate flags on the clock of a drive that is slowed down; none at 1.

        A second of the drive takes ``dilation`` seconds of the program. Whole numbers stay whole,
        and a rate of 0 (no limit) stays 0.

        Raises:
            ConfigError: a rate is not a number.
        """
        if dilation == 1:
            return {}
        found: dict[str, Scalar] = {}
        for name, usual in self.rates.items():
            rate = flag_number(flags, name, usual) / dilation
            if rate:
                found[name] = max(1, int(rate)) if isinstance(usual, int) else rate
        return found

    @abstractmethod
    def argv(self, call: Invocation) -> list[str]:
        """Return the argument list.

        Raises:
            ConfigError: the workload sets a reserved flag, or the level does not suit the program.
        """

    def failure(self, signal: int | None, output: str) -> str:  # noqa: ARG002
        """Return the reason code of a failed phase, from its signal and its output.

        A phase that hung or ran too long has other codes.
        """
        return self.failure_code

    @abstractmethod
    def parse(self, phase: PhaseSpec, stdout: str, stderr: str) -> Parsed:
        """Read a phase's output. An unfinished phase has no summary and raises nothing.

        Raises:
            ToolFailed: the output is damaged, or requested statistics are missing.
        """

    @abstractmethod
    def operations_in(self, line: str) -> int:
        """Return the operations of a complete line of the report, 0 for other lines."""

    def is_closing(self, spec: PhaseSpec, stdout: str) -> bool:  # noqa: ARG002
        """Return whether the output so far shows that a phase's last operation has ended."""
        return False

    @abstractmethod
    def rows(self, report: Path) -> Rows:
        """Return the rows of a report; ToolFailed: it is missing or damaged."""

    def columns(self, report: Path) -> str:  # noqa: ARG002
        """Return the names of a report's columns after the time; the first is ``operations``."""
        return "operations"

    def kept_rows(self, raw: Path, name: str) -> Rows:
        """Return the rows of a finished phase's report; raises as ``rows`` does."""
        return self.rows(raw / f"{name}.report.csv")

    def flag(self, name: str, value: Scalar) -> str:
        """Return the argument that sets a flag of a phase."""
        return db_bench.flag(name, value)

    def given(self, argv: Sequence[str]) -> dict[str, str]:
        """Return the arguments of a command line by the name of their flag."""
        return {one.partition("=")[0].removeprefix("--"): one for one in argv}

    def contradictions(
        self,
        raw: Path,  # noqa: ARG002
        phase: EndedPhase,  # noqa: ARG002
        seed: int,  # noqa: ARG002
    ) -> Iterator[str]:
        """Yield one line per number in the raw output that contradicts another number in it.

        The lines begin with the file's name below the run's folder.
        """
        yield from ()

    def check(self, phases: Sequence[PlannedPhase]) -> None:  # noqa: B027
        """Refuse phases of a workload that do not fit together (ConfigError)."""

    def payload(self, work: Any, key_size: int, value_size: int) -> float:  # noqa: ARG002
        """Return an operation's mean user bytes, for phases whose length depends on free space."""
        return float(key_size + value_size)

    def growth(self, work: Any) -> float:  # noqa: ARG002
        """Return the keys that an operation adds on average; negative if it removes keys."""
        return 0.0

    def derive(self, phases: Sequence[PlannedPhase], at: int, database: Database) -> DerivedPhase:
        """Return the flags of phase ``at`` of a workload.

        Raises:
            ConfigError: a flag is reserved, unknown or out of range, or the phase is impossible.
        """
        raise NotImplementedError

    def cost(self, work: Any) -> Cost:
        """Return the cost of the average operation."""
        raise NotImplementedError

    def plan_bare(self, work: Any, device: Device) -> BareWork:
        """Return the phases of a workload without a database.

        Raises:
            ConfigError: the device does not suit the work.
        """
        raise NotImplementedError

    def ordered(self, phases: Sequence[PhaseSpec], seed: int) -> tuple[PhaseSpec, ...]:  # noqa: ARG002
        """Return the phases of a run in their order; ``seed`` is its block's."""
        return tuple(phases)

    def with_rate(self, work: Any, rate: float) -> Any | None:  # noqa: ARG002
        """Return the work as an open loop with this rate per second; None if there is none."""
        return None


class NativeProgram(LoadProgram):
    """A program of harness/native."""

    def path(self, db_bench: Path) -> Path:  # noqa: ARG002
        """Return the installed program; HostError: it is not installed."""
        return native.program(self.name)


def user_bytes(phase: PhaseSpec, parsed: Parsed | None) -> int | None:
    """Return U of a phase in bytes, null when it did not finish."""
    if parsed is None or parsed.summary is None:
        return None
    if parsed.user_bytes is not None:
        return parsed.user_bytes
    return parsed.summary.operations * phase.user_bytes_per_operation


def metrics(phase: PhaseSpec, parsed: Parsed) -> dict[str, Metric]:
    """Return the phase's metrics by catalogue name; null if the output lacks them.

    Latencies cover all operations of the phase; the run also stores a histogram per operation.
    """
    summary = parsed.summary
    seconds = summary.seconds if summary else None
    done = summary.operations if summary else None
    values: dict[str, int | float | None] = {
        # db_bench truncates ops/sec to an integer, which is inexact for slow phases; a quotient is
        # exact.
        "throughput": done / seconds if done is not None and seconds else None,
        "seconds": seconds,
        "operations": done,
        "user_bytes": user_bytes(phase, parsed),
    }
    values.update(_latencies(parsed.histograms.values() if summary else ()))
    if parsed.intended:
        late = _latencies(parsed.intended.values() if summary else ())
        values.update({f"intended_{name}": value for name, value in late.items()})
    known = {name: Metric(value, CATALOGUE[name].unit) for name, value in values.items()}
    return known | dict(parsed.more)


def text(path: Path) -> str:
    """Return the first 4 MiB of a program's stdout; '' without output."""
    return packed.text(path, _OUTPUT_LIMIT)


def messages(path: Path) -> str:
    """Return the first 4 MiB and the last 64 KiB of a program's stderr; '' without output."""
    return packed.text(path, _OUTPUT_LIMIT, _ERRORS)


def _latencies(histograms: Iterable[Histogram]) -> dict[str, int | float | None]:
    merged = histogram.merge(histograms)
    return {
        "latency_mean": histogram.mean(merged) if merged else None,
        **{name: histogram.quantile(merged, q) if merged else None for name, q in _QUANTILES},
        "latency_max": merged["max"] if merged else None,
    }
