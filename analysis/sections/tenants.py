"""Several workloads at once: what each loses, who causes it, whether the sharing is fair."""

from __future__ import annotations

from analysis import units
from analysis.drawing import slug
from analysis.load import RunRecord
from analysis.sections.base import Context, Grid, Heading, Part, Plots, Section, Text
from analysis.tenants import aligned, attribution, fairness, figures, recovery, usage, words
from analysis.tenants.mix import Mix, mixes

ID, TITLE, METHOD = "tenants", "Tenants", "tenants"
_DASH = units.DASH


def section(context: Context) -> Section | None:
    """Return the section of a campaign in which tenants shared a drive; None of any other."""
    parts: list[Part] = []
    found = mixes(context.comparison.runs)
    for mix in found:
        if mix.label:
            parts.append(Heading(f"tenants-{slug(mix.label)}", mix.label))
        parts += _parts(context, mix, f"-{slug(mix.label)}" if mix.label else "")
    return Section(ID, TITLE, parts) if parts else None


def _parts(context: Context, mix: Mix, suffix: str) -> list[Part]:
    comparison = context.comparison
    emulated = comparison.campaign.emulated
    losses, indexes = fairness.slowdowns(mix), fairness.indexes(mix)
    suspects = attribution.attribute(aligned.observe(mix))
    told = words.summary(mix, losses, indexes, suspects, emulated=emulated)
    return [
        *(Text(sentence) for sentence in told),
        Plots([
            figures.slowdown_matrix(comparison, mix, losses),
            figures.timeline(comparison, mix),
            figures.blame_matrix(comparison, mix, suspects),
        ]),
        _fairness(indexes, suffix),
        _slowdowns(losses, suffix, emulated=emulated),
        _uses(mix, suffix),
        _recoveries(mix, suffix),
        _blame(suspects, suffix),
    ]  # fmt: skip


def _fairness(indexes: list[fairness.Index], suffix: str) -> Grid:
    rows = [
        (one.name, _ratio(one.center), _ratio(one.low), _ratio(one.high), str(one.n))
        for one in indexes
    ]
    header = ("of the mix", "value", "low", "high", "blocks")
    return Grid(f"tenants-fairness{suffix}", header, rows, method=METHOD)


def _slowdowns(losses: list[fairness.Slowdown], suffix: str, *, emulated: bool) -> Grid:
    rows = [
        (one.tenant, one.metric, _ratio(one.estimate.center), _ratio(one.estimate.low),
         _ratio(one.estimate.high), str(one.estimate.n), words.word(one, emulated=emulated))
        for one in losses
    ]  # fmt: skip
    header = ("tenant", "of", "slowdown", "low", "high", "n", "verdict")
    return Grid(f"tenants-slowdown{suffix}", header, rows, method=METHOD, folded="Slowdowns")


def _uses(mix: Mix, suffix: str) -> Grid:
    rows = [
        (run.name, use.tenant, units.human(use.written, "B"), _count(use.finishes),
         _count(use.resets), *_zone_metrics(mix, run, use.tenant))
        for run in mix.shared for use in usage.uses(run)
    ]  # fmt: skip
    return Grid(
        f"tenants-use{suffix}",
        ("run", "tenant", "written", "finishes", "resets", "active seconds", "denied opens"), rows,
        folded="Bytes, finishes and resets by tenant, while all measured",
        source="raw/tenants.json", method=METHOD,
    )  # fmt: skip


def _zone_metrics(mix: Mix, run: RunRecord, name: str) -> tuple[str, ...]:
    tenant = next(one for one in mix.tenants if one.name == name)
    values = (run.value(tenant.key(metric)) for metric in ("active_zone_seconds", "denied_opens"))
    return tuple(_DASH if value is None else units.digits(value) for value in values)


def _recoveries(mix: Mix, suffix: str) -> Grid:
    rows = [
        (one.run, one.tenant, one.burst_of, f"{one.burst.begin:.1f}", f"{one.burst.end:.1f}",
         f"{100 * one.lost:.0f} %", "not seen" if one.seconds is None else f"{one.seconds:.1f} s")
        for one in recovery.recoveries(mix)
    ]  # fmt: skip
    header = ("run", "tenant", "burst of", "began", "ended", "throughput lost", "back after")
    return Grid(
        f"tenants-recovery{suffix}", header, rows, folded="Recovery after bursts",
        source="raw/tenants.json", method=METHOD,
    )  # fmt: skip


def _blame(suspects: list[attribution.Suspect], suffix: str) -> Grid:
    rows = [
        (one.tenant or "all others", one.suspect, str(one.peaks), one.kind or _DASH,
         str(one.with_events), f"{one.expected:.1f}", _p(one.p_value), _p(one.p_holm),
         "yes" if one.named else "not shown" if one.p_value is not None else "not tested")
        for who in suspects for one in (who.whole, *who.findings)
    ]  # fmt: skip
    header = (
        "peaks of", "events of", "peaks", "event", "with events", "by chance", "p", "Holm p",
        "named",
    )  # fmt: skip
    return Grid(
        f"tenants-blame{suffix}", header, rows, method=METHOD, folded="Latency peaks and events"
    )


def _ratio(value: float | None) -> str:
    return units.ratio(value)


def _count(value: int | None) -> str:
    return _DASH if value is None else str(value)


def _p(value: float | None) -> str:
    return _DASH if value is None else f"{value:.2g}"
