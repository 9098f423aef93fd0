"""A phase that kvmix runs: a mix of operations, each kind measured (harness/native/kvmix)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.errors import ConfigError, ToolFailed
from harness.levels.base import DB_IN_URI, LevelUp
from harness.store.spec import PhaseSpec, Scalar
from harness.tools import db_bench, kvmix, native, rocksdb_stats
from harness.tools.kvmix import operations_in
from harness.workloads import base
from harness.workloads.base import Parsed, Rows, missing, text
from harness.workloads.db_bench import STATISTICS, TABLE_OPEN, TICKERS

__all__ = [
    "RESERVED", "Report", "argv", "kept_rows", "operations_in", "parse", "path", "report",
]  # fmt: skip

# Set by the runner or the planner for every phase, so a workload may not set them.
RESERVED = frozenset(
    {
        "db", "fs_uri", "use_existing_db", "seed", "key_seed", "existing", "key_space",
        "operations", "duration", "report_file", "report_interval_seconds", "dry_run",
        "report_latency", "wait_for",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Report:
    """kvmix writes its report past ``--fs_uri``: a file on the machine's own disk, everywhere."""

    csv: Path

    @property
    def path(self) -> Path:
        """The file that grows line by line."""
        return self.csv

    @property
    def flags(self) -> dict[str, Scalar]:
        """What kvmix has to be told."""
        return {"report_interval_seconds": 1, "report_file": str(self.csv)}

    @property
    def columns(self) -> str:
        """The header of the series, behind its time; ToolFailed where the report is damaged."""
        return kvmix.columns(text(self.csv).partition("\n")[0])

    def rows(self, csv: str) -> Rows:
        """Return seconds and operations, of all kinds and of each; ToolFailed where damaged."""
        return list(kvmix.intervals(csv))


def path(db_bench: Path) -> Path:  # noqa: ARG001 - kvmix is a program of its own
    """Return kvmix; HostError: it is not installed."""
    return native.program(kvmix.PROGRAM)


def report(up: LevelUp, csv: Path, stderr: Path) -> Report:  # noqa: ARG001 - the same everywhere
    """Return where kvmix will report."""
    return Report(csv)


def kept_rows(raw: Path, name: str) -> Rows:
    """Return the rows of the report that a phase left; ToolFailed: it is damaged or missing."""
    return Report(raw).rows(text(raw / f"{name}.report.csv"))


def argv(
    spec: PhaseSpec,
    up: LevelUp,
    seed: int,
    *,
    first: bool,
    program: Path,
    report: base.Report,
    key_seed: int = 0,
) -> list[str]:
    """Return the argument list; only the ``first`` phase makes the database.

    ``key_seed`` is the same in all phases of a run, which thereby mean the same keys.

    Raises:
        ConfigError: the workload sets a flag that belongs to the runner.
    """
    own: dict[str, Scalar] = {} if up.fs_uri is None else {"fs_uri": up.fs_uri}
    own |= {
        "db": str(up.db) if up.db is not None else DB_IN_URI,
        "use_existing_db": not first,
        "seed": seed,
        "key_seed": key_seed,
        **report.flags,
    }
    taken = sorted(set(own) & set(spec.flags))
    if taken:
        raise ConfigError(
            f"phase {spec.name} sets --{taken[0]}, which zonelab sets itself",
            hint="remove it from the workload's flags",
            code="reserved-flag",
        )
    flags = [db_bench.flag(name, value) for name, value in {**own, **spec.flags}.items()]
    return [str(program), "run", *flags]


def parse(phase: PhaseSpec, stdout: str, stderr: str) -> Parsed:  # noqa: ARG001 - as of db_bench
    """Read a phase's output. An unfinished mix has no summary and raises nothing.

    Raises:
        ToolFailed: it is damaged, or statistics were asked for and one that is needed is missing.
    """
    summary = kvmix.parse(stdout)
    if summary is None:
        return Parsed(None, 0, {}, (), skipped=False, assertions=False)
    if phase.flags.get(STATISTICS):
        lost = missing(summary.statistics, TICKERS, (TABLE_OPEN,))
        if lost:
            raise ToolFailed(
                f"phase {phase.name}: kvmix's output is damaged: no {lost[0]}",
                hint="see the raw output of the phase",
                code="output-malformed",
            )
    return Parsed(
        summary=summary,
        summaries=1,
        histograms=dict(summary.service),
        warnings=(),
        skipped=False,
        assertions=False,
        statistics=summary.statistics,
        levels=rocksdb_stats.levels(summary.stats.splitlines()),
        user_bytes=summary.user_bytes,
        intended=dict(summary.intended),
        wrong_reads=summary.wrong + (summary.whole is False),
    )
