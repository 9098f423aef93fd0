"""Rules about what a phase's program did and printed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.rules.facts import RunFacts
from harness.rules.rule import error, info, issue, rule, warning
from harness.store.result import Issue
from harness.tools import fio
from harness.tools.db_bench import ASSERTIONS

# ENOSPC as strerror and RocksDB's Status put it.
_NO_SPACE = re.compile(r"no space left|out of space|NoSpace", re.IGNORECASE)
# db/db_impl/db_impl.cc: ten of --open_files are for other uses, the rest for the table cache.
_NOT_TABLES = 10
_TABLE_SIZE = "target_file_size_base"


@rule(
    error(
        "exit-status",
        "the phase's program ended with a status other than 0, or by a signal",
        "published results have come from crashed runs",
    ),
    error("phase-timeout", "the phase's program ran into its time limit", "the phase is cut off"),
    error(
        "phase-stalled",
        "no operation finished in `stall_timeout`",
        "the program hung; its rate describes the time before",
    ),
)
def ended_well(run: RunFacts) -> Iterator[Issue]:
    """The program exits by itself with status 0, in time, and never hangs."""
    for phase in run.phases:
        if phase.ended_well:
            continue
        if phase.stalled:
            code, how = "phase-stalled", f"no operation finished in {phase.spec.stall_seconds} s"
        elif phase.timed_out:
            code, how = "phase-timeout", f"killed after {phase.spec.timeout_seconds} s"
        elif phase.signal is not None:
            code, how = "exit-status", f"ended by signal {phase.signal}"
        else:
            code, how = "exit-status", f"ended with exit status {phase.exit_code}"
        yield issue(code, f"{phase.spec.name}: {how}", phase, expected=0)


@rule(
    error(
        "output-malformed",
        "the program's output or RocksDB's LOG cannot be parsed",
        "zonelab does not guess missing numbers",
    ),
    error(
        "summary-count",
        "the output has no summary line for the benchmark, or more than one",
        "a finished benchmark prints one; anything else is a crash or another benchmark",
    ),
)
def one_summary(run: RunFacts) -> Iterator[Issue]:
    """A finished benchmark prints exactly one summary line."""
    for phase in run.phases:
        if phase.parse_code in fio.FAULTS:
            continue  # fio.understood reports it
        if phase.parsed is None:
            text = phase.parse_error or f"the output of {phase.spec.name} could not be parsed"
            yield issue("output-malformed", text, phase)
        elif phase.parsed.skipped:
            continue  # not_skipped reports it
        elif phase.parsed.summaries != 1 or phase.parsed.summary is None:
            yield issue(
                "summary-count",
                f"{phase.spec.benchmark} printed {phase.parsed.summaries} summary lines, not one",
                phase,
                expected=1,
                actual=phase.parsed.summaries,
            )


@rule(
    error(
        "benchmark-skipped",
        "the output has `skipped (--use_existing_db)`",
        "db_bench skips fills on an existing database, and exits with 0",
    )
)
def not_skipped(run: RunFacts) -> Iterator[Issue]:
    """Every benchmark runs; db_bench skips fills on an existing database."""
    for phase in run.phases:
        if phase.parsed is not None and phase.parsed.skipped:
            yield issue(
                "benchmark-skipped",
                f"db_bench skipped {phase.spec.benchmark} (--use_existing_db)",
                phase,
            )


@rule(
    error(
        "operations-differ",
        "the summary's number of operations differs from the requested number",
        "a phase that was cut short measured another database",
    )
)
def all_operations(run: RunFacts) -> Iterator[Issue]:
    """The program does the requested number of operations."""
    for phase in run.phases:
        summary = phase.parsed.summary if phase.parsed else None
        wanted = phase.spec.operations
        if summary is None or wanted is None or summary.operations == wanted:
            continue
        yield issue(
            "operations-differ",
            f"{phase.spec.name} did {summary.operations} of {wanted} operations",
            phase,
            expected=wanted,
            actual=summary.operations,
        )


@rule(
    error(
        "data-wrong",
        "a read returned a value that differs from the last write",
        "the level or RocksDB lost data; the run's numbers are worthless",
    )
)
def reads_right(run: RunFacts) -> Iterator[Issue]:
    """Reads return the values that were written, where the program verifies them."""
    for phase in run.phases:
        wrong = phase.parsed.wrong_reads if phase.parsed else None
        if wrong:
            text = f"{phase.spec.name}: {wrong} reads returned wrong data"
            yield issue("data-wrong", text, phase, expected=0, actual=wrong)


@rule(
    error(
        "no-space",
        "ENOSPC in the program's output or RocksDB's LOG",
        "it ends a phase early, and the output may still look complete",
    )
)
def space_left(run: RunFacts) -> Iterator[Issue]:
    """No phase runs out of space."""
    for phase in run.phases:
        if _NO_SPACE.search(phase.output) or _NO_SPACE.search(phase.database_log):
            text = f"{phase.spec.name} ran out of space (ENOSPC)"
            yield issue("no-space", text, phase)


@rule(
    info(
        "db-bench-warning",
        "db_bench warns about its build or its setup",
        "the warning may explain a slow run",
    )
)
def db_bench_warnings(run: RunFacts) -> Iterator[Issue]:
    """Report each warning of db_bench once, except the one that ``assertions`` reports."""
    seen = set()
    for phase in run.phases:
        for text in phase.parsed.warnings if phase.parsed else ():
            if text not in seen and ASSERTIONS not in text:
                seen.add(text)
                yield issue("db-bench-warning", text, phase)


@rule(
    info(
        "assertions-enabled",
        "db_bench reports that assertions are enabled",
        "bytes and counts are right; publish times from a release build only",
    )
)
def assertions(run: RunFacts) -> Iterator[Issue]:
    """Assertions slow db_bench down."""
    if any(phase.parsed is not None and phase.parsed.assertions for phase in run.phases):
        yield issue(
            "assertions-enabled",
            "this db_bench has assertions enabled; publish times from a release build only",
        )


@rule(
    warning(
        "open-files-few",
        "the database has more tables than `--open_files` keeps open",
        "reads open tables again: 79 % of the time in a published study",
    )
)
def open_files(run: RunFacts) -> Iterator[Issue]:
    """The table cache holds every table of the database."""
    stored = run.utilisation.database_bytes if run.utilisation else None
    for phase in run.phases:
        limit, size = (phase.spec.flags.get(flag) for flag in ("open_files", _TABLE_SIZE))
        if not (stored and isinstance(limit, int) and isinstance(size, int) and limit >= 0 < size):
            continue
        tables = -(-stored // size)
        if limit - _NOT_TABLES < tables:
            yield issue(
                "open-files-few",
                f"the database has about {tables} tables; --open_files={limit} keeps "
                f"{max(limit - _NOT_TABLES, 0)} of them open",
                phase,
                expected=tables + _NOT_TABLES,
                actual=limit,
            )
            return
