"""A toy program in one file, as CONTRIBUTING describes it: two benchmarks of db_bench.

Tests copy it into a folder of programs; it is part of zonelab nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from harness.levels.level import LevelUp
from harness.store.spec import PhaseSpec, Scalar
from harness.tools import db_bench
from harness.workloads.load_program import LoadProgram, Parsed, Rows, text
from harness.workloads.planning import Cost, Database, DerivedPhase, Limits, PlannedPhase


@dataclass(frozen=True)
class ToyWork:
    """What a phase of the toy does."""

    does: Literal["fillrandom", "overwrite"]
    batch: Annotated[int, Limits(ge=1, le=8)] = 1


@dataclass(frozen=True, slots=True)
class Report:
    """db_bench's report."""

    path: Path
    columns: str = "operations"

    @property
    def flags(self) -> dict[str, Scalar]:
        """The flags that turn it on."""
        return {"report_interval_seconds": 1, "report_file": str(self.path)}

    def rows(self, text: str) -> Rows:
        """Return seconds and operations."""
        return [(float(second), str(count)) for second, count in db_bench.intervals(text)]


class Toy(LoadProgram):
    """db_bench by another name."""

    name: ClassVar[str] = "toy"
    field: ClassVar[str] = "toy"
    work: ClassVar[Any] = ToyWork
    reserved: ClassVar[frozenset[str]] = frozenset({"db", "seed"})

    def path(self, db_bench: Path) -> Path:
        """The same file."""
        return db_bench

    def report(self, up: LevelUp, csv: Path, stderr: Path) -> Report:
        """A file."""
        return Report(csv)

    def argv(self, spec: PhaseSpec, up: LevelUp, seed: int, **more: Any) -> list[str]:
        """Write the operation and the folder into the command line."""
        flags = {"benchmarks": f"{spec.benchmark},stats", "db": str(up.db), "seed": seed}
        return db_bench.argv(more["program"], flags | more["report"].flags)

    def parse(self, phase: PhaseSpec, stdout: str, stderr: str) -> Parsed:
        """One summary, and histograms."""
        output = db_bench.parse(stdout, stderr)
        return Parsed(
            output.summaries[0], 1, dict(output.histograms), (), skipped=False, assertions=False
        )

    def operations_in(self, line: str) -> int:
        """As in db_bench's report."""
        return db_bench.operations_in(line)

    def kept_rows(self, raw: Path, name: str) -> Rows:
        """The report's."""
        return Report(raw).rows(text(raw / f"{name}.report.csv"))

    def derive(self, phases: Sequence[PlannedPhase], at: int, database: Database) -> DerivedPhase:
        """Count operations in batches."""
        phase = phases[at]
        payload = database.key_size + database.value_size
        return DerivedPhase(phase.work.does, {"batch": phase.work.batch}, phase.operations, payload)

    def cost(self, work: Any) -> Cost:
        """One write."""
        return Cost(entries=1, write_amplification=3.0)
