"""Judges a stored run again: all rules on its raw files, and the status that follows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.errors import ConfigError
from harness.levels import LEVELS
from harness.machine import code
from harness.rules import RULES
from harness.run import judging
from harness.run.judging import JudgedTenant
from harness.store import checksums, packed
from harness.store import differences as compared
from harness.store.files import parse_json, to_record
from harness.store.observed import NAME, ObservedRun
from harness.store.result import MEASURED, Issue, Result, Severity, Status
from harness.store.spec import RunSpec
from harness.tools.direct_io import DirectIo
from harness.verify import kernel_log
from harness.verify.separate import check


def load_observed(folder: Path) -> ObservedRun:
    """Return what the runner observed.

    Raises:
        ConfigError: the record is missing or damaged.
    """
    path = folder / NAME
    if packed.find(path) is None:
        raise ConfigError(
            f"{path} does not exist", hint="restore it from a copy", code="file-missing"
        )
    return to_record(ObservedRun, parse_json(packed.text(path), path), path)


def differences(
    folder: Path,
    spec: RunSpec,
    result: Result,
    observed: ObservedRun,
    tenants: Sequence[JudgedTenant] | None,
) -> Iterator[str]:
    """Yield one line per issue that differs from the rules' result, and per wrong status.

    ``tenants`` is null if the issues of tenants cannot be judged again.
    """
    log = packed.text(folder / kernel_log.FILE)
    worded = code.recorded(result.manifest) == code.runner()["source"]
    again: tuple[Issue, ...] = ()
    judged = observed.rules and result.status is not Status.SKIPPED
    if judged and (tenants is not None or observed.together is not None):
        checked, stored = frozenset(_codes() & set(observed.rules)), result.issues
        if tenants is None:
            # This zonelab lacks a tenant's level. Issues of the run as a whole need none.
            checked -= {issue.code for issue in observed.findings}
            stored = _of_run(spec, stored)
        found = judging.issues(spec, log, observed, tenants or ())
        again = tuple(issue for issue in found if issue.code in checked)
        yield from _issues(spec, stored, again, checked, worded=worded)
    yield from _rules(result, observed, worded=worded)
    yield from check(_observed(folder, result, observed), NAME)
    yield from kernel_log.differences(log, LEVELS.get(spec.level), result)
    yield from _status(result, again, observed)


def _codes() -> set[str]:
    """Return the codes of all rules."""
    return {info.code for rule in RULES for info in rule.issues}


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


def _rules(result: Result, observed: ObservedRun, *, worded: bool) -> Iterator[str]:
    """The runner looks for all codes, or its files cannot be judged. Then it stores no number."""
    if not observed.rules:
        if result.metrics or result.phases or result.status in MEASURED:
            yield f"{NAME}: rules: has none, result.json has the numbers of a run that was judged"
    elif worded and set(observed.rules) != _codes():
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
    known = _codes()
    for issue in stored:
        if issue.code not in known:
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
    wanted = None if observed.kernel_log_lines is None else checksums.of_text(log)
    if observed.kernel_log_digest != wanted:
        yield f"{kernel_log.FILE}: has other bytes than {NAME} recorded"
    if observed.rules and (observed.samples is None or observed.digests is None):
        yield f"{NAME}: has no digests of series/"
    for name, samples in (observed.samples or {}).items():
        lines = packed.text(folder / "series" / name).count("\n")
        if lines != samples:
            yield f"series/{name}: has {lines} lines, {NAME} has {samples}"
    for name, digest in (observed.digests or {}).items():
        if checksums.of_text(packed.text(folder / "series" / name)) != digest:
            yield f"series/{name}: has other bytes than {NAME} recorded"
    yield from _added_series(folder, observed)
    yield from compared.differences(
        "result.json: reason", result.reason, observed.reason, source=f"{NAME} has"
    )


def _added_series(folder: Path, observed: ObservedRun) -> Iterator[str]:
    """Yield one line per file in series/ that the runner did not record."""
    if observed.digests is None:
        return
    files = (folder / "series").glob("*")
    for name in sorted({file.name.removesuffix(packed.SUFFIX) for file in files}):
        if name not in observed.digests:
            yield f"series/{name}: {NAME} has no such series"


def _status(result: Result, issues: tuple[Issue, ...], observed: ObservedRun) -> Iterator[str]:
    """Check the status, which follows from how the run ended and from its issues."""
    wrong = [issue for issue in (*issues, *result.issues) if issue.severity is Severity.ERROR]
    wanted = Status.INVALID if observed.ended is Status.OK and wrong else observed.ended
    if result.status is not wanted:
        why = f", for the issue {wrong[0].code}" if wanted is Status.INVALID else ""
        yield f"result.json: status: has {result.status.value}, raw/ gives {wanted.value}{why}"
    if (result.reason is None) != (wanted in MEASURED):
        yield (
            f"result.json: reason: has {result.reason and result.reason.code}, "
            f"which does not fit status {wanted.value}"
        )
