"""A mix in plain words, computed from its numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from analysis import stats, units
from analysis.stats import Estimate, Verdict
from analysis.tenants.attribution import Finding, Suspect
from analysis.tenants.fairness import (
    DEVICE,
    FAIRNESS,
    SOLO_RUNS,
    THROUGHPUT,
    Index,
    Slowdown,
)
from analysis.tenants.mix import Mix
from harness.metrics import Better

_EVENTS = {
    "reset": "zone resets", "finish": "zone finishes", "open": "zone opens",
    "close": "zone closes", "gc": "garbage collection",
}  # fmt: skip


def summary(
    mix: Mix, found: Sequence[Slowdown], indexes: Sequence[Index], suspects: Sequence[Suspect],
    *, emulated: bool,
) -> list[str]:  # fmt: skip
    """Return sentences: who loses, whether it is fair, what the drive gives, who is to blame."""
    parts = [*_losses(mix, found), *_indexes(mix, indexes), *_blame(suspects)]
    if emulated and parts:
        parts.insert(0, "Times on an emulated device are not a result; what they would say:")
    return parts


def word(one: Slowdown, *, emulated: bool) -> str:
    """Return the verdict on a slowdown; none on times of an emulated device."""
    if emulated:
        return Verdict.NOT_A_RESULT.value
    return stats.verdict(one.estimate, Better.LOWER).value


def _losses(mix: Mix, found: Sequence[Slowdown]) -> Iterable[str]:
    slow = {one.tenant: one for one in found if one.metric == THROUGHPUT}
    known = [slow[name] for name in mix.names if name in slow and slow[name].estimate.center]
    shown = {one.tenant: stats.verdict(one.estimate, Better.LOWER) for one in known}
    known.sort(key=lambda one: -(one.estimate.center or 0.0))
    for place, one in enumerate(known):
        verdict = shown[one.tenant]
        times = f"{units.ratio(one.estimate.center)} times{_interval(one.estimate)}"
        if verdict is Verdict.WORSE:
            most = " most" if place == 0 and len(known) > 1 else ""
            yield f"{one.tenant} loses{most}: its throughput alone is {times} as high."
        elif verdict is Verdict.BETTER:
            yield f"{one.tenant} gains: its throughput alone is only {times} as high."
        elif verdict is Verdict.TOO_FEW:
            yield f"{one.tenant}: its throughput alone is {times} as high, in too few blocks."
        else:
            yield f"{one.tenant}: no loss of throughput shown ({times})."
    yield from _tails(found)


def _tails(found: Sequence[Slowdown]) -> Iterable[str]:
    """Name the latency that suffers most: a tenant of a fixed rate loses nothing else."""
    worse = [
        one for one in found
        if one.metric != THROUGHPUT and stats.verdict(one.estimate, Better.LOWER) is Verdict.WORSE
    ]  # fmt: skip
    if worse:
        one = max(worse, key=lambda one: one.estimate.center or 0.0)
        yield (
            f"The latency that suffers most is the {one.column} of {one.tenant}: "
            f"{units.ratio(one.estimate.center)} times{_interval(one.estimate)} what it is alone."
        )


def _indexes(mix: Mix, indexes: Sequence[Index]) -> Iterable[str]:
    for one in indexes:
        if one.center is None:
            continue
        value = f"{units.ratio(one.center)}{_interval(one)}"
        if one.name == FAIRNESS:
            least = units.ratio(1 / len(mix.tenants))
            yield (
                f"Fairness (Jain, weighted) is {value}: 1 means that all keep the share that their "
                f"weight gives them, {least} that one has all."
            )
        elif one.name == SOLO_RUNS:
            yield (
                f"Together they do the work of {value} solo runs at once; taking turns would be 1."
            )
        elif one.name == DEVICE:
            yield f"The drive moves {value} times the bytes per second of the best tenant alone."


def _blame(suspects: Sequence[Suspect]) -> Iterable[str]:
    named = [one for one in suspects if one.named]
    for suspect in sorted(named, key=lambda one: one.whole.p_value or 0.0):
        worst = [one for one in suspect.findings if one.named] or [suspect.whole]
        told = "; ".join(_coincidence(one) for one in worst)
        yield f"Of others' latency peaks, {suspect.name} is named: {told}."
    tested = any(one.whole.p_value is not None for one in suspects)
    if tested and not named:
        yield "Nobody is named: no peaks are shown to come with others' events more than by chance."
    if suspects and not tested:
        yield "Nobody could be named: there are too few latency peaks, or no events of others."


def _coincidence(one: Finding) -> str:
    whose = f"{one.with_events} of {one.peaks} peaks" + (f" of {one.tenant}" if one.tenant else "")
    p = "" if one.p_holm is None else f", p {one.p_holm:.2g}"
    kind = _EVENTS.get(one.kind, one.kind)
    return f"{whose} come with its {kind} ({one.expected:.1f} by chance{p})"


def _interval(one: Estimate | Index) -> str:
    return "" if one.low is None else f" ({units.ratio(one.low)} .. {units.ratio(one.high)})"
