"""A toy rule in one file, as CONTRIBUTING describes it."""

from __future__ import annotations

from collections.abc import Iterator

from harness.rules.facts import RunFacts
from harness.rules.rule import info, issue, rule
from harness.store.result import Issue, Severity


@rule(info("toy-phase", "a phase of the toy program ran", "a toy measures nothing"))
def no_toys(run: RunFacts) -> Iterator[Issue]:
    """Phases belong to real programs."""
    for phase in run.phases:
        if phase.spec.program == "toy":
            yield issue("toy-phase", Severity.INFO, f"{phase.spec.name} is a toy's", phase)
