"""Rules about what db_bench did and said."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.rules.facts import PhaseFacts, RunFacts
from harness.store.result import Issue, Severity
from harness.store.spec import Scalar
from harness.tools.db_bench import ASSERTIONS

# ENOSPC as strerror and RocksDB's Status put it.
_NO_SPACE = re.compile(r"no space left|out of space|NoSpace", re.IGNORECASE)
# db/db_impl/db_impl.cc: of --open_files ten are for other uses, the rest for the table cache.
_NOT_TABLES = 10
_TABLE_SIZE = "target_file_size_base"


def issue(
    code: str,
    severity: Severity,
    message: str,
    phase: PhaseFacts | None = None,
    *,
    expected: Scalar | None = None,
    actual: Scalar | None = None,
) -> Issue:
    """Build an issue."""
    return Issue(code, severity, message, phase.spec.name if phase else None, expected, actual)


def one_summary(run: RunFacts) -> Iterator[Issue]:
    """A finished benchmark prints exactly one summary line."""
    for phase in run.phases:
        if phase.parsed is None:
            text = phase.parse_error or "db_bench's output could not be read"
            yield issue("output-malformed", Severity.ERROR, text, phase)
        elif phase.parsed.skipped:
            continue  # has its own rule
        elif phase.parsed.summaries != 1 or phase.parsed.summary is None:
            yield issue(
                "summary-count",
                Severity.ERROR,
                f"{phase.spec.benchmark} printed {phase.parsed.summaries} summary lines, not one",
                phase,
                expected=1,
                actual=phase.parsed.summaries,
            )


def all_operations(run: RunFacts) -> Iterator[Issue]:
    """As many operations as were asked for."""
    for phase in run.phases:
        summary = phase.parsed.summary if phase.parsed else None
        wanted = phase.spec.operations
        if summary is None or wanted is None or summary.operations == wanted:
            continue
        yield issue(
            "operations-differ",
            Severity.ERROR,
            f"{phase.spec.name} did {summary.operations} of {wanted} operations",
            phase,
            expected=wanted,
            actual=summary.operations,
        )


def ended_well(run: RunFacts) -> Iterator[Issue]:
    """Exit status 0, no signal, in time, never stuck."""
    for phase in run.phases:
        if phase.ended_well:
            continue
        if phase.stalled:
            code, how = "phase-stalled", f"not one operation in {phase.spec.stall_seconds} s"
        elif phase.timed_out:
            code, how = "phase-timeout", f"killed after {phase.spec.timeout_seconds} s"
        elif phase.signal is not None:
            code, how = "exit-status", f"signal {phase.signal}"
        else:
            code, how = "exit-status", f"exit status {phase.exit_code}"
        yield issue(code, Severity.ERROR, f"{phase.spec.name} ended with {how}", phase, expected=0)


def not_skipped(run: RunFacts) -> Iterator[Issue]:
    """db_bench skips fill benchmarks on an existing database, and exits with 0."""
    for phase in run.phases:
        if phase.parsed is not None and phase.parsed.skipped:
            yield issue(
                "benchmark-skipped",
                Severity.ERROR,
                f"db_bench skipped {phase.spec.benchmark} (--use_existing_db)",
                phase,
            )


def reads_right(run: RunFacts) -> Iterator[Issue]:
    """What was read is what was written before; only kvmix looks."""
    for phase in run.phases:
        wrong = phase.parsed.wrong_reads if phase.parsed else None
        if wrong:
            text = f"{phase.spec.name}: {wrong} reads did not give what the database must hold"
            yield issue("data-wrong", Severity.ERROR, text, phase, expected=0, actual=wrong)


def space_left(run: RunFacts) -> Iterator[Issue]:
    """ENOSPC may end a phase early and still look like a result."""
    for phase in run.phases:
        if _NO_SPACE.search(phase.output) or _NO_SPACE.search(phase.database_log):
            yield issue(
                "no-space", Severity.ERROR, f"{phase.spec.name} ran out of space (ENOSPC)", phase
            )


def db_bench_warnings(run: RunFacts) -> Iterator[Issue]:
    """What db_bench itself warns of (compression, optimisation); assertions have their own rule."""
    seen = set()
    for phase in run.phases:
        for text in phase.parsed.warnings if phase.parsed else ():
            if text not in seen and ASSERTIONS not in text:
                seen.add(text)
                yield issue("db-bench-warning", Severity.INFO, text, phase)


def assertions(run: RunFacts) -> Iterator[Issue]:
    """Assertions slow db_bench down: fine for byte counts, not for published times."""
    if any(phase.parsed is not None and phase.parsed.assertions for phase in run.phases):
        yield issue(
            "assertions-enabled",
            Severity.INFO,
            "this db_bench has assertions on; publish times from a release build only",
        )


def open_files(run: RunFacts) -> Iterator[Issue]:
    """With fewer tables open than there are, reads become table opens: most of a reader's time."""
    stored = run.utilisation.database_bytes if run.utilisation else None
    for phase in run.phases:
        limit, size = (phase.spec.flags.get(flag) for flag in ("open_files", _TABLE_SIZE))
        if not (stored and isinstance(limit, int) and isinstance(size, int) and limit >= 0 < size):
            continue
        tables = -(-stored // size)
        if limit - _NOT_TABLES < tables:
            yield issue(
                "open-files-few",
                Severity.WARNING,
                f"the database has about {tables} tables, --open_files={limit} keeps "
                f"{max(limit - _NOT_TABLES, 0)} of them open",
                phase,
                expected=tables + _NOT_TABLES,
                actual=limit,
            )
            return
