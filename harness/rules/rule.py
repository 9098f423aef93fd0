"""A validity rule: a function that yields issues, declared together with the issues it raises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from harness.rules.facts import PhaseFacts, RunFacts
from harness.store.result import Issue, IssueInfo, Severity
from harness.store.spec import Scalar

Check = Callable[[RunFacts], Iterator[Issue]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A check of a finished run, and every issue it can yield."""

    check: Check
    issues: tuple[IssueInfo, ...]

    def __call__(self, run: RunFacts) -> Iterator[Issue]:
        """Yield the issues of a run."""
        return self.check(run)

    @property
    def module(self) -> str:
        """The module that declares the rule."""
        return self.check.__module__

    @property
    def name(self) -> str:
        """Module and function, as ``docs/rules.md`` prints them."""
        return f"{self.module.rpartition('.')[2]}.{self.check.__name__}"


_SEVERITIES: dict[str, Severity] = {}  # code → the first declared severity


def rule(*issues: IssueInfo) -> Callable[[Check], Rule]:
    """Declare a rule; ``harness.rules`` finds it in any module of this folder."""
    _SEVERITIES.update({one.code: one.severities[0] for one in issues})
    return lambda check: Rule(check, issues)


def error(code: str, fires: str, why: str) -> IssueInfo:
    """Declare an issue that makes a run invalid."""
    return IssueInfo(code, (Severity.ERROR,), fires, why)


def warning(code: str, fires: str, why: str) -> IssueInfo:
    """Declare an issue that every comparison of the run shows."""
    return IssueInfo(code, (Severity.WARNING,), fires, why)


def info(code: str, fires: str, why: str) -> IssueInfo:
    """Declare an issue that the report shows."""
    return IssueInfo(code, (Severity.INFO,), fires, why)


def issue(
    code: str,
    message: str,
    phase: PhaseFacts | None = None,
    *,
    severity: Severity | None = None,
    expected: Scalar | None = None,
    actual: Scalar | None = None,
) -> Issue:
    """Build an issue; its severity is the declared one, the first of several by default."""
    name = phase.spec.name if phase else None
    return Issue(code, severity or _SEVERITIES[code], message, name, expected, actual)
