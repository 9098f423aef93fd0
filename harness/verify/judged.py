"""Judges a stored run again: all rules on its raw files, and the status that follows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.levels import LEVELS
from harness.levels.level import DirectIo
from harness.machine import code
from harness.rules import RULES
from harness.rules.facts import RunFacts
from harness.run import judging
from harness.run.judging import JudgedTenant
from harness.store import checksums, packed
from harness.store import differences as compared
from harness.store.files import parse_json, to_record
from harness.store.observed import NAME, ObservedRun
from harness.store.result import Issue, Result, Severity, Status
from harness.store.spec import RunSpec
from harness.verify import kernel_log

# Codes whose inputs older runs do not store, such as the findings of the levels' checkers.
OBSERVED = frozenset(
    {
        "kernel-log-missing",
        "clock-jump",
        "not-traced",
        "commands-lost",
        "closure-driver-commands",
    }
)

# Only older releases measured although another program wrote to a device.
_OTHER_IO = "other-io"


def load_observed(folder: Path) -> ObservedRun | None:
    """Return what the runner observed; None for runs from before 2026-11-24."""
    path = folder / NAME
    if packed.find(path) is None:
        return None
    return to_record(ObservedRun, parse_json(packed.text(path), path), path)


def differences(
    folder: Path, spec: RunSpec, result: Result, tenants: Sequence[JudgedTenant]
) -> Iterator[str]:
    """Yield one line per issue that differs from the rules' result, and per wrong status.

    ``tenants`` is empty if the inputs of the rules are not stored.
    """
    observed = load_observed(folder)
    issues = result.issues
    worded = code.recorded(result.manifest) == code.runner()["source"]
    if tenants and result.status is not Status.SKIPPED:
        checked = _checked(spec, observed)
        again = judging.issues(_facts(folder, spec, tenants, observed), tenants)
        issues = tuple(issue for issue in again if issue.code in checked)
        yield from _issues(spec, result.issues, issues, checked, worded=worded)
    elif observed is not None and observed.together is not None:
        # Older runs did not store the rules' inputs by tenant.
        again = judging.issues(_facts(folder, spec, (), observed), ())
        checked = frozenset(observed.rules) - {issue.code for issue in observed.findings}
        again = tuple(issue for issue in again if issue.code in checked)
        issues = (*issues, *again)
        yield from _issues(spec, _of_run(spec, result.issues), again, checked, worded=worded)
    if observed is not None:
        yield from _rules(result, observed, worded=worded)
        yield from _observed(folder, result, observed)
    log = packed.text(folder / kernel_log.FILE)
    yield from kernel_log.differences(log, LEVELS.get(spec.level), result)
    yield from _status(folder, spec, result, issues, observed)


def _facts(
    folder: Path, spec: RunSpec, tenants: Sequence[JudgedTenant], observed: ObservedRun | None
) -> RunFacts:
    """Return the facts of the run as a whole, as the runner had them."""
    log: str | None = packed.text(folder / kernel_log.FILE)
    if observed is not None and observed.kernel_log_lines is None:
        log = None
    findings = observed.findings if observed is not None else ()
    # The tenants' issues come first; a plain run has only issues of its tenant.
    own = sum(len(tenant.observed.findings) for tenant in tenants)
    return RunFacts(
        spec=spec,
        uses_zoned=False,
        phases=(),
        kernel_log=log,
        utilisation=None,
        clock_jump=observed.clock_jump if observed else 0.0,
        caveats=findings[own:],
        untraced=observed.untraced if observed else None,
        tenants=observed.together if observed else None,
    )


def _of_run(spec: RunSpec, issues: Sequence[Issue]) -> tuple[Issue, ...]:
    """Return the issues of a run as a whole; a tenant's issue has its phase or its name."""
    names = tuple(f"{tenant.name}: " for tenant in spec.tenants)
    return tuple(one for one in issues if not one.phase and not one.message.startswith(names))


def direct_io(manifest: Any) -> DirectIo | None:
    """Return the record about direct I/O in the level's manifest."""
    stored = manifest.get("direct_io") if isinstance(manifest, dict) else None
    if not isinstance(stored, dict) or "source" not in stored:
        return None
    effective = stored["effective"]
    return DirectIo(effective["reads"], effective["writes"], stored["source"])


def _checked(spec: RunSpec, observed: ObservedRun | None) -> frozenset[str]:
    """Return the codes that can be judged again."""
    known = {info.code for rule in RULES for info in rule.issues}
    if observed is not None:
        return frozenset(known & set(observed.rules))
    level = LEVELS[spec.level]
    caveats = {issue.code for issue in level.caveats(spec.device)}
    found_by_checker = {info.code for info in level.issues} - caveats
    return frozenset(known) - OBSERVED - found_by_checker


def _rules(result: Result, observed: ObservedRun, *, worded: bool) -> Iterator[str]:
    """The runner looks for all codes, or its files cannot be judged. Then it stores no number."""
    if not observed.rules:
        if result.metrics or result.phases or result.status in (Status.OK, Status.INVALID):
            yield f"{NAME}: rules: has none, result.json has the numbers of a run that was judged"
    elif worded and set(observed.rules) != {info.code for rule in RULES for info in rule.issues}:
        yield f"{NAME}: rules: are not the codes that this zonelab looks for"


def _issues(
    spec: RunSpec,
    stored: tuple[Issue, ...],
    again: tuple[Issue, ...],
    checked: frozenset[str],
    *,
    worded: bool,
) -> Iterator[str]:
    """Compare issues; compare messages only if the same code wrote them."""
    names = tuple(f"{tenant.name}: " for tenant in spec.tenants)
    have = [issue for issue in stored if issue.code in checked]
    kept, given = (
        [issue if worded else _unworded(issue, names) for issue in issues]
        for issues in (have, again)
    )
    lacking, extra = Counter(given) - Counter(kept), Counter(kept) - Counter(given)
    for issue, facts in zip(again, given, strict=True):
        if lacking[facts]:
            lacking[facts] -= 1
            yield f"result.json lacks the issue {issue.code}: {issue.message}"
    for issue, facts in zip(have, kept, strict=True):
        if not extra[facts]:
            continue
        extra[facts] -= 1
        if facts in given:
            yield f"result.json has the issue {issue.code} more often than raw/ gives"
        else:
            yield f"result.json has an issue that raw/ does not give, {issue.code}: {issue.message}"
    known = {info.code for rule in RULES for info in rule.issues}
    for issue in stored:
        if issue.code not in known | {_OTHER_IO}:
            yield f"result.json has an issue that no rule raises, {issue.code}: {issue.message}"


def _unworded(issue: Issue, names: Sequence[str]) -> Issue:
    """Return an issue without its message, except for the tenant's name.

    The wording can change between releases.
    """
    owner = next((name for name in names if issue.message.startswith(name)), "")
    return replace(issue, message=owner)


def _observed(folder: Path, result: Result, observed: ObservedRun) -> Iterator[str]:
    log = packed.text(folder / kernel_log.FILE)
    lines = log.count("\n")
    if lines != (observed.kernel_log_lines or 0):
        yield f"{kernel_log.FILE}: has {lines} lines, {NAME} has {observed.kernel_log_lines}"
    if observed.kernel_log_digest not in (None, checksums.of_text(log)):
        yield f"{kernel_log.FILE}: has other bytes than {NAME} recorded"
    for name, wanted in (observed.samples or {}).items():
        lines = packed.text(folder / "series" / name).count("\n")
        if lines != wanted:
            yield f"series/{name}: has {lines} lines, {NAME} has {wanted}"
    for name, wanted_digest in (observed.digests or {}).items():
        if checksums.of_text(packed.text(folder / "series" / name)) != wanted_digest:
            yield f"series/{name}: has other bytes than {NAME} recorded"
    written = any((observed.idle_written or {}).values())
    if written != any(issue.code == _OTHER_IO for issue in result.issues):
        yield f"result.json: issue {_OTHER_IO} does not fit {NAME}: {observed.idle_written}"
    yield from compared.differences(
        "result.json: reason", result.reason, observed.reason, source=f"{NAME} has"
    )


def _status(
    folder: Path,
    spec: RunSpec,
    result: Result,
    issues: tuple[Issue, ...],
    observed: ObservedRun | None,
) -> Iterator[str]:
    """Check the status, which follows from how the run ended and from its issues."""
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
