"""What happened when: series, zones, steady state, drift, bottlenecks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from analysis import figures, zones_figure
from analysis.sections.base import Context, Grid, Heading, Part, Plots, Section, Text, without_runs

ID, TITLE = "series", "Over time"


def section(context: Context) -> Section:
    """Return one figure per level, its zones where they were traced, and what follows of them."""
    none = without_runs(ID, TITLE, context)
    if none is not None:
        return none
    comparison, groups = context.comparison, context.groups
    lines = [figures.Lines.of(group) for group in groups]
    limits = figures.series_limits(lines)
    parts: list[Part] = [
        Plots([
            figures.series(comparison, group, own, limits)
            for group, own in zip(groups, lines, strict=True)
        ])
    ]  # fmt: skip
    zones = [zones_figure.timeline(comparison, group) for group in groups]
    if any(plot.svg for plot in zones):
        parts += [Heading("zones", "Zones"), Plots(zones)]
    parts.append(Heading("steady", "Steady state"))
    header, rows = context.tables["steady"]
    if rows:
        parts += [
            Text(_counted(rows)),
            Grid("steady", header, rows, source="series/{phase}.csv", method="steady-state",
                 folded="Every run and phase"),
        ]  # fmt: skip
    else:
        parts.append(Text("No ok run has a measured phase."))
    parts += [_rounds(context), _drift(context), *_bottlenecks(context)]
    return Section(ID, TITLE, parts)


def _rounds(context: Context) -> Grid:
    return Grid("rounds", *context.tables["rounds"], method="rounds",
                folded="Throughput between runs and within them")  # fmt: skip


def _drift(context: Context) -> Grid:
    header, rows = context.tables["drift"]
    shown = sum(row[-1] == "drift" for row in rows)
    return Grid(
        "drift", header, rows, opened=shown > 0, method="drift",
        folded=f"Drift over the campaign: {shown} of {len(rows)} metrics",
    )  # fmt: skip


def _bottlenecks(context: Context) -> list[Part]:
    header, rows = context.tables["bottlenecks"]
    if not rows:
        return []
    return [
        Heading("bottlenecks", "Bottlenecks"),
        Text("A reading of each phase's own numbers; no verdict depends on it.", soft=True),
        Text(_counted(rows)),
        Grid("bottlenecks", header, rows, folded="Every run and phase", method="bottleneck"),
    ]


def _counted(rows: Sequence[Sequence[str]]) -> str:
    """Say how many runs have which label in each phase; rows begin with run, phase, label."""
    phases: dict[str, Counter[str]] = {}
    for _, phase, label, *_ in rows:
        phases.setdefault(phase, Counter())[label] += 1
    return "; ".join(
        f"{phase}: {', '.join(f'{count} {label}' for label, count in labels.most_common())}"
        for phase, labels in phases.items()
    )
