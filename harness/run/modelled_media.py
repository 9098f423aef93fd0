"""M of a conventional device between two barriers, as its modelled drive counts it."""

from __future__ import annotations

from dataclasses import replace

from harness.run import closures
from harness.store.ledger import MODELLED_MEDIA, Closure, ClosureState, Snapshot
from harness.store.media_record import ModelledMedia

_REFUSED = "the kernel counts commands that the device refused"


def closure(
    before: Snapshot, after: Snapshot, first: ModelledMedia | None, last: ModelledMedia | None
) -> list[Closure]:
    """Compare the kernel's count of the conventional device with the bytes that the model took."""
    if first is None or last is None or not after.conventional:
        return []
    name = after.conventional
    names = (f"{after.counted_by} {name}", f"model {name}")
    above = after.written[name] - before.written[name]
    if first.recorded is None or last.recorded is None:
        return [Closure(*names, ClosureState.UNKNOWN, above=above, note=last.problem)]
    below, failed = last.recorded - first.recorded, last.failed - first.failed
    if not (before.settled and after.settled):
        note = "counters never settled"
        return [Closure(*names, ClosureState.UNKNOWN, above=above, below=below, note=note)]
    one = closures.exact(*names, above - failed, below)
    if failed:
        one = replace(one, above=above, explained={"failed": -failed}, note=_REFUSED)
    return [one]


def programmed(
    first: ModelledMedia | None, last: ModelledMedia | None, checks: list[Closure]
) -> int | None:
    """Return M in bytes; null without a model, or if it did not take all the kernel's bytes."""
    if first is None or last is None or first.programmed is None or last.programmed is None:
        return None
    if any(one.state is not ClosureState.EXACT for one in checks):
        return None
    return last.programmed - first.programmed


def source(known: str, last: ModelledMedia | None, media: int | None, *, zoned: bool) -> str:
    """Return what counted M, or why nothing did.

    Args:
        known: what counted M of the zoned device; '' if nothing did.
        last: the modelled conventional drive; null if there is none.
        media: M of the conventional device.
        zoned: the level uses a zoned device too.
    """
    if last is None:
        return known
    if media is None:
        return last.problem or "the model did not take what the kernel counted"
    if not zoned:
        return f"{MODELLED_MEDIA} {last.model}"
    return f"{known} + {last.model}" if known else ""
