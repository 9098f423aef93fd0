"""The rule about the ledger: adjacent layers agree, or the run is invalid."""

from __future__ import annotations

from collections.abc import Iterator

from harness.rules.facts import RunFacts
from harness.rules.rule import error, rule, warning
from harness.store.ledger import RUN, Closure, ClosureState, Ledger, LedgerEntry
from harness.store.result import Issue, Severity

BROKEN = "closure-broken"
UNSETTLED = "barrier-unsettled"
UNWITNESSED = "witness-missing"


@rule(
    error(
        BROKEN,
        "two adjacent layers count the same bytes differently",
        "one of the numbers is wrong",
    ),
    warning(
        UNSETTLED,
        "the devices were still busy at the end of a phase",
        "I/O in flight counts for the next phase, or for none",
    ),
    warning(
        UNWITNESSED,
        "the device's own counters could not be read",
        "F = H was not checked",
    ),
)
def ledger(run: RunFacts) -> Iterator[Issue]:
    """Adjacent layers of the ledger agree."""
    if run.ledger is not None:
        yield from check_ledger(run.ledger)


def check_ledger(ledger: Ledger) -> Iterator[Issue]:
    """Yield the issues of a ledger."""
    for entry in ledger.entries:
        for closure in entry.closures:
            if closure.state is ClosureState.BROKEN:
                yield _broken(entry, closure)
        if not entry.settled and entry.name != RUN:
            text = f"the devices were still busy after {_where(entry)}"
            yield Issue(UNSETTLED, Severity.WARNING, text, _phase(entry))
    failed = [entry.witness for entry in ledger.entries if entry.witness_failed]
    if failed:
        yield Issue(UNWITNESSED, Severity.WARNING, f"F = H was not checked: {failed[0]}")


def _broken(entry: LedgerEntry, closure: Closure) -> Issue:
    """Describe two layers that count the same bytes differently."""
    equal = closure.low == closure.high == closure.above
    unit = " B" if closure.unit == "B" else ""
    wanted = "" if equal else f": expected {closure.low} to {closure.high}{unit}"
    return Issue(
        BROKEN,
        Severity.ERROR,
        f"{closure.upper} ({closure.above}{unit}) and {closure.lower} ({closure.below}{unit})"
        f" do not agree in {_where(entry)}{wanted}",
        _phase(entry),
        expected=closure.above,
        actual=closure.below,
    )


def _where(entry: LedgerEntry) -> str:
    return "the run" if entry.name == RUN else entry.name


def _phase(entry: LedgerEntry) -> str | None:
    return None if entry.name == RUN else entry.name
