"""Judges a stored run again: all rules on its raw files, and the status that follows.

Issues and status are computed again. With tenants, the slices of each tenant are not stored, so
issues of a single tenant are only held against the status.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.levels import LEVELS
from harness.levels.level import DirectIo
from harness.machine import code
from harness.rules import RULES, judge
from harness.rules.facts import PhaseFacts, RunFacts
from harness.store import differences as compared
from harness.store import packed
from harness.store.files import parse_json, to_record
from harness.store.ledger import Ledger
from harness.store.observed import NAME, Observed
from harness.store.result import Issue, Result, Severity, Status
from harness.store.spec import RunSpec
from harness.verify import kernel_log

# Codes whose inputs older runs do not store, as are the findings of the levels' checkers.
OBSERVED = frozenset(
    {
        "kernel-log-missing",
        "other-io",
        "clock-jump",
        "not-traced",
        "commands-lost",
        "closure-driver-commands",
    }
)


def load_observed(folder: Path) -> Observed | None:
    """Return what the runner observed; None for runs of before 2026-11-24."""
    path = folder / NAME
    if packed.find(path) is None:
        return None
    return to_record(Observed, parse_json(packed.text(path), path), path)


def differences(
    folder: Path,
    spec: RunSpec,
    result: Result,
    *,
    facts: Sequence[PhaseFacts] | None,
    ledger: Ledger | None,
) -> Iterator[str]:
    """Yield one line per issue that differs from the rules' own, and per wrong status.

    ``facts`` and ``ledger`` are those of a run without tenants; null if it ended before its cold
    data.
    """
    observed = load_observed(folder)
    issues = result.issues
    judged = spec.level in LEVELS and not spec.tenants
    worded = code.recorded(result.manifest) == code.runner()["source"]
    if judged and result.status is not Status.SKIPPED:
        checked = _checked(spec, observed)
        again = _again(folder, spec, result, facts or (), ledger)
        issues = tuple(issue for issue in again if issue.code in checked)
        yield from _issues(result.issues, issues, checked, worded=worded)
    if observed is not None and observed.together is not None:
        again = _of_mix(folder, spec, observed)
        checked = frozenset(observed.rules) - {issue.code for issue in observed.findings}
        issues = (*issues, *again)
        yield from _issues(_of_run(spec, result.issues), again, checked, worded=worded)
    if observed is not None:
        yield from _observed(folder, result, observed)
    log = packed.text(folder / kernel_log.FILE)
    yield from kernel_log.differences(log, LEVELS.get(spec.level), result)
    yield from _status(folder, spec, result, issues, observed)


def _again(
    folder: Path,
    spec: RunSpec,
    result: Result,
    facts: Sequence[PhaseFacts],
    ledger: Ledger | None,
) -> tuple[Issue, ...]:
    observed = load_observed(folder)
    level = LEVELS[spec.level]
    log = packed.text(folder / kernel_log.FILE)
    return judge(
        RunFacts(
            spec=spec,
            uses_zoned=level.uses_zoned,
            phases=tuple(facts),
            kernel_log=None if observed and observed.kernel_log_lines is None else log,
            utilisation=result.utilisation,
            idle_written=observed.idle_written if observed else {},
            clock_jump=observed.clock_jump if observed else 0.0,
            direct_io=_direct_io(result.manifest.get("level")),
            caveats=(*level.caveats(spec.device), *(observed.findings if observed else ())),
            buffers_conventional=level.buffers_conventional,
            ledger=ledger,
            untraced=observed.untraced if observed else None,
        )
    )


def _of_mix(folder: Path, spec: RunSpec, observed: Observed) -> tuple[Issue, ...]:
    """Judge a run with tenants as a whole, as the runner did before it judged each tenant."""
    log = packed.text(folder / kernel_log.FILE)
    again = judge(
        RunFacts(
            spec=spec,
            uses_zoned=False,
            phases=(),
            kernel_log=None if observed.kernel_log_lines is None else log,
            utilisation=None,
            idle_written=observed.idle_written,
            clock_jump=observed.clock_jump,
            untraced=observed.untraced,
            tenants=observed.together,
        )
    )
    found = {issue.code for issue in observed.findings}
    return tuple(issue for issue in again if issue.code not in found)


def _of_run(spec: RunSpec, issues: Sequence[Issue]) -> tuple[Issue, ...]:
    """Return the issues of a run as a whole; those of a tenant have its phase or its name."""
    names = tuple(f"{tenant.name}: " for tenant in spec.tenants)
    return tuple(one for one in issues if not one.phase and not one.message.startswith(names))


def _direct_io(manifest: Any) -> DirectIo | None:
    """Return what the manifest of the level has about direct I/O."""
    stored = manifest.get("direct_io") if isinstance(manifest, dict) else None
    if not isinstance(stored, dict) or "source" not in stored:
        return None
    effective = stored["effective"]
    return DirectIo(effective["reads"], effective["writes"], stored["source"])


def _checked(spec: RunSpec, observed: Observed | None) -> frozenset[str]:
    """Return the codes that can be judged again."""
    known = {info.code for rule in RULES for info in rule.issues}
    if observed is not None:
        return frozenset(known & set(observed.rules))
    level = LEVELS[spec.level]
    caveats = {issue.code for issue in level.caveats(spec.device)}
    found_by_checker = {info.code for info in level.issues} - caveats
    return frozenset(known) - OBSERVED - found_by_checker


def _issues(
    stored: tuple[Issue, ...], again: tuple[Issue, ...], checked: frozenset[str], *, worded: bool
) -> Iterator[str]:
    """Compare issues; their messages only if the same code worded them."""
    have = [issue for issue in stored if issue.code in checked]
    kept = [_facts(issue, worded=worded) for issue in have]
    given = [_facts(issue, worded=worded) for issue in again]
    for issue, facts in zip(again, given, strict=True):
        if facts not in kept:
            yield f"result.json lacks the issue {issue.code}: {issue.message}"
    for issue, facts in zip(have, kept, strict=True):
        if facts not in given:
            yield f"result.json has an issue that raw/ does not give, {issue.code}: {issue.message}"
    for name, count in Counter(facts.code for facts in kept if facts in given).items():
        if count > sum(issue.code == name for issue in again):
            yield f"result.json has the issue {name} more often than raw/ gives"
    known = {info.code for rule in RULES for info in rule.issues}
    for issue in stored:
        if issue.code not in known:
            yield f"result.json has an issue that no rule raises, {issue.code}: {issue.message}"


def _facts(issue: Issue, *, worded: bool) -> Issue:
    """Return an issue without its message, whose wording can change between releases."""
    return issue if worded else replace(issue, message="")


def _observed(folder: Path, result: Result, observed: Observed) -> Iterator[str]:
    lines = packed.text(folder / kernel_log.FILE).count("\n")
    if lines != (observed.kernel_log_lines or 0):
        yield f"{kernel_log.FILE}: has {lines} lines, {NAME} has {observed.kernel_log_lines}"
    for name, wanted in (observed.samples or {}).items():
        lines = packed.text(folder / "series" / name).count("\n")
        if lines != wanted:
            yield f"series/{name}: has {lines} lines, {NAME} has {wanted}"
    yield from compared.differences(
        "result.json: reason", result.reason, observed.reason, source=f"{NAME} has"
    )


def _status(
    folder: Path,
    spec: RunSpec,
    result: Result,
    issues: tuple[Issue, ...],
    observed: Observed | None,
) -> Iterator[str]:
    """The status follows from how the run ended and from its issues."""
    wrong = [issue for issue in (*issues, *result.issues) if issue.severity is Severity.ERROR]
    ended = observed.ended if observed else _ended(folder, spec, result)
    wanted = Status.INVALID if ended is Status.OK and wrong else ended
    if result.status is not wanted:
        why = f", for the issue {wrong[0].code}" if wanted is Status.INVALID else ""
        yield f"result.json: status: has {result.status.value}, raw/ gives {wanted.value}{why}"
    if (result.reason is None) != (wanted in (Status.OK, Status.INVALID)):
        yield (
            f"result.json: reason: has {result.reason and result.reason.code}, "
            f"which does not fit status {wanted.value}"
        )


def _ended(folder: Path, spec: RunSpec, result: Result) -> Status:
    """Return how a run without observed.json ended, as far as its files show."""
    done = [phase.name for phase in result.phases] == [phase.name for phase in spec.phases]
    well = all(phase.exit_code == 0 for phase in result.phases)
    crashed = (folder / "raw" / "traceback.txt").exists()
    if done and well and not crashed:
        return Status.OK
    if result.status in (Status.OK, Status.INVALID) and not spec.tenants:
        return Status.FAILED
    return result.status
