"""The list of rules. A new rule is one function and one line here."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from harness.rules import closures, devices, phases
from harness.rules.facts import RunFacts
from harness.store.result import Issue

Rule = Callable[[RunFacts], Iterator[Issue]]

RULES: tuple[Rule, ...] = (
    phases.ended_well,
    phases.one_summary,
    phases.not_skipped,
    phases.all_operations,
    phases.reads_right,
    phases.space_left,
    phases.db_bench_warnings,
    phases.assertions,
    phases.open_files,
    devices.kernel_log_readable,
    devices.io_errors,
    devices.zone_limits,
    devices.utilisation,
    devices.zoned_share,
    devices.gc_ran,
    devices.direct_io,
    devices.level_caveats,
    devices.clock,
    devices.other_io,
    closures.ledger,
)


def judge(run: RunFacts) -> tuple[Issue, ...]:
    """Return the issues of all rules, in the rules' order."""
    return tuple(issue for rule in RULES for issue in rule(run))
