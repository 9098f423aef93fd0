"""kvmix: mixes of operations, measured by kind (harness/native/kvmix)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from harness.errors import ConfigError, ToolFailed
from harness.levels.level import DB_IN_URI, LevelUp
from harness.store import packed
from harness.store.spec import PhaseRole, PhaseSpec, Scalar
from harness.tools import db_bench, kvmix, rocksdb_stats
from harness.workloads import kvmix_contradictions
from harness.workloads.db_bench import STATISTICS, WRITE_AMPLIFICATION, missing
from harness.workloads.load_program import (
    EndedPhase,
    Invocation,
    NativeProgram,
    Parsed,
    ProgramReport,
    Rows,
)
from harness.workloads.planning import (
    Bounds,
    Cost,
    Database,
    DerivedPhase,
    PlannedPhase,
    ShareQuantity,
    StartGate,
    flag_number,
    refuse_flags,
)

_HEADER_BYTES = 4096  # at most, of a report's first line

OperationWeight = Annotated[float, Bounds(ge=0)]


@dataclass(frozen=True)
class OperationMix:
    """Operations of one invocation of kvmix: a weight for each kind, and the choice of keys.

    ``kvmix run --help`` explains the names and defaults. ``rate`` (operations per second of all
    threads) makes the loop open: each operation has an intended start.
    """

    insert: OperationWeight = 0
    update: OperationWeight = 0
    delete: OperationWeight = 0
    range_delete: OperationWeight = 0
    query: OperationWeight = 0
    scan: OperationWeight = 0
    absent_share: ShareQuantity = 0.0
    range_keys: Annotated[int, Bounds(gt=0, lt=2**31)] = 100
    distribution: Literal["uniform", "zipfian", "latest"] = "uniform"
    theta: Annotated[float, Bounds(gt=0, lt=1)] = 0.99
    gated: bool = False
    rate: Annotated[float, Bounds(gt=0)] | None = None
    arrivals: Literal["fixed", "poisson"] = "fixed"
    verify: bool = False

    def check(self) -> None:
        """Refuse a mix without operations (ConfigError)."""
        if not 0 < self.total < float("inf"):
            raise ConfigError("an operation mix needs an operation with a weight above 0")

    @property
    def total(self) -> float:
        """Sum of the weights."""
        reads = self.query + self.scan
        return self.insert + self.update + self.delete + self.range_delete + reads

    @property
    def growth(self) -> float:
        """Keys that an operation adds on average; negative if it removes keys."""
        removed = self.delete + self.range_delete * self.range_keys
        return (self.insert - removed) / self.total

    @property
    def only_inserts(self) -> bool:
        """Whether all operations insert, so that the number of keys is known in advance."""
        return self.insert == self.total

    @property
    def keeps_keys(self) -> bool:
        """Whether the set of keys does not change."""
        return not (self.insert or self.delete or self.range_delete)

    @property
    def flags(self) -> dict[str, Scalar]:
        """Kvmix's flags for all fields that differ from their default."""
        values = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        return {name: value for name, (value, default) in values.items() if value != default}

    def payload(self, key_size: int, value_size: int) -> float:
        """Return the mean user bytes of one operation; the keys of deletes count as well."""
        written = (self.insert + self.update) * (key_size + value_size)
        return (written + (self.delete + 2 * self.range_delete) * key_size) / self.total


class Kvmix(NativeProgram):
    """Our own generator of database operations."""

    name: ClassVar[str] = kvmix.PROGRAM
    field: ClassVar[str] = "operation_mix"
    work: ClassVar[Any] = OperationMix
    # Digests of recorded campaigns contain the field's original name.
    digest_field: ClassVar[str] = "mix"
    reserved: ClassVar[frozenset[str]] = frozenset(
        {
            "db",
            "fs_uri",
            "use_existing_db",
            "seed",
            "key_seed",
            "existing",
            "key_space",
            "operations",
            "duration",
            "report_file",
            "report_interval_seconds",
            "dry_run",
            "report_latency",
            "wait_for",
        }
    )
    # Operations, and RocksDB's default in bytes.
    rates: ClassVar[Mapping[str, float]] = {"rate": 0.0, "delayed_write_rate": 16 << 20}
    start_gate: ClassVar[StartGate | None] = StartGate(
        "wait_for", kvmix.READY, {"report_latency": True}
    )

    def report(self, up: LevelUp, csv: Path, stderr: Path) -> ProgramReport:  # noqa: ARG002
        """Return a file on the host's own disk, also with ``--fs_uri``."""
        return ProgramReport(csv, {"report_interval_seconds": 1, "report_file": str(csv)})

    def rows(self, report: Path) -> Rows:
        """Return seconds and operations, in all and of each kind; ToolFailed where damaged."""
        return list(kvmix.intervals(packed.text(report)))

    def columns(self, report: Path) -> str:
        """Return the header after its time; ToolFailed where the report is damaged."""
        return kvmix.columns(packed.text(report, _HEADER_BYTES).partition("\n")[0])

    def operations_in(self, line: str) -> int:
        """Return the operations of a line of the report."""
        return kvmix.operations_in(line)

    def contradictions(self, raw: Path, phase: EndedPhase, seed: int) -> Iterator[str]:  # noqa: ARG002
        """Compare the report with the summary."""
        yield from kvmix_contradictions.of_report(raw, phase)

    def argv(self, call: Invocation) -> list[str]:
        """Return the argument list; only the ``first`` phase makes the database."""
        up, asked = call.up, call.spec.flags
        own: dict[str, Scalar] = {} if up.fs_uri is None else {"fs_uri": up.fs_uri}
        own |= {
            "db": str(up.db) if up.db is not None else DB_IN_URI,
            "use_existing_db": not call.first,
            "seed": call.seed,
            "key_seed": call.key_seed,
            **call.report.flags,
        }
        refuse_flags(call.spec.name, asked, frozenset(own))
        rates = self.slowed(asked, up.dilation)
        flags = [db_bench.flag(name, value) for name, value in {**own, **asked, **rates}.items()]
        return [str(call.program), "run", *flags]

    def parse(self, phase: PhaseSpec, stdout: str, stderr: str) -> Parsed:  # noqa: ARG002
        """Read a phase's output. An unfinished mix has no summary and raises nothing.

        Raises:
            ToolFailed: the output is damaged, or requested statistics are missing.
        """
        summary = kvmix.parse(stdout)
        if summary is None:
            return Parsed(None, 0)
        if phase.flags.get(STATISTICS) and (lost := missing(summary.statistics)):
            raise ToolFailed(
                f"phase {phase.name}: kvmix's output is damaged: no {lost[0]}",
                hint="see the raw output of the phase",
                code="output-malformed",
            )
        return Parsed(
            summary=summary,
            summaries=1,
            histograms=dict(summary.service),
            statistics=summary.statistics,
            levels=rocksdb_stats.levels(summary.stats.splitlines()),
            user_bytes=summary.user_bytes,
            intended=dict(summary.intended),
            wrong_reads=summary.wrong + (summary.whole is False),
        )

    def check(self, phases: Sequence[PlannedPhase]) -> None:
        """Refuse a phase for which the existing keys would be unknown."""
        for phase in phases:
            timed = phase.duration is not None
            if phase.role is PhaseRole.FILL and (timed or not phase.work.only_inserts):
                raise ConfigError(
                    f"phase {phase.name} has the role fill, so it must insert a number of keys and "
                    "do nothing else"
                )
            if timed and (phase.work.insert or phase.work.gated):
                raise ConfigError(
                    f"phase {phase.name} needs a number of operations",
                    hint="operations: {count: N}; inserts and gated operations take no duration",
                )
        updated = ""
        for phase in phases:
            if updated and phase.work.verify:
                raise ConfigError(
                    f"phase {phase.name} verifies values that phase {updated} updates",
                    hint="omit verify, or move the phase before all updates: kvmix knows the "
                    "values of inserts and of its own updates",
                )
            updated = phase.name if phase.work.update else updated
        for before, after in itertools.pairwise(phases):
            if not (before.work.only_inserts or before.work.keeps_keys):
                raise ConfigError(
                    f"phase {after.name} follows {before.name}, which leaves unknown keys",
                    hint="put the phase that mixes inserts or deletes with other operations last",
                )

    def payload(self, work: Any, key_size: int, value_size: int) -> float:
        """Return the user bytes (U) of the average operation."""
        return float(work.payload(key_size, value_size))

    def growth(self, work: Any) -> float:
        """Return the keys that the mix adds or removes."""
        return float(work.growth)

    def derive(self, phases: Sequence[PlannedPhase], at: int, database: Database) -> DerivedPhase:
        """Return the flags; ``key_space`` and ``threads`` are the same in all phases."""
        phase = phases[at]
        own = {**database.flags, **phase.flags}
        refuse_flags(phase.name, own, self.reserved)
        unknown = sorted(own.keys() - kvmix.DATABASE_FLAGS - kvmix.MIX_FLAGS)
        if unknown:
            raise ConfigError(
                f"phase {phase.name} sets --{unknown[0]}, which is not a flag of kvmix",
                hint="kvmix run --help lists its flags",
                code="unknown-flag",
            )
        if "threads" in phase.flags:
            raise ConfigError(
                f"phase {phase.name} sets threads, which must be the same in all phases",
                hint="set threads in the workload's flags: each thread owns a part of the keys",
                code="flag-of-workload",
            )
        inserts = [(each.operations or 0) if each.work.insert else 0 for each in phases]
        threads = int(flag_number(own, "threads", 1, least=1))
        # Threads share the inserts of each phase. kvmix expects that they shared the sum.
        uneven = [
            each.name for each, n in zip(phases[:at], inserts[:at], strict=True) if n % threads
        ]
        if len(uneven) > 1:
            raise ConfigError(
                f"phase {phase.name} follows inserts that {threads} threads do not share equally: "
                f"phases {', '.join(uneven)}",
                hint="insert in one phase, or set operations: {count: N} with multiples of threads",
            )
        flags: dict[str, Scalar] = {
            **database.sizes,
            **own,
            **phase.work.flags,
            "existing": sum(inserts[:at]),
            "key_space": sum(inserts),
        }
        if phase.operations is None:
            flags["duration"] = phase.duration or 0
        else:
            flags["operations"] = phase.operations
        payload = round(phase.work.payload(database.key_size, database.value_size))
        return DerivedPhase("mix", flags, phase.operations, payload)

    def cost(self, work: Any) -> Cost:
        """Return the mean over the mix; a scan looks up its first key."""
        like = "fillrandom" if work.only_inserts else "overwrite"
        return Cost(
            entries=(work.insert + work.update) / work.total,
            tombstones=(work.delete + work.range_delete) / work.total,
            reads=(work.query + work.scan) / work.total,
            scanned=work.scan * work.range_keys / work.total,
            write_amplification=WRITE_AMPLIFICATION[like] if work.payload(1, 1) > 0 else 0.0,
            rate=work.rate,
        )

    def with_rate(self, work: Any, rate: float) -> Any | None:
        """Return the mix as an open loop."""
        return replace(work, rate=rate)
