"""Describes a mix in sentences, from its numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from analysis import numbers
from analysis.judge import stats
from analysis.judge.stats import Estimate
from analysis.judge.verdicts import Verdict
from analysis.read.load import RunRecord
from analysis.tenants import aligned, attribution, fairness
from analysis.tenants.attribution import CoincidenceTest, Suspect
from analysis.tenants.fairness import (
    DEVICE,
    FAIRNESS,
    SOLO_RUNS,
    THROUGHPUT,
    Index,
    Slowdown,
)
from analysis.tenants.mix import Mix, mixes
from harness.metrics.catalogue import Better
from harness.tables import Table, tabulate

_EVENTS = {
    "reset": "zone resets",
    "finish": "zone finishes",
    "open": "zone opens",
    "close": "zone closes",
    "gc": "garbage collection",
}
_NOTHING = "Nothing could be compared: no run in which tenants share a drive is ok."
_SLOWDOWNS: dict[str, Callable[[Slowdown], str]] = {
    "tenant": lambda loss: loss.tenant,
    "of": lambda loss: loss.metric,
    "slowdown": lambda loss: numbers.ratio(loss.estimate.center),
    "low": lambda loss: numbers.ratio(loss.estimate.low),
    "high": lambda loss: numbers.ratio(loss.estimate.high),
    "n": lambda loss: str(loss.estimate.n),
}


def summary(
    mix: Mix,
    slowdowns: Sequence[Slowdown],
    indexes: Sequence[Index],
    suspects: Sequence[Suspect],
    *,
    not_hardware: bool,
) -> list[str]:
    """Return sentences on losses, fairness, use of the drive, and coincident events."""
    sentences = [*_losses(mix, slowdowns), *_indexes(mix, indexes), *_blame(suspects)]
    if not_hardware and sentences:
        sentences.insert(0, "Times on this device get no verdict. On hardware they would mean:")
    return sentences


def word(slowdown: Slowdown, *, not_hardware: bool) -> str:
    """Return the verdict on a slowdown; devices that are not hardware get none."""
    if not_hardware:
        return Verdict.NOT_A_RESULT.value
    return stats.verdict(slowdown.estimate, Better.LOWER, claimed=False).value


def _losses(mix: Mix, slowdowns: Sequence[Slowdown]) -> Iterable[str]:
    known = [
        slowdown
        for name in mix.names
        for slowdown in slowdowns
        if slowdown.tenant == name and slowdown.metric == THROUGHPUT and slowdown.estimate.center
    ]
    known.sort(key=lambda slowdown: -(slowdown.estimate.center or 0.0))
    for place, slowdown in enumerate(known):
        verdict, estimate = _verdict(slowdown), slowdown.estimate
        alone = f"alone, its throughput is {numbers.ratio(estimate.center)} times as high"
        alone += _interval(estimate)
        if verdict is Verdict.WORSE:
            most = " most" if place == 0 and len(known) > 1 else ""
            yield f"{slowdown.tenant} loses{most}: {alone}."
        elif verdict is Verdict.BETTER:
            yield f"{slowdown.tenant} gains: {alone}."
        elif verdict is Verdict.TOO_FEW:
            yield f"{slowdown.tenant}: {alone}; too few blocks for a verdict."
        else:
            yield f"{slowdown.tenant}: no loss of throughput shown ({alone})."
    for tenant in mix.tenants:
        idle, blocks = fairness.starved(mix, tenant)
        if idle:
            yield (
                f"{tenant.name} did no operation beside the others in {idle} of {blocks} blocks; "
                "no factor describes this loss."
            )
    yield from _tails(slowdowns)


def _tails(slowdowns: Sequence[Slowdown]) -> Iterable[str]:
    """Name the latency that grows most: the only loss of a tenant with a fixed rate."""
    worse = [
        slowdown
        for slowdown in slowdowns
        if slowdown.metric != THROUGHPUT and _verdict(slowdown) is Verdict.WORSE
    ]
    if worse:
        worst = max(worse, key=lambda slowdown: slowdown.estimate.center or 0.0)
        yield (
            f"The {worst.column} latency of {worst.tenant} grows most: to "
            f"{numbers.ratio(worst.estimate.center)} times its value alone"
            f"{_interval(worst.estimate)}."
        )


def _indexes(mix: Mix, indexes: Sequence[Index]) -> Iterable[str]:
    for index in indexes:
        if index.center is None:
            continue
        value = f"{numbers.ratio(index.center)}{_interval(index)}"
        if index.name == FAIRNESS:
            least = numbers.ratio(1 / len(mix.tenants))
            yield (
                f"Fairness (Jain, weighted) is {value}. At 1, every tenant keeps the share that "
                f"its weight gives it; at {least}, one tenant has everything."
            )
            if index.n < len(mix.shared):
                yield (
                    f"Fairness has {index.n} of {len(mix.shared)} blocks: the others lack a value "
                    "of a tenant, alone or shared."
                )
        elif index.name == SOLO_RUNS:
            yield (
                f"Together the tenants do the work of {value} solo runs in the time of one; "
                "taking turns gives 1."
            )
        elif index.name == DEVICE:
            yield f"The drive moves {value} times the bytes per second of the best tenant alone."


def _blame(suspects: Sequence[Suspect]) -> Iterable[str]:
    named = [suspect for suspect in suspects if suspect.named]
    for suspect in sorted(named, key=lambda suspect: suspect.whole.p_value or 0.0):
        findings = [one for one in suspect.findings if one.named] or [suspect.whole]
        evidence = "; ".join(_coincidence(finding) for finding in findings)
        yield f"{suspect.name} is named for latency peaks of others: {evidence}."
    tested = any(suspect.whole.p_value is not None for suspect in suspects)
    if tested and not named:
        yield (
            "No tenant is named: latency peaks do not coincide with events of other tenants more "
            "often than by chance."
        )
    if suspects and not tested:
        yield (
            "No tenant could be named: there are too few latency peaks or no events of other "
            "tenants."
        )


def _coincidence(finding: CoincidenceTest) -> str:
    peaks = f"{finding.with_events} of {finding.peaks} peaks"
    if finding.tenant:
        peaks += f" of {finding.tenant}"
    p = "" if finding.p_holm is None else f", p {finding.p_holm:.2g}"
    kind = _EVENTS.get(finding.kind, finding.kind)
    return f"{peaks} coincide with its {kind} ({finding.expected:.1f} expected by chance{p})"


def _verdict(slowdown: Slowdown) -> Verdict:
    return stats.verdict(slowdown.estimate, Better.LOWER)


def _interval(value: Estimate | Index) -> str:
    if value.low is None:
        return ""
    return f" ({numbers.ratio(value.low)} .. {numbers.ratio(value.high)})"


def lines(runs: Sequence[RunRecord], *, not_hardware: bool) -> list[str]:
    """Return the sentences of each mix, then one line per measured slowdown."""
    text = []
    for mix in mixes(runs):
        slowdowns = fairness.slowdowns(mix)
        text += _titled(mix, slowdowns, not_hardware=not_hardware)
        text += [_line(one, not_hardware=not_hardware) for one in slowdowns if one.estimate.center]
    return text or [_NOTHING]


def summary_of(runs: Sequence[RunRecord], *, not_hardware: bool) -> tuple[list[str], Table]:
    """Return the sentences of each mix, and one row per slowdown, with its mix if several exist."""
    text, found = [], []
    for mix in mixes(runs):
        slowdowns = fairness.slowdowns(mix)
        text += _titled(mix, slowdowns, not_hardware=not_hardware)
        found.append((mix.label, table(slowdowns, not_hardware=not_hardware).rows))
    header = table((), not_hardware=not_hardware).header
    if any(label for label, _ in found):
        header, rows = ("mix", *header), [(label, *row) for label, own in found for row in own]
    else:
        rows = [row for _, own in found for row in own]
    return text or [_NOTHING], Table(header, rows)


def table(slowdowns: Iterable[Slowdown], *, not_hardware: bool) -> Table:
    """Return one row per slowdown of a mix."""
    verdict = {"verdict": lambda loss: word(loss, not_hardware=not_hardware)}
    return tabulate(_SLOWDOWNS | verdict, slowdowns)


def _titled(mix: Mix, slowdowns: Sequence[Slowdown], *, not_hardware: bool) -> list[str]:
    indexes, suspects = fairness.indexes(mix), attribution.attribute(aligned.observe(mix))
    found = summary(mix, slowdowns, indexes, suspects, not_hardware=not_hardware)
    return [f"{mix.label}:", *found] if mix.label else found


def _line(slowdown: Slowdown, *, not_hardware: bool) -> str:
    estimate = slowdown.estimate
    return (
        f"slowdown of {slowdown.tenant}, {slowdown.column}: {numbers.ratio(estimate.center)}"
        f"{_interval(estimate)}, n {estimate.n}, {word(slowdown, not_hardware=not_hardware)}"
    )
