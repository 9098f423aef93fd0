"""The report's tables: what ran, what it ran on, what went wrong."""

from __future__ import annotations

from collections.abc import Sequence

from analysis import bottleneck, comparability, costs, flow, render, rounds, steady, units
from analysis.compare import Comparison, group_label

Table = tuple[Sequence[str], list[tuple[str, ...]]]


def tables_of(comparison: Comparison) -> dict[str, Table]:
    """Return name → (header, rows) of every table but verdicts and metrics."""
    flows = flow.of_runs(comparison.campaign, comparison.campaign.latest)
    return {
        "cells": (render.CELL_HEADER, [render.cell_fields(cell) for cell in comparison.cells]),
        "runs": (
            ("host", "run", "status", "attempt", "seconds", "issues"), _run_rows(comparison),
        ),
        "issues": _issues(comparison),
        "steady": _steady(comparison),
        "rounds": _rounds(comparison),
        "drift": _drift(comparison),
        "lsm": (flow.LEVELS_HEADER, [row for one in flows for row in one.levels]),
        "bottlenecks": (
            ("run", "phase", "label", "evidence"), bottleneck.rows(comparison.campaign),
        ),
        "costs": (costs.HEADER, costs.rows(comparison.campaign)),
        "ledger": (flow.LEDGER_HEADER, [row for one in flows for row in one.ledger]),
        "closures": (flow.CLOSURE_HEADER, [row for one in flows for row in one.closures]),
        "utilisation": _utilisation(comparison),
        "skipped": ((comparison.contrast, "reason"), list(comparison.skipped.items())),
        "differences": (
            ("group", "what", "baseline", "value", "consequence"),
            [
                (name, d.what, *d.texts, render.consequence(d))
                for name, found in comparison.differences.items() for d in found
            ],
        ),
        "environment": _environment(comparison),
        "recorded": _recorded(comparison),
    }  # fmt: skip


def _issues(comparison: Comparison) -> Table:
    rows: list[tuple[str, ...]] = [
        (run.name, issue.severity.value, issue.code, issue.phase or "", issue.message,
         _text(issue.expected), _text(issue.actual))
        for run in comparison.campaign.runs for issue in run.result.issues
    ]  # fmt: skip
    return ("run", "severity", "code", "phase", "message", "expected", "actual"), rows


def _steady(comparison: Comparison) -> Table:
    rows: list[tuple[str, ...]] = [
        (one.run.name, one.phase, one.steady.label.value, steady.window(one.steady))
        for one in comparison.steady
    ]
    return ("run", "phase", "label", "window"), rows


def _rounds(comparison: Comparison) -> Table:
    """Return how throughput spreads between the runs of a group and between the rounds of a run."""
    groups: dict[tuple[str, str, str], list[tuple[float, ...]]] = {}
    for one in comparison.steady:
        value, stratum = group_label(one.run, comparison)
        groups.setdefault((one.phase, value, stratum), []).append(one.steady.throughputs)
    rows: list[tuple[str, ...]] = []
    for (phase, value, stratum), values in sorted(groups.items()):
        found = rounds.components(values)
        if found is not None:
            mean = float(found.interval.center)
            spreads = (_percent(part**0.5 / mean) for part in (found.between, found.within))
            rows.append((
                phase, value, stratum, str(found.runs), str(found.rounds), *spreads,
                _percent(found.share_between),
            ))  # fmt: skip
    return (
        "phase", comparison.contrast, "stratum", "runs", "rounds", "spread between runs",
        "spread within runs", "share of variance between runs",
    ), rows  # fmt: skip


def _drift(comparison: Comparison) -> Table:
    rows: list[tuple[str, ...]] = [
        (d.metric, _percent(d.change), _percent(d.low), _percent(d.high), str(d.runs),
         f"{d.p_value:.2g}", f"{d.p_holm:.2g}", "drift" if d.shown else "none shown")
        for d in comparison.drifts
    ]  # fmt: skip
    return (
        "metric", "from first run to last", "low", "high", "runs", "p", "Holm p", "verdict",
    ), rows  # fmt: skip


def _utilisation(comparison: Comparison) -> Table:
    rows: list[tuple[str, ...]] = []
    for run in comparison.campaign.runs:
        u = run.result.utilisation
        if u is not None:
            rows.append((
                run.name, run.result.status.value, _percent(u.target), _percent(u.u_ns),
                _percent(u.u_drive), units.human(u.live_bytes, "B"),
                units.human(u.allocated_bytes, "B"),
            ))  # fmt: skip
    return ("run", "status", "target", "u_ns", "u_drive", "live (V)", "allocated (A)"), rows


def _environment(comparison: Comparison) -> Table:
    plan = comparison.campaign.plan
    facts = []
    for host in plan.hosts:
        h, d = host.inspection.host, host.inspection.device
        facts.append({
            "kernel": h.kernel, "system": h.os, "CPUs": str(h.cpus),
            "memory": units.human(h.memory_bytes, "B"), "RocksDB": h.rocksdb,
            "device": f"{d.model} ({d.kind.value}), {d.identity.key}",
            "zones": _zones(d.zones, d.zone_size, d.zone_capacity),
            "capacity": units.human(d.capacity, "B"),
            "open / active limit": f"{_text(d.max_open_zones)} / {_text(d.max_active_zones)}",
        })  # fmt: skip
    names = facts[0] if facts else {}
    header = ("", *(host.host for host in plan.hosts))
    return header, [(name, *(fact[name] for fact in facts)) for name in names]


def _recorded(comparison: Comparison) -> Table:
    """Return every fingerprint key with its values over the ok runs; more than one is visible."""
    runs = [run for run in comparison.campaign.latest if run.ok]
    found = comparability.gathered(
        comparability.fingerprint(comparison.campaign, run) for run in runs
    )
    rows: list[tuple[str, ...]] = [(key, " | ".join(sorted(found[key]))) for key in sorted(found)]
    return ("key", "values of the ok runs"), rows


def _zones(count: int | None, size: int | None, capacity: int | None) -> str:
    if count is None:
        return "none (conventional)"
    return f"{count} x {units.human(size, 'B')}, capacity {units.human(capacity, 'B')}"


def _percent(value: float | None) -> str:
    return units.DASH if value is None else f"{100 * value:.2f} %"


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _run_rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """Return (host, run, status, attempt, seconds, issue codes): all attempts, missing runs."""
    rows: list[tuple[str, ...]] = [
        (
            run.host, run.name, run.result.status.value, str(run.result.attempt),
            f"{run.result.seconds:.0f}", ", ".join(issue.code for issue in run.result.issues),
        )
        for run in comparison.campaign.runs
    ]  # fmt: skip
    rows += [(p.host, p.spec.run, "missing", "", "", "") for p in comparison.campaign.missing]
    return rows
