"""Several workloads at once: each one's loss, fairness, and coinciding events."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from analysis import numbers
from analysis.read.load import RunRecord
from analysis.show import tenant_figures
from analysis.show.drawing import slug
from analysis.show.parts import Grid, Heading, Paragraph, Part, Plots, ReportData, Section
from analysis.tenants import aligned, attribution, fairness, recovery, usage, words
from analysis.tenants.attribution import CoincidenceTest
from analysis.tenants.fairness import Index
from analysis.tenants.mix import Mix, TenantRun, mixes
from analysis.tenants.recovery import Recovery
from analysis.tenants.usage import Use
from harness.tables import Table, tabulate

ORDER = 10
ID, TITLE, METHOD = "tenants", "Tenants", "tenants"


class _RunUse(NamedTuple):
    """A tenant's bytes, finishes and resets in one shared run."""

    run: RunRecord
    tenant: TenantRun
    use: Use

    def metric(self, name: str) -> str:
        """Return one of the tenant's metrics."""
        value = self.run.value(self.tenant.key(name))
        return numbers.DASH if value is None else numbers.digits(value)


def section(data: ReportData) -> Section | None:
    """Return one part per mix; None for a campaign without tenants."""
    parts: list[Part] = []
    for mix in mixes(data.comparison.runs):
        if mix.label:
            parts.append(Heading(f"tenants-{slug(mix.label)}", mix.label))
        parts += _parts(data, mix)
    return Section(ID, TITLE, parts) if parts else None


def _parts(data: ReportData, mix: Mix) -> list[Part]:
    comparison = data.comparison
    not_hardware = comparison.campaign.not_hardware
    losses, indexes = fairness.slowdowns(mix), fairness.indexes(mix)
    suspects = attribution.attribute(aligned.observe(mix))
    findings = [finding for one in suspects for finding in (one.whole, *one.findings)]
    sentences = words.summary(mix, losses, indexes, suspects, not_hardware=not_hardware)
    plots = [
        tenant_figures.slowdown_matrix(comparison, mix, losses),
        tenant_figures.timeline(comparison, mix),
        tenant_figures.blame_matrix(comparison, mix, suspects),
    ]
    recoveries = recovery.recoveries(mix)
    return [
        *map(Paragraph, sentences),
        Plots(plots),
        _grid(mix, "fairness", "", tabulate(_INDEXES, indexes)),
        _grid(mix, "slowdown", "Slowdowns", words.table(losses, not_hardware=not_hardware)),
        _grid(mix, "use", "Bytes, finishes and resets per tenant", tabulate(_USES, _uses(mix))),
        _grid(mix, "recovery", "Recovery after bursts", tabulate(_RECOVERIES, recoveries)),
        _grid(mix, "blame", "Latency peaks and events", tabulate(_FINDINGS, findings)),
    ]


def _grid(mix: Mix, name: str, title: str, table: Table) -> Grid:
    """Return a table; an empty ``title`` makes it always open."""
    suffix = f"-{slug(mix.label)}" if mix.label else ""
    source = "raw/tenants.json" if "run" in table.header else "result.json"
    return Grid(f"tenants-{name}{suffix}", *table, folded=title, source=source, method=METHOD)


def _uses(mix: Mix) -> list[_RunUse]:
    tenants = {tenant.name: tenant for tenant in mix.tenants}
    return [_RunUse(run, tenants[use.tenant], use) for run in mix.shared for use in usage.uses(run)]


def _named(finding: CoincidenceTest) -> str:
    if finding.named:
        return "yes"
    return "not tested" if finding.p_value is None else "not shown"


_INDEXES: dict[str, Callable[[Index], str]] = {
    "of the mix": lambda index: index.name,
    "value": lambda index: numbers.ratio(index.center),
    "low": lambda index: numbers.ratio(index.low),
    "high": lambda index: numbers.ratio(index.high),
    "blocks": lambda index: str(index.n),
}
_USES: dict[str, Callable[[_RunUse], str]] = {
    "run": lambda row: row.run.name,
    "tenant": lambda row: row.use.tenant,
    "written": lambda row: numbers.human(row.use.written, "B"),
    "finishes": lambda row: numbers.formatted(row.use.finishes, "d"),
    "resets": lambda row: numbers.formatted(row.use.resets, "d"),
    "active seconds": lambda row: row.metric("active_zone_seconds"),
    "denied opens": lambda row: row.metric("denied_opens"),
}
_RECOVERIES: dict[str, Callable[[Recovery], str]] = {
    "run": lambda row: row.run,
    "tenant": lambda row: row.tenant,
    "burst of": lambda row: row.burst_of,
    "began": lambda row: f"{row.burst.begin:.1f}",
    "ended": lambda row: f"{row.burst.end:.1f}",
    "throughput lost": lambda row: f"{100 * row.lost:.0f} %",
    "back after": lambda row: "not seen" if row.seconds is None else f"{row.seconds:.1f} s",
}
_FINDINGS: dict[str, Callable[[CoincidenceTest], str]] = {
    "peaks of": lambda finding: finding.tenant or "all others",
    "events of": lambda finding: finding.suspect,
    "peaks": lambda finding: str(finding.peaks),
    "event": lambda finding: finding.kind or numbers.DASH,
    "with events": lambda finding: str(finding.with_events),
    "by chance": lambda finding: f"{finding.expected:.1f}",
    "p": lambda finding: numbers.formatted(finding.p_value, ".2g"),
    "Holm p": lambda finding: numbers.formatted(finding.p_holm, ".2g"),
    "named": _named,
}
