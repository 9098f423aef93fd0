"""The rule about M of a conventional device: the study's model counts it."""

from __future__ import annotations

from collections.abc import Iterator

from harness.rules.facts import RunFacts
from harness.rules.rule import issue, rule, warning
from harness.store.ledger import RUN
from harness.store.result import Issue


@rule(
    warning(
        "media-unknown",
        "the study's `media_model` could not count what a conventional device would write",
        "`media_bytes`, `wa_dev` and `wa_total` are null",
    )
)
def counted(run: RunFacts) -> Iterator[Issue]:
    """A modelled drive counts M of the conventional device."""
    device, entry = run.spec.conventional, run.ledger.entry(RUN) if run.ledger else None
    if run.spec.media_model is None or device is None or entry is None:
        return
    name = device.name
    if entry.media.get(name, 0) is None:
        yield issue("media-unknown", f"M of {name} is unknown: {entry.media_source}")
