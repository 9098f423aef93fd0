"""All mixes of a campaign, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from analysis import units
from analysis.load import RunRecord
from analysis.tenants import aligned, attribution, fairness, words
from analysis.tenants.mix import mixes


def lines(runs: Sequence[RunRecord], *, emulated: bool) -> list[str]:
    """Return the sentences of each mix, and a line per slowdown that was measured."""
    found = []
    for mix in mixes(runs):
        losses, indexes = fairness.slowdowns(mix), fairness.indexes(mix)
        suspects = attribution.attribute(aligned.observe(mix))
        found += [f"{mix.label}:"] if mix.label else []
        found += words.summary(mix, losses, indexes, suspects, emulated=emulated)
        found += [_line(one, emulated=emulated) for one in losses if one.estimate.center]
    return found


def _line(one: fairness.Slowdown, *, emulated: bool) -> str:
    estimate = one.estimate
    interval = ""
    if estimate.low is not None:
        interval = f" ({units.ratio(estimate.low)} .. {units.ratio(estimate.high)})"
    return (
        f"slowdown of {one.tenant}, {one.column}: {units.ratio(estimate.center)}{interval}, "
        f"n {estimate.n}, {words.word(one, emulated=emulated)}"
    )
