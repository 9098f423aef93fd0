"""The report's tables: runs, hosts and devices, issues."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from analysis import numbers
from analysis.judge import bottleneck, comparability, rounds
from analysis.judge.comparability import Difference
from analysis.judge.compare import Comparison
from analysis.judge.drift import Drift
from analysis.judge.fingerprint import fingerprint
from analysis.judge.rounds import Components
from analysis.read.flow import read_flows
from analysis.read.load import CampaignData, RunRecord
from analysis.read.steady import PhaseSteady, window
from analysis.show import costs, flow_tables, render, scale
from harness import nulls
from harness.store.result import Issue, Utilisation
from harness.store.spec import HostPlan
from harness.tables import Table, csv_text, tabulate


class _RunIssue(NamedTuple):
    run: str
    issue: Issue


class _Spread(NamedTuple):
    """The variance components of a phase's throughput in one group of runs."""

    phase: str
    value: str
    stratum: str
    components: Components


class _RunUtilisation(NamedTuple):
    run: RunRecord
    used: Utilisation


class _GroupDifference(NamedTuple):
    group: str
    difference: Difference


def tables_of(comparison: Comparison) -> dict[str, Table]:
    """Return every table by name, except verdicts and metrics."""
    campaign = comparison.campaign
    flows = read_flows(campaign.latest)
    return {
        "claims": render.claims_table(comparison),
        "cells": render.cells_table(comparison),
        "runs": _runs(campaign),
        "issues": _issues(campaign),
        "steady": _steady(comparison),
        "rounds": _rounds(comparison),
        "drift": tabulate(_DRIFT, comparison.drifts),
        "lsm": flow_tables.lsm_levels(flows),
        "bottlenecks": bottleneck.table(campaign),
        "costs": costs.table(campaign),
        "ledger": flow_tables.ledger(flows),
        "closures": flow_tables.closures(flows),
        "utilisation": _utilisation(campaign),
        "scale": scale.table(campaign),
        "skipped": Table((comparison.contrast, "reason"), list(comparison.skipped.items())),
        "differences": differences(comparison),
        "environment": _environment(campaign),
        "recorded": _recorded(campaign),
    }


def metrics_csv(campaign: CampaignData) -> str:
    """Return every metric of every attempt as CSV, in the order of the plan."""
    latest = set(campaign.latest)
    rows = (
        (
            run.host,
            run.name,
            run.result.cell,
            run.spec.row,
            run.result.repetition,
            run.result.attempt,
            "true" if run in latest else "false",
            run.result.block,
            run.result.status.value,
            key,
            run.value(key),
            metric.unit,
        )
        for run in campaign.runs
        for key, metric in run.result.metrics.items()
    )
    return csv_text(_METRICS, rows)


def _runs(campaign: CampaignData) -> Table:
    """Return all attempts, then the missing runs."""
    table = tabulate(_RUNS, campaign.runs)
    missing = [(run.host, run.spec.run, "missing", "", "", "") for run in campaign.missing]
    return Table(table.header, [*table.rows, *missing])


def _issues(campaign: CampaignData) -> Table:
    found = (_RunIssue(run.name, issue) for run in campaign.runs for issue in run.result.issues)
    return tabulate(_ISSUES, found)


def _steady(comparison: Comparison) -> Table:
    columns: dict[str, Callable[[PhaseSteady], str]] = {
        "phase": lambda row: row.phase,
        comparison.contrast: lambda row: row.value,
        "stratum": lambda row: row.stratum,
        "runs": lambda row: str(len(row.runs)),
        "label": lambda row: row.steady.label.value,
        "window": lambda row: window(row.steady),
    }
    return tabulate(columns, comparison.steady)


def _rounds(comparison: Comparison) -> Table:
    """Return the spread of throughput between the runs of a group and between a run's blocks."""
    spreads = (
        _Spread(phase.phase, phase.value, phase.stratum, components)
        for phase in comparison.steady
        if (components := rounds.components(phase.throughputs)) is not None
    )
    columns: dict[str, Callable[[_Spread], str]] = {
        "phase": lambda row: row.phase,
        comparison.contrast: lambda row: row.value,
        "stratum": lambda row: row.stratum,
        "runs": lambda row: str(row.components.runs),
        "blocks": lambda row: str(row.components.rounds),
        "spread between runs": lambda row: _spread(row.components, row.components.between),
        "spread within runs": lambda row: _spread(row.components, row.components.within),
        "share of variance between runs": lambda row: _percent(row.components.share_between),
    }
    return tabulate(columns, spreads)


def _spread(components: Components, variance: float) -> str:
    center = float(components.interval.center)
    return _percent(variance**0.5 / center if center else None)


def _utilisation(campaign: CampaignData) -> Table:
    used = (
        _RunUtilisation(run, run.result.utilisation)
        for run in campaign.runs
        if run.result.utilisation is not None
    )
    return tabulate(_UTILISATION, used)


def differences(comparison: Comparison) -> Table:
    """Return one row per recorded setting in which a group differs from the baseline."""
    found = (
        _GroupDifference(group, difference)
        for group, members in comparison.differences.items()
        for difference in members
    )
    return tabulate(_DIFFERENCES, found)


def _environment(campaign: CampaignData) -> Table:
    """Return one row per fact, one column per host."""
    hosts = campaign.plan.hosts
    rows = [(name, *(fact(host) for host in hosts)) for name, fact in _FACTS.items()]
    return Table(("", *(host.host for host in hosts)), rows if hosts else [])


def _recorded(campaign: CampaignData) -> Table:
    """Return every fingerprint key with all values of the ok runs."""
    found = comparability.gathered(fingerprint(campaign, run) for run in campaign.latest if run.ok)
    rows: list[tuple[str, ...]] = [(key, " | ".join(sorted(found[key]))) for key in sorted(found)]
    return Table(("key", "values of the ok runs"), rows)


def _device(host: HostPlan) -> str:
    device = host.inspection.device
    return f"{device.model} ({device.kind.value}), {device.identity.key}"


def _zones(host: HostPlan) -> str:
    device = host.inspection.device
    if device.zones is None:
        return "none (conventional)"
    size = numbers.human(device.zone_size, "B")
    return f"{device.zones} x {size}, capacity {numbers.human(device.zone_capacity, 'B')}"


def _limits(host: HostPlan) -> str:
    device = host.inspection.device
    return f"{nulls.text(device.max_open_zones)} / {nulls.text(device.max_active_zones)}"


def _percent(value: float | None) -> str:
    return numbers.DASH if value is None else f"{100 * value:.2f} %"


_METRICS = (
    *("host", "run", "cell", "level", "repetition", "attempt", "latest", "block", "status"),
    *("metric", "value", "unit"),
)

_RUNS: dict[str, Callable[[RunRecord], str]] = {
    "host": lambda run: run.host,
    "run": lambda run: run.name,
    "status": lambda run: run.result.status.value,
    "attempt": lambda run: str(run.result.attempt),
    "seconds": lambda run: f"{run.result.seconds:.0f}",
    "issues": lambda run: ", ".join(issue.code for issue in run.result.issues),
}

_ISSUES: dict[str, Callable[[_RunIssue], str]] = {
    "run": lambda row: row.run,
    "severity": lambda row: row.issue.severity.value,
    "code": lambda row: row.issue.code,
    "phase": lambda row: row.issue.phase or "",
    "message": lambda row: row.issue.message,
    "expected": lambda row: nulls.text(row.issue.expected),
    "actual": lambda row: nulls.text(row.issue.actual),
}

_DRIFT: dict[str, Callable[[Drift], str]] = {
    "metric": lambda drift: drift.metric,
    "from first run to last": lambda drift: _percent(drift.change),
    "low": lambda drift: _percent(drift.low),
    "high": lambda drift: _percent(drift.high),
    "runs": lambda drift: str(drift.runs),
    "p": lambda drift: f"{drift.p_value:.2g}",
    "Holm p": lambda drift: f"{drift.p_holm:.2g}",
    "verdict": lambda drift: "drift" if drift.shown else "none shown",
}

_UTILISATION: dict[str, Callable[[_RunUtilisation], str]] = {
    "run": lambda row: row.run.name,
    "status": lambda row: row.run.result.status.value,
    "target": lambda row: _percent(row.used.target),
    "u_ns": lambda row: _percent(row.used.u_ns),
    "u_drive": lambda row: _percent(row.used.u_drive),
    "live (V)": lambda row: numbers.human(row.used.live_bytes, "B"),
    "allocated (A)": lambda row: numbers.human(row.used.allocated_bytes, "B"),
}

_DIFFERENCES: dict[str, Callable[[_GroupDifference], str]] = {
    "group": lambda row: row.group,
    "what": lambda row: row.difference.what,
    "baseline": lambda row: row.difference.texts[0],
    "value": lambda row: row.difference.texts[1],
    "consequence": lambda row: row.difference.consequence,
}

_FACTS: dict[str, Callable[[HostPlan], str]] = {
    "kernel": lambda host: host.inspection.host.kernel,
    "system": lambda host: host.inspection.host.os,
    "CPUs": lambda host: str(host.inspection.host.cpus),
    "memory": lambda host: numbers.human(host.inspection.host.memory_bytes, "B"),
    "RocksDB": lambda host: host.inspection.host.rocksdb,
    "device": _device,
    "zones": _zones,
    "capacity": lambda host: numbers.human(host.inspection.device.capacity, "B"),
    "open / active limit": _limits,
}
