"""Rules about the ledger: adjacent layers agree, or the run is invalid."""

from __future__ import annotations

from collections.abc import Iterator

from harness.rules.facts import RunFacts
from harness.store.ledger import RUN, Closure, Entry, Ledger, State
from harness.store.result import Issue, Severity

BROKEN = "closure-broken"
UNSETTLED = "barrier-unsettled"
UNWITNESSED = "witness-missing"
CODES = (BROKEN, UNSETTLED, UNWITNESSED)


def ledger(run: RunFacts) -> Iterator[Issue]:
    """Whatever the ledger shows to be wrong."""
    if run.ledger is not None:
        yield from of_ledger(run.ledger)


def of_ledger(found: Ledger) -> Iterator[Issue]:
    """Return the same of a ledger that was read from a file."""
    for entry in found.entries:
        for closure in entry.closures:
            if closure.state is State.BROKEN:
                yield _broken(entry, closure)
        if not entry.settled and entry.name != RUN:
            # What was in flight belongs to the next phase, or to nobody.
            text = f"the devices were still busy behind {_where(entry)}"
            yield Issue(UNSETTLED, Severity.WARNING, text, _phase(entry))
    failed = [entry.witness for entry in found.entries if entry.witness_failed]
    if failed:
        yield Issue(UNWITNESSED, Severity.WARNING, f"F = H was not checked: {failed[0]}")


def _broken(entry: Entry, closure: Closure) -> Issue:
    """Two layers that count the same bytes do not agree: one of the numbers is wrong."""
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


def _where(entry: Entry) -> str:
    return "the run" if entry.name == RUN else entry.name


def _phase(entry: Entry) -> str | None:
    return None if entry.name == RUN else entry.name
